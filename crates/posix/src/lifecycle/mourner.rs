//! Who waits beside the keeper for the one thing the keeper can't attend to: that it is killed itself. Then nobody is there any more
//! to close what processes leave open, so the world ends, as it does when somebody is killed in the middle of the stack's work
//! ([`crash_reset`]): its peers are reset, and the program has `ENETDOWN`.

use crate::lifecycle::summons::Summons;
use crate::lifecycle::{crash_reset, ending};
use crate::world::end::End;
use crate::world::lock;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::{OwnedFd, RawFd};

/// The keeper's line to it.
pub(crate) struct Mourner(OwnedFd);

impl Mourner {
    /// Forks it from the keeper. `None`: the machine has no room for it, and the keeper does without. `successor` and `summons`: as the
    /// keeper's.
    pub(crate) fn start(successor: RawFd, summons: Summons) -> Option<Mourner> {
        let (keepers, line) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
        // SAFETY: the keeper has one thread.
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
            // The keeper may have ended for what it found there.
            crate::sys::watchdog::arm();
            lock::give_up(End::Killed);
            crash_reset::publish(successor);
            ending::end_all(summons);
        }
        // SAFETY: ends the process without the program's handlers.
        unsafe { libc::_exit(0) }
    }

    /// The keeper ends. Returns when the mourner has: it holds the card, and the address, as the keeper does.
    pub(crate) fn dismiss(self) {
        if send(&self.0, b"!", SendFlags::NOSIGNAL).is_ok() {
            while matches!(recv(&self.0, &mut [0; 1], RecvFlags::empty()), Err(Errno::INTR)) {}
        }
    }
}
