//! Why a command was refused.

use std::fmt;

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// The handle's object is gone.
    Stale,
    /// A limit of the stack is reached.
    Full,
    /// The address or port is taken.
    InUse,
    /// Not one of the stack's own addresses, or no route to the peer.
    Unreachable,
    /// The connection's sending side is shut down, or it is not yet connected.
    NotSending,
    /// Longer than the protocol allows.
    TooLong,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommandError::Stale => "the object is gone",
            CommandError::Full => "a limit of the stack is reached",
            CommandError::InUse => "the address or port is in use",
            CommandError::Unreachable => "no such own address, or no route to the peer",
            CommandError::NotSending => "the sending side is shut down",
            CommandError::TooLong => "longer than the protocol allows",
        })
    }
}

impl std::error::Error for CommandError {}
