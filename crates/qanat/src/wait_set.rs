//! Doorbells and what waits on them (Arrakis' `event_wait_queues`).
//!
//! A [`Doorbell`] is an event another thread or a signal handler's thread rings; a [`WaitSet`] sleeps on doorbells,
//! device queues and any other descriptors at once. Descriptors are level-triggered: an event between the last look
//! and the wait is never lost.

use qanat_nic::Vnic;
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
    /// High-priority ones first.
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    fd: OwnedFd,
    token: u64,
    is_urgent: bool,
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
        self.members.push(Member { fd: fd.try_clone_to_owned()?, token, is_urgent: false });
        Ok(())
    }

    /// As [`add`](WaitSet::add), for an event that is told of before all that are not: a high-priority queue's, say.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn add_urgent(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let fd = fd.try_clone_to_owned()?;
        let place = self.members.iter().take_while(|member| member.is_urgent).count();
        self.members.insert(place, Member { fd, token, is_urgent: true });
        Ok(())
    }

    /// Adds a queue: frames to be received on it yield `token`.
    ///
    /// # Errors
    /// Out of descriptors; `Unsupported` if the queue must be polled.
    pub fn add_queue(&mut self, queue: &dyn Vnic, token: u64, is_urgent: bool) -> io::Result<()> {
        let bell = queue.doorbell().ok_or(io::ErrorKind::Unsupported)?;
        if is_urgent { self.add_urgent(bell, token) } else { self.add(bell, token) }
    }

    /// Arrakis' `event_wait_queues`: sleeps until something has happened, at most `timeout`; tokens of what has are put into
    /// `happened`, urgent ones first.
    ///
    /// # Errors
    /// What `poll` says.
    pub fn event_wait_queues(&self, timeout: Option<Duration>, happened: &mut Vec<u64>) -> io::Result<()> {
        happened.clear();
        self.wait(None, timeout, |token| happened.push(token))
    }

    /// All that it waits for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.members.iter().map(|member| member.fd.as_fd())
    }

    /// What was added with `token`.
    pub(crate) fn of(&self, token: u64) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.members.iter().filter(move |member| member.token == token).map(|member| member.fd.as_fd())
    }

    /// Removes everything added with `token`.
    pub fn remove(&mut self, token: u64) {
        self.members.retain(|member| member.token != token);
    }

    /// Sleeps until a member or one of `extra` is readable, at most `timeout` (`None`: without limit). Calls `ready` with the
    /// token of each readable member. A signal ends the wait early.
    ///
    /// # Errors
    /// What `poll` says.
    pub fn wait<'a>(
        &self,
        extra: impl IntoIterator<Item = BorrowedFd<'a>>,
        timeout: Option<Duration>,
        mut ready: impl FnMut(u64),
    ) -> io::Result<()> {
        // A short vector per sleep: a sleeping program has time for it.
        let mut fds: Vec<PollFd<'_>> =
            self.members.iter().map(|member| PollFd::from_borrowed_fd(member.fd.as_fd(), PollFlags::IN)).collect();
        fds.extend(extra.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = timeout.map(|duration| Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (fd, member) in fds.iter().zip(&self.members) {
            if !fd.revents().is_empty() {
                ready(member.token);
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

    #[test]
    fn urgent_ones_are_told_of_first() {
        let bells: Vec<Doorbell> = (0..4).map(|_| Doorbell::new().unwrap()).collect();
        let mut set = WaitSet::new();
        for (bell, token) in bells.iter().zip(0..) {
            if token % 2 == 0 {
                set.add(bell.as_fd(), token).unwrap()
            } else {
                set.add_urgent(bell.as_fd(), token).unwrap()
            }
            bell.ring();
        }
        let mut happened = Vec::new();
        set.event_wait_queues(None, &mut happened).unwrap();
        assert_eq!(happened, [1, 3, 0, 2]);
        set.remove(3);
        bells[1].take();
        set.event_wait_queues(None, &mut happened).unwrap();
        assert_eq!(happened, [0, 2]);
    }
}
