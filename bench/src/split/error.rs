//! Why a server of the split placement's tables fails.

use crate::harness::HarnessError;
use qanat::AttachError;
use qanat::nic::memif::MemifError;
use qanat_web::StartError;
use std::io;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ServerError {
    #[error(transparent)]
    Memif(#[from] MemifError),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Processor(#[from] HarnessError),
    #[error(transparent)]
    Web(#[from] StartError),
    /// What a service says when it can't start.
    #[error("{0}")]
    Service(String),
    #[error("no queue")]
    NoQueue,
    #[error("frames that cannot be lent")]
    NotLent,
    #[error("no service")]
    NoService,
}
