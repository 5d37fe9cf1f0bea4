//! [`Fault`]: what a command can't do, as Redis words it.

/// See the module. The text is the whole error, with its code.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The key has another kind of value.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// Arguments that are not understood.
    #[error("ERR syntax error")]
    Syntax,
    /// No integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// No number.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// The key is not there.
    #[error("ERR no such key")]
    NoKey,
    /// The index is not there.
    #[error("ERR index out of range")]
    Index,
    /// The time is none.
    #[error("ERR invalid expire time in '{0}' command")]
    Expire(&'static str),
    /// There are too few or too many arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(String),
    /// A number that has to be at least zero.
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    /// The string would be too long.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    /// Anything else, in its own words.
    #[error("{0}")]
    Said(&'static str),
    /// The same, with something that the client said.
    #[error("{0}")]
    Told(String),
}
