//! Why a card does not move.

use crate::split::net_core::tenant::export::BelongingsError;
use qanat_control::protocol::Fault;
use qanat_nic::DeviceError;
use qanat_stack::snapshot;
use std::io;

/// Why a card does not move.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    #[error("it is not the daemon's")]
    NotDaemons,
    #[error("its service has not come yet")]
    NoService,
    #[error("its device is this process's own")]
    OwnDevice,
    #[error("{0}")]
    Write(snapshot::Fault),
    /// The queue can't be left now.
    #[error("{0}")]
    Queue(String),
    #[error("{0} frames are nobody's")]
    LostFrames(usize),
    #[error("what came of it can't be read: {0}")]
    Read(snapshot::Fault),
    #[error("{0} services")]
    Services(usize),
    #[error("frame memory: {0}")]
    FrameMemory(io::Error),
    #[error("copies: {0}")]
    Copies(io::Error),
    #[error("a service's descriptors are missing")]
    NoServiceDescriptors,
    #[error(transparent)]
    Belongings(BelongingsError),
    #[error(transparent)]
    Device(DeviceError),
    #[error("memory for its state: {0}")]
    StateMemory(io::Error),
    #[error("its state: {0}")]
    State(io::Error),
    #[error("its descriptors are missing")]
    NoDescriptors,
    #[error("its queue is missing")]
    NoQueue,
    #[error("the other net core has gone")]
    PeerGone,
    #[error(transparent)]
    Fault(Fault),
    /// The other net core refuses, in these words.
    #[error("{0}")]
    Refused(String),
    #[error("the other net core says what it should not")]
    PeerBroken,
    #[error("the other net core does not answer")]
    PeerSilent,
    #[error("the other net core is of another build")]
    OtherBuild,
    #[error("a service is just coming to it")]
    ServiceComing,
    #[error("there is no such card here")]
    NoSuchCard,
    #[error("it can't be taken")]
    NotTaken,
}

impl From<Fault> for MoveError {
    fn from(fault: Fault) -> MoveError {
        match fault {
            Fault::Closed => MoveError::PeerGone,
            fault => MoveError::Fault(fault),
        }
    }
}
