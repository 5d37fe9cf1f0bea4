//! The process that serves a disk's areas to applications, as the daemon knows it, and its applications.

use crate::clients::peer::Peer;
use qanat_control::disk_core::TenantStatistics;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;

/// Starts a disk core, which takes its orders from the socket.
pub type DiskCoreStarter = Arc<dyn Fn(OwnedFd) -> io::Result<Child> + Send + Sync>;

/// A disk core.
pub(super) struct DiskCore {
    pub(super) child: Child,
    /// Our end of its orders.
    pub(super) socket: OwnedFd,
    /// The number by which the loop watches it.
    pub(super) token: u64,
}

/// A process that has been started, and is not known to the loop yet.
#[derive(Debug)]
pub(super) struct StartedCore {
    pub(super) child: Child,
    /// Our end of its orders.
    pub(super) socket: OwnedFd,
}

/// Who waits for an area to be opened, and what is handed over then.
pub(super) struct Awaiting {
    /// The number of the endpoint.
    pub(super) token: u64,
    pub(super) about: String,
    /// The shared memory, and the application's end of the doorbell.
    pub(super) beside: [OwnedFd; 2],
}

/// An application that has an area, as long as its lease lasts: until neither the area nor the memory is used any more.
pub(super) struct Tenant {
    pub(super) area: u64,
    pub(super) peer: Peer,
    /// `None`: it has been answered.
    pub(super) awaiting: Option<Awaiting>,
    /// What it had done when the disk core was asked last.
    pub(super) statistics: TenantStatistics,
}
