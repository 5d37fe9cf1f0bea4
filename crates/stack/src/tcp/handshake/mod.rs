//! How a connection begins: half-open, by a SYN cookie, or with data on its SYN (Fast Open).

pub mod cookies;
pub mod fast_open;
pub mod fast_open_state;
pub mod half_open;
pub mod open;
pub mod parameters;
pub mod syn_cookie;
