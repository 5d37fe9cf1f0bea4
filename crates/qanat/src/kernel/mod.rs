//! The *kernel* placement: the same events and commands over the kernel's own TCP/IP, by io_uring, or by epoll where that is forbidden. No root, no interface and no card are
//! needed. It is what user-level stacks are to be compared with, and what there is where no device can be had.
//!
//! ```text
//!   Service ─ commands ─▶ Kernel ─ accept, receive, send ─▶ SocketEngine ─ one io_uring_enter a turn ─▶ the kernel's sockets
//!           ◀─ events ──         ◀──── completions ────────
//! ```
//! What differs for a service is said by [`StackCapabilities`](qanat_api::StackCapabilities): [`Event::Acked`](qanat_api::Event::Acked)
//! means that the kernel has taken bytes, not yet that the peer has them.

mod commands;
mod datagrams;
mod endpoint;
mod endpoints;
mod error;
mod figures;
mod options;
mod placement;
mod prepared;
mod runtime;
pub(crate) mod state;
mod stream;
mod streams;
mod table;
mod way_back;

pub use error::KernelError;
pub use figures::KernelFigures;
pub use options::KernelOptions;
pub use placement::KernelPlacement;
pub use runtime::KernelRuntime;
