//! How a connection begins: half-open, by a SYN cookie, or with data on its SYN (Fast Open).

pub mod fast_open;
pub mod half_open;
pub mod syn_cookie;
