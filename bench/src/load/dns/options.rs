//! Whom to ask, how fast, how long.

use crate::load::datagrams::pace::Pace;
use std::net::SocketAddr;
use std::time::Duration;

/// What to do.
#[derive(Clone, Debug)]
pub struct DnsLoadOptions {
    /// The server that answers.
    pub target: SocketAddr,
    /// The target is an echo. A question that comes back counts as its answer, and no server can be faster.
    pub echoed: bool,
    /// Questions on their way at once, how fast, how long.
    pub pace: Pace,
}

impl DnsLoadOptions {
    /// One question after the other to `target`, for three seconds; an answer may take two.
    pub fn new(target: SocketAddr) -> DnsLoadOptions {
        let pace = Pace { timeout: Duration::from_secs(2), ..Pace::default() };
        DnsLoadOptions { target, echoed: false, pace }
    }
}
