//! Whoever is at the other end of a net core's sockets, before it is served.

use qanat_control::net_core::CardNumber;
use qanat_nic::Time;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a peer may take to say what it wants.
pub(crate) const PENDING_PATIENCE: Duration = Duration::from_secs(2);

/// Who is at the other end of a socket.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub user: u32,
    pub process: i32,
}

impl Who {
    pub(crate) fn at(socket: &OwnedFd) -> Option<Who> {
        let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
        Some(Who { user: peer.uid.as_raw(), process: peer.pid.as_raw_nonzero().get() })
    }
}

/// A service that the daemon has introduced.
#[derive(Clone, Copy)]
pub(crate) struct Introduced {
    pub card: CardNumber,
    pub user: u32,
    pub process: i32,
}

/// A peer that has connected and not yet said why.
pub(crate) struct Pending {
    pub socket: OwnedFd,
    pub since: Time,
    /// It may be served, not only told how things are.
    pub may_attach: bool,
    pub introduced: Option<Introduced>,
    /// The daemon charges the service's memory to its user until this is closed.
    pub lease: Option<OwnedFd>,
    /// Its user and process, if it has connected by itself.
    pub who: Option<Who>,
}

impl Pending {
    /// The service that a net core is for alone.
    pub(crate) fn owner(socket: OwnedFd, since: Time) -> Pending {
        let who = Who::at(&socket);
        Pending { socket, since, may_attach: true, introduced: None, lease: None, who }
    }
}
