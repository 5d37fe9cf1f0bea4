//! `qanat web`: a static web server on the native API, after Sandstorm (thesis, chapter 3).
//!
//! A file becomes a *prepared object*: its response's head and body as one stream of bytes, cut into frames whose
//! payload and sum are ready. To send a segment the stack writes headers before a ready payload; there is no socket
//! buffer, and a retransmission takes the same frame again.
//!
//! ```text
//!  Data ─▶ http::parse (in place) ─▶ Store (raw target) ─▶ Object ─▶ send_prepared ─▶ stack ─▶ Source::ready
//!                                       │ not there                                          (or fill)
//!                                       └─▶ reader thread: openat2, read, cut, sum ─▶ doorbell
//! ```
//!
//! * [`http`]: requests, conditions, ranges, negotiation: pure functions over bytes.
//! * [`content`]: files, prepared objects, the store with its memory budget.
//! * [`WebService`]: the [`Service`](qanat::Service).
#![forbid(unsafe_code)]

mod access_log;
mod config;
pub mod content;
mod figures;
pub mod http;
pub mod metrics;
mod readers;
mod rules;
mod service;

pub use config::{Caching, CopyMode, Https, Limits, WallClock, WebConfig, WebError};
pub use figures::Figures;
pub use qanat_store::{PolicyKind, ReadCacheFigures};
pub use rules::{
    BasicAuth, ConfigFile, ConfigFileError, ErrorPage, Fallback, Field, PasswordFileError, Redirect, Rewrite,
    RuleError, Rules, Site,
};
pub use service::{WebHandle, WebService};
