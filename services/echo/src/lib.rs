//! Echo, four ways: what a stack costs, and what none can beat. A fifth, [`DiskEcho`], goes by way of a disk.
//!
//! ```text
//!   raw      driver ─ swap addresses ─ driver                       the floor: no stack at all
//!   native   driver ─ stack ─ EchoService ─ stack ─ driver          the payload stays in the frame it came in
//!   copies   the same, with the payload copied out and in           what a POSIX interface would make of it
//!   kernel   socket ─ read ─ write ─ socket                         Linux, one datagram or a batch a call
//! ```
#![forbid(unsafe_code)]

mod disk;
mod figures;
pub mod kernel;
mod link;
mod raw;
mod service;

pub use disk::DiskEcho;
pub use figures::Figures;
pub use link::{LinkChoice, LinkChoiceError, OpenLink, own_mac};
pub use raw::{RawEcho, turn_around};
pub use service::{EchoConfig, EchoService};
