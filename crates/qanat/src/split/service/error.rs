//! Why a service has no net core.

use std::io;

/// What a [`Connector`](crate::split::Connector) fails with when it can't do better the next time: why, and the remedy.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Why there is no net core.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// It cannot be reached.
    #[error("no net core: {0}; `qanat net` starts one, and `--net SOCKET` names its socket")]
    Unreachable(#[source] io::Error),
    /// It refuses, in these words.
    #[error("the net core refuses: {0}")]
    Refused(String),
    /// What it gave cannot be used.
    #[error("the net core's memory: {0}")]
    Unusable(String),
    /// There is to be none. The text says why, and names the remedy.
    #[error("{0}")]
    Forbidden(String),
}
