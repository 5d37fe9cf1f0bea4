//! Doorbells and what waits on them (Arrakis' `event_wait_queues`).
//!
//! A [`Doorbell`] is an event another thread or a signal handler's thread rings; a [`WaitSet`] sleeps on doorbells,
//! device queues and any other descriptors at once. Descriptors are level-triggered: an event between the last look
//! and the wait is never lost.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// An event end-point: rung from any thread, waited for by one. Clones ring the same bell.
#[derive(Clone, Debug)]
pub struct Doorbell {
    fd: Arc<OwnedFd>,
}

impl Doorbell {
    /// A silent doorbell.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn new() -> io::Result<Doorbell> {
        Ok(Doorbell { fd: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Wakes whoever waits; any number of rings before it looks are one.
    pub fn ring(&self) {
        // EAGAIN: the counter is at its maximum, so it is readable all the same.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Silences the bell; whether it had rung.
    pub fn take(&self) -> bool {
        let mut count = [0; 8];
        matches!(rustix::io::read(&self.fd, &mut count), Ok(8))
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Descriptors to wait for, each with a token of its owner's.
#[derive(Debug, Default)]
pub struct WaitSet {
    members: Vec<(OwnedFd, u64)>,
}

impl WaitSet {
    /// An empty set.
    pub fn new() -> WaitSet {
        WaitSet::default()
    }

    /// Adds a duplicate of `fd`: readable, it yields `token`.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn add(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.members.push((fd.try_clone_to_owned()?, token));
        Ok(())
    }

    /// Removes everything added with `token`.
    pub fn remove(&mut self, token: u64) {
        self.members.retain(|(_, member)| *member != token);
    }

    /// Sleeps until a member or `extra` is readable, at most `timeout` (`None`: without limit). Calls `ready` with the
    /// token of each readable member. A signal ends the wait early.
    ///
    /// # Errors
    /// What `poll` says.
    pub fn wait(
        &self,
        extra: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
        mut ready: impl FnMut(u64),
    ) -> io::Result<()> {
        // A short vector per sleep: a sleeping program has time for it.
        let mut fds: Vec<PollFd<'_>> =
            self.members.iter().map(|(fd, _)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        if let Some(fd) = extra {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let timeout = timeout.map(|duration| Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (fd, (_, token)) in fds.iter().zip(&self.members) {
            if !fd.revents().is_empty() {
                ready(*token);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_not_lost_and_count_once() {
        let bell = Doorbell::new().unwrap();
        let mut set = WaitSet::new();
        set.add(bell.as_fd(), 7).unwrap();
        bell.ring();
        bell.ring();
        let mut tokens = Vec::new();
        set.wait(None, None, |token| tokens.push(token)).unwrap();
        assert_eq!(tokens, [7]);
        assert!(bell.take());
        assert!(!bell.take());
        set.wait(None, Some(Duration::from_millis(1)), |_| panic!("nothing rang")).unwrap();
    }
}
