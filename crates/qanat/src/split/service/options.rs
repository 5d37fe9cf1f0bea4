//! Which net cores a service is attached to, and how they are reached.

use crate::split::handshake::{Attach, abi_layout};
use qanat_abi::VERSION;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long giving connections up may take.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// Finds, or starts, a net core: a connected socket to it. Called from another thread when one has been lost: it may take its
/// time.
pub type Connector = Box<dyn FnMut() -> io::Result<OwnedFd> + Send>;

/// Which net core, and what of it.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// The service's name, for `qanat status`.
    pub name: String,
    /// The card, by an address it has; `None`: the first that is free.
    pub address: Option<IpAddr>,
    /// Connections at most.
    pub connections_max: usize,
    /// Ports that connections to others start from; `None`: the stack's usual ones.
    pub ephemeral_ports: Option<RangeInclusive<u16>>,
    /// Share the card and its listeners with other services of this user that want it so.
    pub share: bool,
    /// A service that shares a card and is to stop gives its connections up to the others: how long that may take. Zero: they
    /// are reset.
    pub leave_patience: Duration,
}

impl SplitOptions {
    /// Any card, for 16,384 connections.
    pub fn new(name: &str) -> SplitOptions {
        SplitOptions {
            name: name.to_owned(),
            address: None,
            connections_max: 16_384,
            ephemeral_ports: None,
            share: false,
            leave_patience: LEAVE_PATIENCE,
        }
    }

    /// What is said of them to a net core first.
    pub(crate) fn attach(&self) -> Attach {
        Attach {
            version: VERSION,
            layout: abi_layout(),
            name: self.name.clone(),
            address: self.address,
            connections: u32::try_from(self.connections_max).unwrap_or(u32::MAX),
            share: self.share,
            ephemeral_ports: self.ephemeral_ports.as_ref().map(|ports| (*ports.start(), *ports.end())),
        }
    }
}
