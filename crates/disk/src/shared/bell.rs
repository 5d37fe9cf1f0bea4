//! The doorbell of either side: one end of a pair of sockets, on which a byte wakes who sleeps. Each call says by itself that it does not
//! wait: nobody else's flags count.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Packets taken at one look. A peer that rings without end is heard again at the next.
const PACKETS_MAX: usize = 16;

/// One end of it.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new(socket: OwnedFd) -> Bell {
        Bell(socket)
    }

    /// Wakes the other side.
    pub(super) fn ring(&self) {
        // Full: it has enough to wake up for. Gone: its end is seen at the next look.
        let _ = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Takes the rings that have come; `false`: the other side is gone.
    pub(super) fn silence(&self) -> bool {
        for _ in 0..PACKETS_MAX {
            match recv(&self.0, &mut [0_u8; 16], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether the other side is there; rings stay.
    pub(super) fn is_connected(&self) -> bool {
        match recv(&self.0, &mut [0_u8; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok((length, _)) => length > 0,
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn rings_without_end_block_nobody_and_an_end_is_seen() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (ours, theirs) = (Bell::new(ours), Bell::new(theirs));
        // Far more than the socket holds: none waits.
        (0..100_000).for_each(|_| theirs.ring());
        assert!(ours.silence() && ours.is_connected());
        drop(theirs);
        assert!((0..1_000_000).any(|_| !ours.silence()) && !ours.is_connected());
        ours.ring();
    }
}
