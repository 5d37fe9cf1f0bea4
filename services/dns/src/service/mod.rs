//! The server on the native API: datagrams are answered in the frame that they came in, and streams message by message.
//!
//! ```text
//!   events ─┬─ datagram ─┐
//!           └─ stream ───┴─ server: state, figures, log ── answer, transfer
//! ```

mod config;
mod datagram;
mod events;
mod figures;
mod look_ahead;
pub mod metrics;
mod query_log;
mod rate_limit;
mod server;
mod stream;
mod streams;

pub use crate::counted::{RCODES, TYPES};
pub use crate::publish::{CatalogPublisher, CatalogReader};
pub use config::{ConfigError, DnsConfig, FileConfig, IDENTITY_BYTES_MAX, LogConfig, TcpLimits, ZoneFile, ZoneRules};
pub use figures::Figures;
pub use query_log::QueryLogError;
pub use rate_limit::{Decision, RateLimiter, RateLimits};
pub use server::DnsService;
