//! Frame formats: checked views and owned representations. Never panics on any bytes.
#![forbid(unsafe_code)]
pub mod ethernet;
