//! Why a command was refused.

/// Why a command was refused.
///
/// ```
/// use qanat_api::CommandError;
///
/// // What can be tried again later is told from what can't.
/// let is_worth_a_retry = |error| matches!(error, CommandError::Full | CommandError::InUse);
/// assert!(is_worth_a_retry(CommandError::Full) && !is_worth_a_retry(CommandError::Stale));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandError {
    /// The handle's object is gone.
    #[error("the object is gone")]
    Stale,
    /// A limit of the stack is reached.
    #[error("a limit of the stack is reached")]
    Full,
    /// The address or port is taken.
    #[error("the address or port is in use")]
    InUse,
    /// Not one of the stack's own addresses, or no route to the peer.
    #[error("no such own address, or no route to the peer")]
    Unreachable,
    /// The connection's sending side is shut down, or it is not yet connected.
    #[error("the sending side is shut down")]
    NotSending,
    /// This placement does not have it: [`StackCapabilities`](crate::StackCapabilities) says so beforehand.
    #[error("this placement of the stack does not have it")]
    Unsupported,
    /// Longer than the protocol allows.
    #[error("longer than the protocol allows")]
    TooLong,
}
