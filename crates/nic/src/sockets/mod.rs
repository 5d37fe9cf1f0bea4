//! The kernel's own sockets: what the kernel placement of the native API is made of. By io_uring:
//!
//! ```text
//!   accept, receive ─ each goes on until it fails (multishot) ─▶ completions ─▶ Completion
//!        ▲ frames that the kernel may receive into (ring of buffers)                │
//!        └────────────── frames come home to their pool ◀────────── whoever has them┘
//!   send ─ what is sent is held here until its completion
//! ```
//! One system call starts all that was asked for since the last one, and makes the completions of what has happened. Where io_uring is
//! forbidden the same is done by epoll ([`SocketPoll`]), with a call for each. It is here because the kernel is handed addresses of
//! memory, which takes `unsafe`.

mod address;
mod buffers;
mod completion;
mod engine;
mod message;
mod open;
mod outgoing;
mod poll;
mod ring;
#[cfg(test)]
mod tests;

pub use completion::{Completion, ReceivedDatagram};
pub use engine::{SocketEngine, SocketEngineKind};
pub use open::{
    PortUse, SocketOption, connecting_socket, datagram_socket, has_six, listening_socket, peer_of, reset_on_close,
    set_option,
};
pub use outgoing::{Lent, OUTGOING_COPIED_MAX, OUTGOING_PIECES_MAX, Outgoing};
pub use poll::SocketPoll;
pub use ring::{SocketRing, SocketRingError};
