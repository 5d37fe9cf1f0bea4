//! Shared helpers of the end-to-end tests.
#![forbid(unsafe_code)]

pub mod e2e;
pub mod random;
pub mod script;
pub mod sim;
pub mod smoltcp_device;
