//! Static web service.
#![forbid(unsafe_code)]

mod config;
mod figures;
pub mod http;

pub use config::{CopyMode, Limits, Site, StartError, WallClock, WebConfig};
pub use figures::Figures;
