//! Who is at the other end of a descriptor of the loop, and what the descriptor is.

use crate::policy::Standing;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// A handle, as it is known when it comes back: nothing but the very socket has these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Of its file: gone from the list of sockets when nobody holds it any more.
    pub(crate) inode: u64,
    /// Never given to a second socket as long as the system runs.
    pub(crate) cookie: u64,
}

/// Whose a connection or handle is, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// Its rights are this user's.
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) process: i32,
    /// What it has counts to this account: the one that has the user's number for its namespaces. `None`: to the user.
    #[serde(default)]
    pub(crate) account: Option<u32>,
    /// What it may have. Of sessions alone: a handle has the rule of its VNIC.
    #[serde(skip)]
    pub(crate) standing: Standing,
}

impl Peer {
    pub(crate) const fn new(user: u32, group: u32, process: i32) -> Peer {
        Peer { user, group, process, account: None, standing: Standing::NoRule }
    }

    /// Whose limits its requests count to.
    pub(crate) fn account(&self) -> u32 {
        self.account.unwrap_or(self.user)
    }
}

/// What a descriptor of the loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Listener,
    Metrics,
    Stop,
    Session,
    /// A process that was given a handle.
    Process,
    /// A VNIC's handle.
    Vnic(u32),
    /// A filter's handle.
    Filter(u64),
    /// Interfaces have changed.
    Links,
    /// A net core of ours.
    NetCore(usize),
    /// The memory of a service on one.
    Lease,
    /// A process that receives a user's descriptors.
    Porter,
    /// The thread that looks names up.
    Registrar,
    /// The disks' threads.
    Disks,
    /// The core of a disk, by the disk's number.
    DiskCore(u32),
    /// An application that has an area: the disk's number, and its own.
    AreaLease(u32, u64),
}

pub(crate) struct Endpoint {
    pub(crate) fd: OwnedFd,
    pub(crate) role: Role,
    pub(crate) peer: Peer,
    /// Of the end given away: how a handle that comes back is known.
    pub(crate) identity: Option<Identity>,
    /// Descriptors may wait in its queue: it is not read, nor closed, without a look.
    pub(crate) takes_rights: bool,
    /// It is not read here: a porter reads it, or there is no room for who comes.
    pub(crate) is_suspended: bool,
    /// The turn in which it was served last.
    pub(crate) served: u64,
}
