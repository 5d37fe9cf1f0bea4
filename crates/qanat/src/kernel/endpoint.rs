//! [`Endpoint`]: one socket of the kernel's that a service listens at.

use qanat_api::{ListenerId, UdpSocketId};
use qanat_nic::Time;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Whose an endpoint is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Listener(ListenerId),
    Datagrams(UdpSocketId),
}

/// One socket of the kernel's.
pub(super) struct Endpoint {
    pub(super) socket: OwnedFd,
    pub(super) local: SocketAddr,
    pub(super) owner: Owner,
    /// The kernel accepts, or receives.
    pub(super) is_armed: bool,
    /// It is closed when the kernel does so no more.
    pub(super) is_closing: bool,
    /// It is armed again then.
    pub(super) rests_until: Option<Time>,
}
