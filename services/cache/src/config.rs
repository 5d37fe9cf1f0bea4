//! [`CacheConfig`]: what a cache is made of.

use crate::engine::settings::Settings;
use crate::engine::state::Engine;
use qanat_control::filter::Addresses;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The port of TCP.
    pub port: u16,
    /// Also at IPv6 addresses.
    pub serves_six: bool,
    /// Where datagrams are answered; `None`: nowhere.
    pub datagrams: Option<Datagrams>,
    /// What an operator says.
    pub settings: Settings,
    /// Items of the service before this one.
    pub kept: Kept,
}

/// Where a service leaves its items when it ends, for the one that takes its place: a cache that loses its card loses no items. Clones are
/// the same place.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<Option<Engine>>>);

impl Kept {
    /// What was left, if anything was.
    pub(crate) fn take(&self) -> Option<Engine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Leaves it.
    pub(crate) fn leave(&self, engine: Engine) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
    }
}

/// Where and for whom datagrams are answered.
#[derive(Clone, Debug)]
pub struct Datagrams {
    /// The port.
    pub port: u16,
    /// Who gets answers that are longer than the question.
    pub trusted: Vec<Addresses>,
}

impl Datagrams {
    /// Whether a peer gets them.
    pub fn trusts(&self, peer: &SocketAddr) -> bool {
        let peer = Addresses::host(peer.ip());
        self.trusted.iter().any(|addresses| addresses.contains(peer))
    }
}
