//! The split placement: the stack in another process, the *net core*; no system call between them while both are busy.
//!
//! ```text
//!   service process                           net core process (confined, unprivileged)
//!   Service ◀ Event ── Remote ◀═ event ring ═══ Tenant ── Stack ── Vnic
//!           ─ command ▶       ═ command ring ═▶
//!           received frames: mapped read-only ◀── the card writes them
//!           transmit memory: mapped writable  ──▶ mapped read-only; headers are elsewhere, and not mapped
//! ```
//! * [`NetCore`] runs a loop over its cards; each card serves one attached service (`tenant.rs`), or several
//!   that share its listeners (`tenancy.rs`, `accept.rs`), with a stack and received
//!   frames of its own, so that no service sees another's packets, or holds another's credits.
//! * [`SplitRuntime`] runs a [`Service`](crate::Service) as [`Runtime`](crate::Runtime) does: `remote.rs` stands for the
//!   stack, `remotes.rs` for those of several net cores, `streams.rs` keeps what a connection has been given to send.
//! * What lies in shared memory is in `qanat-abi`.

mod accept;
mod bell;
mod card_end;
mod code;
mod commands;
mod director;
mod handshake;
#[cfg(feature = "harness")]
pub mod harness;
#[cfg(test)]
mod hoarding;
mod leave;
mod lending;
mod link;
mod memory;
#[cfg(test)]
mod moved;
mod moving;
mod net_core;
mod parting;
mod places;
mod received;
mod remote;
mod remotes;
mod runtime;
mod seek;
mod streams;
mod tenancy;
mod tenant;
mod timers;

pub use accept::AcceptPolicy;
pub use handshake::{ABI_VERSION, CardStatus, NetCoreStatus, ServiceStatus, abi_layout};
pub use net_core::{Card, NetCore, NetCoreOptions, ask_status};
pub use remote::RemoteFigures;
pub(crate) use remotes::Remotes;
pub use runtime::{Connector, PATIENCE, SplitError, SplitOptions, SplitRuntime};
pub use seek::Refusal;
