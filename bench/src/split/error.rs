//! Why a server of the split placement's tables fails.

use crate::harness::HarnessError;
use qanat::nic::memif::MemifError;
use qanat::{AttachError, StartError};
use qanat_web::WebError;
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
    Web(#[from] WebError),
    /// The service can't start.
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("no queue")]
    NoQueue,
    #[error("frames that cannot be lent")]
    NotLent,
    #[error("no service")]
    NoService,
}
