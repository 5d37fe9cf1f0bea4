//! The directory that a service exports, for conventional programs to read.
//!
//! ```text
//!   service (root) ── prepare ── export-keeper (claims the directory)         once there are rights
//!   service (nobody) ── serves on /dev/fuse ── keeper: attaches, looks each second, unmounts
//! ```
//! The service gives up its rights, so it could not unmount at its end. The *keeper* is a process that keeps this one right. It unmounts when
//! the service has ended, however it did, and when it is silent for so long that readers would hang.

mod arguments;
pub mod keeper;
mod session;
mod words;

pub use arguments::ExportArguments;
pub use session::Export;
