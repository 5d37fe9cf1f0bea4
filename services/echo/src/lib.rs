//! Echo, four ways: what a stack costs, and what none can beat.
//!
//! ```text
//!   raw      driver ─ swap addresses ─ driver                       the floor: no stack at all
//!   native   driver ─ stack ─ EchoService ─ stack ─ driver          the payload stays in the frame it came in
//!   copies   the same, with the payload copied out and in           what a POSIX interface would make of it
//!   kernel   socket ─ read ─ write ─ socket                         Linux, one datagram or a batch a call
//! ```
#![forbid(unsafe_code)]

pub mod kernel;
mod link;
mod raw;
mod service;

pub use link::{LinkChoice, OpenLink, own_mac};
pub use raw::{RawEcho, turn_around};
pub use service::{EchoConfig, EchoService};

use serde::{Deserialize, Serialize};

/// What an echo has done since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Packets, datagrams or pieces of a stream sent back.
    pub echoed: u64,
    /// Bytes in them: of frames when raw, else of payload.
    pub bytes: u64,
    /// Not sent back: malformed, or there was no room.
    pub dropped: u64,
    /// TCP connections open now.
    pub connections: u64,
}
