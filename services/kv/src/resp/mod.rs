//! Redis' protocol, RESP: requests are parsed where they lie, replies are written in version 2 or 3.

pub mod inline;
pub mod number;
pub mod reply;
pub mod request;
