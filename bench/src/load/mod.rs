//! Load generators. `http`, `echo` (UDP and TCP), `dns`, `values` (redis, memcached): closed and open loop, over our own stack or the kernel's.

pub mod attach;
pub mod datagrams;
pub mod dns;
pub mod duration;
pub mod echo;
pub mod engine;
pub mod exchanges;
pub mod figures;
pub mod http;
pub mod kernel;
pub mod mix;
pub mod native;
pub mod response;
pub mod schedule;
pub mod values;

pub use figures::{Figures, Report};
pub use http::{HttpLoadOptions, HttpPlan, LoadError};
