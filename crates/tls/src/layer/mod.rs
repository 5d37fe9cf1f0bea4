//! [`TlsLayer`]: between the stack and a service. What comes from the stack is opened, what the service sends is sealed.
//!
//! ```text
//!  stack ── Event (records) ──► TlsLayer::take … next ── Event (content) ──► service
//!        ◄── Commands ──────── TlsLayer::over         ◄── Commands ────────
//! ```
//! The service has one connection for each of the stack's, by the same handle. A connection that did not come to an encrypted port passes
//! as it is.
//!
//! # What is held for a connection
//! * Of what came: the chunks that were not opened yet, which keep the receive window shut, and the beginning of a record.
//! * What the service was given and has not given back: one record, and three more while there is memory.
//! * What is sealed: as much as the windows of peer and network let go at once, and 32 KiB more, so that something waits always. If the
//!   stack can't say how much that is: 128 KiB that are not acknowledged, more as the peer acknowledges, 2 MiB at most. What the service
//!   lent beyond that stays as it is.

mod blocks;
mod link;
mod over;
mod receiving;
mod sending;
mod shared;
mod tls_layer;

pub use over::Over;
pub use tls_layer::TlsLayer;

#[cfg(test)]
pub(crate) use shared::{AHEAD_BYTES_MAX, AHEAD_BYTES_MIN, UNSENT_BYTES};
