//! [`MemifError`]: why there is no connection; [`Violation`]: why there is none any more.

use std::io;
use std::path::PathBuf;

/// Why there is no connection. The text names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemifError {
    /// The socket can't be listened on or connected to.
    #[error("memif socket {}: {what}: {source}{}", path.display(), socket_remedy(source))]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Another program listens on the socket.
    #[error("memif socket {}: another program listens there: stop it, or choose another socket", path.display())]
    Occupied {
        /// Its path.
        path: PathBuf,
    },
    /// The peer did something that is not allowed, or not supported.
    #[error("the memif peer was refused: {what}")]
    Refused {
        /// What.
        what: String,
    },
    /// The peer ended it.
    #[error("the memif peer disconnected: {reason}")]
    Disconnected {
        /// Its reason.
        reason: String,
    },
    /// The peer hung up.
    #[error("the memif peer hung up")]
    Gone,
    /// The peer, or any peer, took too long.
    #[error("the memif peer did not answer in time")]
    Silent,
    /// The master has fewer rings.
    #[error("the memif master offers {available} queues, not {wanted}: ask for fewer")]
    TooFewQueues {
        /// Wanted.
        wanted: u16,
        /// Offered.
        available: u16,
    },
    /// A setting makes no sense.
    #[error("{reason}")]
    Invalid {
        /// What and why.
        reason: String,
    },
    /// Anything else the system said.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl MemifError {
    pub(super) fn refused(what: impl Into<String>) -> MemifError {
        MemifError::Refused { what: what.into() }
    }

    pub(super) fn system(what: &'static str, source: io::Error) -> MemifError {
        MemifError::System { what, source }
    }
}

/// What to do about a socket that can't be used, if that is known.
fn socket_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "; start the other end, the master, first",
        _ => "",
    }
}

/// How a connected peer broke the rules: it is cut off, at once and for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// A ring position moved back, or past what it may reach.
    #[error("it moved a ring position out of range")]
    Index,
    /// A descriptor names a region there isn't.
    #[error("it named a region there isn't")]
    Region,
    /// A descriptor reaches beyond its region, or a packet beyond its buffer.
    #[error("it named bytes beyond a buffer")]
    Extent,
    /// A packet of more pieces than any packet has, or without an end.
    #[error("it sent a packet without an end")]
    Chain,
}
