//! [`IgbVfError`]: why a virtual function can't be had as a network card.

use crate::vfio::{PciAddress, VfioError};
use std::io;

/// Why a virtual function can't be had as a network card.
#[derive(Debug, thiserror::Error)]
pub enum IgbVfError {
    /// The function can't be driven.
    #[error(transparent)]
    Function(#[from] VfioError),
    /// The driver of the physical function does not answer.
    #[error(
        "{address}: the host's driver does not answer in the mailbox within {milliseconds} ms: is the interface of the physical \
         function up (`ip link set DEV up`)?"
    )]
    NoAnswer {
        /// The function's address.
        address: PciAddress,
        /// How long it was waited for.
        milliseconds: u64,
    },
    /// There is no memory for rings or frames.
    #[error("memory for {address}: {error}")]
    Memory {
        /// The function's address.
        address: PciAddress,
        /// Why.
        error: io::Error,
    },
    /// A setting makes no sense.
    #[error("{reason}")]
    Invalid {
        /// What and why.
        reason: String,
    },
}
