//! Static web service.
#![forbid(unsafe_code)]

mod access_log;
mod config;
pub mod content;
mod figures;
pub mod http;
mod readers;

pub use config::{CopyMode, Limits, Site, StartError, WallClock, WebConfig};
pub use figures::Figures;
