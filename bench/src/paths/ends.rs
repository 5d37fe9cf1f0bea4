//! What both sides of a path agree on, and how a side fails.

use qanat::{AttachError, RuntimeError};
use qanat_delay::DelayError;
use qanat_nic::DeviceError;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use thiserror::Error;

/// Why a side of a path failed, or a path could not be made.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("listening on {0} with CUBIC: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("connecting to {0} with CUBIC: {1}")]
    Connect(SocketAddr, io::Error),
    #[error("receiving: {0}")]
    Receive(io::Error),
    #[error("sending: {0}")]
    Send(io::Error),
    #[error("a doorbell: {0}")]
    Doorbell(io::Error),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Emulator(#[from] DelayError),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("a thread died")]
    ThreadDied,
    #[error("a side died")]
    SideDied,
    #[error("nothing arrived; {}", joined(_0))]
    NothingArrived(Vec<Failure>),
}

fn joined(failures: &[Failure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The port that servers listen on.
pub(super) const PORT: u16 = 5_001;
/// Our stack's address in the first namespace, beside the kernel's.
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 3);
/// Size of a download.
pub(super) const DOWNLOAD_BYTES: usize = 1 << 20;
