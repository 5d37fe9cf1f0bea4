//! [`SocketEngine`]: sockets of the kernel's, by whichever way this machine allows.

use super::completion::Completion;
use super::outgoing::{Lent, Outgoing};
use super::poll::SocketPoll;
use super::ring::{SocketRing, SocketRingError};
use crate::memory::Pool;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketEngineKind {
    /// io_uring: a call of the kernel starts all that was asked for since the last one.
    Ring,
    /// epoll: a call for each accept, receive and send.
    Poll,
}

/// One of the two. They promise the same; what is said here is said once, and more of it in [`SocketRing`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum SocketEngine {
    /// By io_uring.
    Ring(SocketRing),
    /// By epoll.
    Poll(SocketPoll),
}

/// The same of either.
macro_rules! either {
    ($engine:expr, $sockets:ident => $what:expr) => {
        match $engine {
            SocketEngine::Ring($sockets) => $what,
            SocketEngine::Poll($sockets) => $what,
        }
    };
}

impl SocketEngine {
    /// By io_uring, receiving into frames of `pool`, which has all of its region.
    ///
    /// # Errors
    /// [`SocketRingError`].
    pub fn ring(pool: Pool) -> Result<SocketEngine, SocketRingError> {
        SocketRing::new(pool).map(SocketEngine::Ring)
    }

    /// By epoll.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn poll(pool: Pool) -> io::Result<SocketEngine> {
        SocketPoll::new(pool).map(SocketEngine::Poll)
    }

    /// Which it is.
    pub fn kind(&self) -> SocketEngineKind {
        match self {
            SocketEngine::Ring(_) => SocketEngineKind::Ring,
            SocketEngine::Poll(_) => SocketEngineKind::Poll,
        }
    }

    /// Where received bytes are.
    pub fn pool(&self) -> &Pool {
        either!(self, sockets => sockets.pool())
    }

    /// Frames to receive into that nobody has.
    #[inline]
    pub fn frames_free(&self) -> u32 {
        either!(self, sockets => sockets.frames_free())
    }

    /// Whether there are completions that have not been looked at.
    #[inline]
    pub fn has_completions(&mut self) -> bool {
        either!(self, sockets => sockets.has_completions())
    }

    /// Askings that have not ended.
    pub fn under_way(&self) -> u64 {
        either!(self, sockets => sockets.under_way())
    }

    /// System calls so far.
    pub fn calls(&self) -> u64 {
        either!(self, sockets => sockets.calls())
    }

    /// Accepts connections until it fails.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, token: u32) {
        either!(self, sockets => sockets.accept(listener, token));
    }

    /// Receives a stream until it fails, or there is no frame to receive into.
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'_>, token: u32) {
        either!(self, sockets => sockets.receive(socket, token));
    }

    /// Receives datagrams until it fails, or there is no frame to receive into.
    pub fn receive_datagrams(&mut self, socket: BorrowedFd<'_>, token: u32) {
        either!(self, sockets => sockets.receive_datagrams(socket, token));
    }

    /// Sends on a stream what `fill` puts together; `false`: it was nothing. There is one send at a time on a stream.
    #[inline]
    pub fn send(&mut self, socket: BorrowedFd<'_>, token: u32, fill: impl FnOnce(&mut Outgoing)) -> bool {
        either!(self, sockets => sockets.send(socket, token, fill))
    }

    /// Sends a datagram, from an own address if that is said; `false`: there is no room, and it is lost.
    pub fn send_datagram(
        &mut self,
        socket: BorrowedFd<'_>,
        peer: SocketAddr,
        own: Option<IpAddr>,
        payload: Lent,
    ) -> bool {
        either!(self, sockets => sockets.send_datagram(socket, peer, own, payload))
    }

    /// Connects a socket.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, token: u32, peer: SocketAddr) {
        either!(self, sockets => sockets.connect(socket, token, peer));
    }

    /// Ends the receiving of a stream: a completion says so.
    pub fn stop_receiving(&mut self, socket: BorrowedFd<'_>, token: u32) {
        match self {
            SocketEngine::Ring(ring) => ring.stop_receiving(token),
            SocketEngine::Poll(poll) => poll.stop_receiving(socket),
        }
    }

    /// Ends all that is under way on a socket: completions say so.
    pub fn cancel(&mut self, socket: BorrowedFd<'_>) {
        either!(self, sockets => sockets.cancel(socket));
    }

    /// Tells once when a descriptor of somebody else's is readable.
    pub fn watch(&mut self, other: BorrowedFd<'_>) {
        either!(self, sockets => sockets.watch(other));
    }

    /// Forgets a watched descriptor.
    pub fn forget(&mut self, other: RawFd) {
        either!(self, sockets => sockets.forget(other));
    }

    /// Closes a socket that nothing is under way on.
    pub fn close(&mut self, socket: OwnedFd) {
        either!(self, sockets => sockets.close(socket));
    }

    /// Whether the kernel has to be called: something was asked for, or something has happened.
    #[inline]
    pub fn wants_enter(&mut self) -> bool {
        either!(self, sockets => sockets.wants_enter())
    }

    /// Calls the kernel: what was asked for starts, and what has happened is told by completions. Never blocks.
    #[inline]
    pub fn enter(&mut self) {
        either!(self, sockets => sockets.enter());
    }

    /// As [`enter`](SocketEngine::enter), and waits until something has happened, for so long at most.
    pub fn sleep(&mut self, most: Duration) {
        either!(self, sockets => sockets.sleep(most));
    }

    /// What the kernel has done, in order.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion> {
        either!(self, sockets => sockets.next_completion())
    }
}
