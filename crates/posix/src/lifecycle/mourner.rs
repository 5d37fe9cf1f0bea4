//! The *mourner* is a process that waits for the keeper's end. If the keeper is killed, nobody closes any more what processes leave open,
//! so the mourner ends the world, as happens when a process is killed in the middle of the stack's work ([`crash_reset`]): the peers
//! are reset, and the program gets `ENETDOWN`.

use crate::lifecycle::signal_sockets::SignalSockets;
use crate::lifecycle::{crash_reset, ending};
use crate::world::end::End;
use crate::world::lock;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::{OwnedFd, RawFd};

/// The keeper's connection to it.
pub(crate) struct Mourner(OwnedFd);

impl Mourner {
    /// Forks it from the keeper. `None`: the machine has no room for it, and the keeper does without one. It gets the keeper's
    /// `successor` and `signal_sockets`.
    pub(crate) fn start(successor: RawFd, signal_sockets: SignalSockets) -> Option<Mourner> {
        let (keepers, line) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
        // SAFETY: the keeper has one thread, so the child misses nobody's locks.
        match unsafe { crate::sys::libc_next::fork() } {
            -1 => return None,
            0 => crate::sys::local::forked(),
            _ => return Some(Mourner(keepers)),
        }
        drop(keepers);
        crate::sys::this_process::program::rename(c"qanat-mourner");
        let said = loop {
            match recv(&line, &mut [0; 1], RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                outcome => break outcome,
            }
        };
        if !said.is_ok_and(|(_, count)| count > 0) {
            // Whatever ended the keeper may end or hang this process as well.
            crate::sys::watchdog::arm();
            lock::give_up(End::Killed);
            crash_reset::publish(successor);
            ending::end_all(signal_sockets);
        }
        // SAFETY: the call ends the process without the program's handlers.
        unsafe { libc::_exit(0) }
    }

    /// The keeper ends by itself. Returns when the mourner has ended, too, because it holds the card and the address as the keeper does.
    pub(crate) fn dismiss(self) {
        if send(&self.0, b"!", SendFlags::NOSIGNAL).is_ok() {
            while matches!(recv(&self.0, &mut [0; 1], RecvFlags::empty()), Err(Errno::INTR)) {}
        }
    }
}
