//! [`IgbVf`]: a virtual function of an Intel 82576 as a [`Vnic`](crate::Vnic), over [VFIO](crate::vfio).
//!
//! ```text
//!  Vnic ── rings of descriptors in memory ── virtual function ─┐
//!    └──── mailbox: reset, address, filters ── the host's igb ─┴─ physical function ── wire
//! ```
//! The function is the program's; what it may send and receive is decided by the driver of the physical function, which the mailbox
//! asks. When that driver resets the card or goes down, it says so there (without "clear to send"), and everything is set anew.

mod bus;
mod device;
mod error;
mod groups;
mod handshake;
mod mailbox;
mod memory;
mod receive;
mod registers;
mod transmit;

pub use device::{IgbVf, IgbVfConfig, MTU};
pub use error::IgbVfError;
