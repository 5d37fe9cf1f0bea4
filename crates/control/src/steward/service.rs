//! The service's side: what it has its steward do.

use super::errand::{Duties, Errand, NoNetCore, StewardError, Word, channel};
use crate::protocol::{Fault, MESSAGE_BYTES_MAX, receive, send};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

/// A net core that has to be ended before the next one starts takes two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A service's side of the channel.
#[derive(Debug)]
pub(super) struct Channel(pub(super) OwnedFd);

/// The steward of this process, once it has one.
static STEWARD: OnceLock<Channel> = OnceLock::new();

/// Tells the steward at the other end of `channel` its duties, and waits until it is ready. From then on this process has connections to
/// the daemon, and net cores, by it.
///
/// # Errors
/// It isn't ready, and why.
pub fn begin(channel: OwnedFd, duties: Duties) -> Result<(), StewardError> {
    let failed = |fault: &Fault| StewardError::NotStarted(fault.to_string());
    send(channel.as_fd(), duties, &[]).map_err(|fault| failed(&fault))?;
    match receive(channel.as_fd(), &mut vec![0; MESSAGE_BYTES_MAX]) {
        Ok((Word::Done, _)) => {}
        Ok((Word::Failed { why, .. }, _)) => return Err(StewardError::NotStarted(why)),
        Err(fault) => return Err(failed(&fault)),
    }
    STEWARD.set(Channel(channel)).map_err(|_| StewardError::NotStarted("there is one already".to_owned()))
}

impl Channel {
    /// Has an errand done; the end over which the answer came.
    pub(super) fn send(&self, errand: Errand) -> Result<(OwnedFd, Vec<OwnedFd>), NoNetCore> {
        let gone = || io::Error::other("its steward, the process beside it, has ended: start the service again");
        let broken = |error: io::Error| NoNetCore { error, is_final: false };
        let (ours, its) = channel().map_err(broken)?;
        send(self.0.as_fd(), errand, &[its.as_fd()]).map_err(|_| broken(gone()))?;
        drop(its);
        // One that is silent hangs.
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE)).map_err(|error| broken(error.into()))?;
        let word = receive(ours.as_fd(), &mut vec![0; MESSAGE_BYTES_MAX]);
        set_socket_timeout(&ours, Timeout::Recv, None).map_err(|error| broken(error.into()))?;
        match word {
            Ok((Word::Done, beside)) => Ok((ours, beside)),
            Ok((Word::Failed { why, code, is_final }, _)) => {
                let error = code.map_or_else(|| io::Error::other(why), io::Error::from_raw_os_error);
                Err(NoNetCore { error, is_final })
            }
            Err(_) => Err(broken(gone())),
        }
    }
}

/// A connection to the daemon made by the steward; `None`: this process has none, and makes its own.
pub(crate) fn connect() -> Option<io::Result<OwnedFd>> {
    let steward = STEWARD.get()?;
    Some(steward.send(Errand::Daemon).map(|(socket, _)| socket).map_err(|failed| failed.error))
}

/// A socket to a net core, had by the steward.
///
/// # Errors
/// Why not; and if there is no steward.
pub fn net_core(number: usize) -> Result<OwnedFd, NoNetCore> {
    let none = || NoNetCore { error: io::ErrorKind::NotConnected.into(), is_final: true };
    let (own, mut beside) = STEWARD.get().ok_or_else(none)?.send(Errand::NetCore(number))?;
    Ok(beside.pop().unwrap_or(own))
}

/// Lets the steward go, if there is one, and waits until it has done what is to be done at the end.
pub fn farewell() {
    let Some(Channel(channel)) = STEWARD.get() else { return };
    // It has ended already: so much the better.
    let _ = send(channel.as_fd(), Errand::Farewell, &[]);
    let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(channel, PollFlags::RDHUP)], Some(&patience));
}
