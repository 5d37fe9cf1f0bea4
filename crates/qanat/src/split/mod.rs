//! The split placement: the stack in another process, the *net core*; no system call between them while both are busy.
//!
//! ```text
//!   service process                           net core process (confined, unprivileged)
//!   Service ◀ Event ── Remote ◀═ event ring ═══ Tenant ── Stack ── Vnic
//!           ─ command ▶       ═ command ring ═▶
//!           received frames: mapped read-only ◀── the card writes them
//!           transmit memory: mapped writable  ──▶ mapped read-only; headers are elsewhere, and not mapped
//! ```
//! * [`NetCore`] runs a loop over its cards; each card serves one attached service (`net_core/tenant.rs`), or several
//!   that share its listeners (`net_core/tenancy.rs`, `net_core/accept.rs`), with a stack and received
//!   frames of its own, so that no service sees another's packets, or holds another's credits.
//! * [`SplitRuntime`] runs a [`Service`](crate::Service) as [`Runtime`](crate::Runtime) does: `service/remote.rs` stands for the
//!   stack, `service/remotes.rs` for those of several net cores, `service/streams.rs` keeps what a connection has been given to send.
//! * What lies in shared memory is in `qanat-abi`.

mod code;
mod dial;
mod doorbell;
mod handshake;
#[cfg(feature = "harness")]
pub mod harness;
mod memory;
mod migration;
mod net_core;
mod of_daemon;
pub(crate) mod service;

pub use dial::ask_status;
pub use handshake::{ABI_VERSION, CardStatus, NetCoreStatus, ServiceStatus, abi_layout};
pub use net_core::accept::AcceptPolicy;
pub use net_core::card::Card;
pub use net_core::core::{NetCore, NetCoreOptions};
pub use of_daemon::daemons_net_core;
pub use service::error::{Refusal, SplitError};
pub use service::options::{Connector, SplitOptions};
pub use service::placement::{PATIENCE, SplitPlacement};
pub use service::remote::RemoteFigures;
pub use service::runtime::SplitRuntime;
