//! HTTP/1.1 as a static server needs it (RFC 9110, RFC 9112). Pure functions over bytes: no I/O, no state.

pub mod authorization;
pub mod condition;
pub mod date;
pub mod encoding;
mod lists;
pub mod parse;
pub mod range;
pub mod status;
pub mod target;

pub use parse::{HeaderStorage, Method, Outcome, ParseLimits, Rejection, Request, parse};
