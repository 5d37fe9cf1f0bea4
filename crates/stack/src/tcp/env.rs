//! What a connection needs of its surroundings.

use crate::tcp::config::TcpConfig;
use crate::tcp::counters::Counters;
use crate::tcp::handshake::cookies::CookieCache;
use crate::tcp::receive::memory::ReceiveMemory;
use qanat_api::Event;
use qanat_nic::Time;
use std::collections::VecDeque;

/// What a connection needs of its surroundings during one call.
pub struct Env<'a> {
    /// Time of the poll.
    pub now: Time,
    /// Where events go.
    pub events: &'a mut VecDeque<Event>,
    /// The stack's counters.
    pub counters: &'a mut Counters,
    /// Settings.
    pub config: &'a TcpConfig,
    /// The stack's budget for received bytes nobody has taken yet.
    pub memory: &'a mut ReceiveMemory,
    /// Cookies that servers gave (RFC 7413).
    pub cookies: &'a mut CookieCache,
}
