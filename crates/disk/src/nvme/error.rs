//! [`NvmeError`]: why a controller could not be brought up.

use super::queue::Violation;
use super::spec::Status;

/// Why a controller could not be brought up, or is no longer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NvmeError {
    /// All bits of its registers are set: there is nothing.
    #[error("the controller does not answer: it was taken away, or its memory is not enabled")]
    Absent,
    /// It did not become ready, or did not stop being so, in the time it said it takes.
    #[error("the controller did not {what} within {milliseconds} ms")]
    TimedOut {
        /// What was waited for, as a verb.
        what: &'static str,
        /// How long.
        milliseconds: u64,
    },
    /// It says that it has failed (CSTS.CFS).
    #[error("the controller says that it has failed; its queues' addresses and sizes may be none it can use")]
    Failed,
    /// It refused a command that bring-up takes.
    #[error("the controller refused {what}: {status:?}")]
    Refused {
        /// Which.
        what: &'static str,
        /// How.
        status: Status,
    },
    /// It said what can't be.
    #[error("the controller broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// It is one that this driver has nothing for.
    #[error("{0}")]
    Unsupported(String),
    /// The driver's memory is too little, or lies where it can't.
    #[error("{0}")]
    Memory(String),
}
