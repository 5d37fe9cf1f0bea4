//! How long a connection waits for its peer, how it finds out that the peer is gone, and how it ends.

mod ending;
mod keepalive;
pub mod lifecycle;
pub mod outcome;
pub mod patience;
mod user_timeout;
