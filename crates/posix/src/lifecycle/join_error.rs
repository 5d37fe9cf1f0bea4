//! Why a program can't join a world.

use crate::lifecycle::rendezvous::RendezvousError;
use rustix::io::Errno;
use std::os::fd::RawFd;

/// Why a program can't join a world.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    #[error(transparent)]
    System(#[from] Errno),
    /// The program's limits leave no room.
    #[error("{0}")]
    Shortage(String),
    #[error("no descriptor is left beside the program's own")]
    NoDescriptorLeft,
    #[error("the keeper does not answer")]
    NoAnswer,
    #[error("the keeper is gone")]
    KeeperGone,
    #[error("an answer that is none")]
    Malformed,
    #[error("no memory came")]
    NoMemory,
    #[error("no page came")]
    NoPage,
    #[error("no record")]
    NoRecord,
    #[error("memory: {0}")]
    Memory(std::io::Error),
    #[error("the world has fallen to another class meanwhile")]
    Fallen,
    /// The keeper is of another class.
    #[error("{0}")]
    Mismatch(String),
    #[error("it has a descriptor {0} already")]
    NumberTaken(RawFd),
    #[error("descriptor {0}: {1}")]
    Descriptor(RawFd, Errno),
}
