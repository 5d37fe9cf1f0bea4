//! [`Tap`]: a TAP device as a [`Vnic`](crate::Vnic), for peers behind the kernel of this machine.
//!
//! ```text
//!   kernel ── qanat0 10.77.0.1/24 (a TAP device) ══ descriptor ── the stack, 10.77.0.2
//! ```
//!
//! One `read` or `write` moves one packet, and a packet may be 64 KiB: a header before it (`header`) says how it is to be cut, and
//! nobody on this machine cuts it. The device takes trains ([`Train`](crate::Train)). A TAP device lives as long as its descriptor, so
//! nothing is left behind by whatever ends the process.

mod call;
mod device;
mod header;
mod queue;

pub use device::{
    HandedTap, TapConfig, TapDevice, create, delete, make, make_tun, open_persistent, random_address, set_persistent,
};
pub use queue::Tap;
