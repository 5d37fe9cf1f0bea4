//! [`Completion`]: what the kernel has done.

use crate::memory::Frame;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{OwnedFd, RawFd};

/// A datagram that was received whole.
#[derive(Debug)]
pub struct ReceivedDatagram {
    /// Its payload.
    pub frame: Frame,
    /// Who sent it.
    pub peer: SocketAddr,
    /// Which own address it came to; `None`: the socket has one address.
    pub own: Option<IpAddr>,
}

/// What the kernel has done. Tokens are those that were given with what was asked for. `goes_on`: more completions follow for the same
/// asking; if not, it has ended and is to be asked for again.
#[derive(Debug)]
pub enum Completion {
    /// A peer's connection.
    Accepted {
        /// Of the listener.
        token: u32,
        /// Its socket, or why there is none.
        outcome: Result<OwnedFd, Errno>,
        /// See above.
        goes_on: bool,
    },
    /// Bytes of a stream.
    Received {
        /// Of the stream.
        token: u32,
        /// The bytes; `None`: the peer sends no more.
        outcome: Result<Option<Frame>, Errno>,
        /// See above.
        goes_on: bool,
    },
    /// A datagram.
    Datagram {
        /// Of the socket.
        token: u32,
        /// The datagram; `None`: it was longer than a frame, and is lost.
        outcome: Result<Option<ReceivedDatagram>, Errno>,
        /// See above.
        goes_on: bool,
    },
    /// The kernel has taken bytes to send, the first so many of what it was given. What was lent for them is free.
    Sent {
        /// Of the stream.
        token: u32,
        /// How many.
        outcome: Result<usize, Errno>,
    },
    /// The kernel has taken a datagram, or has not.
    DatagramSent {
        /// Whether it has.
        outcome: Result<(), Errno>,
    },
    /// A descriptor that was watched is readable, or closed. It is not watched any more.
    Readable {
        /// Its number.
        other: RawFd,
    },
    /// A connection that was asked for is there, or is not.
    Connected {
        /// Of the stream.
        token: u32,
        /// Whether it is.
        outcome: Result<(), Errno>,
    },
}
