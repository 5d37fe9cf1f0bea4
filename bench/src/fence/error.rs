//! Why the fence can't be measured.

use crate::harness::HarnessError;
use qanat_control::ParseError;
use qanat_control::client::ClientError;
use qanat_daemon::DaemonError;
use qanat_daemon::policy::PolicyError;
use std::io;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum FenceError {
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Text(#[from] ParseError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Processor(#[from] HarnessError),
    #[error(transparent)]
    Histogram(#[from] hdrhistogram::CreationError),
    #[error("the gate drops what it should pass: {0}")]
    Dropped(String),
    #[error("the flood did not start")]
    NoFlood,
    #[error("the flood's card is gone")]
    NoFloodCard,
    #[error("the neighbour's thread has ended")]
    NoNeighbour,
    #[error("the stage is closed")]
    Closed,
}
