//! Which check failed.

/// The check that bytes, or a buffer to write into, failed. Which header it was is known from whose `parse` or `emit`
/// said so. `as usize` indexes a table of [`Error::COUNT`] counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[repr(u8)]
pub enum Error {
    /// Fewer bytes than the format's fixed part, or than the length its header states.
    #[error("fewer bytes than the header states")]
    Truncated,
    /// The version field isn't this format's.
    #[error("wrong version field")]
    BadVersion,
    /// The header length field is below the minimum (IHL < 5, data offset < 5).
    #[error("header length field below the minimum")]
    BadHeaderLength,
    /// A length field contradicts the header's own size or another length.
    #[error("length field contradicts the header")]
    BadLength,
    /// A field has a value that this format doesn't allow (ARP hardware type, wrong message type, …).
    #[error("field value not allowed in this format")]
    BadValue,
    /// An option's length is zero or runs past the end of the options.
    #[error("option length is zero or runs past the end")]
    BadOption,
    /// More options or extension headers than the walk's bound.
    #[error("more options or extension headers than allowed")]
    TooMany,
    /// The buffer to write into is too short; nothing was written.
    #[error("buffer too short to write into")]
    NoRoom,
}

impl Error {
    /// Number of variants.
    pub const COUNT: usize = 8;

    /// A short name for counters: lower case, words joined by `_`.
    pub const fn name(self) -> &'static str {
        match self {
            Error::Truncated => "truncated",
            Error::BadVersion => "bad_version",
            Error::BadHeaderLength => "bad_header_length",
            Error::BadLength => "bad_length",
            Error::BadValue => "bad_value",
            Error::BadOption => "bad_option",
            Error::TooMany => "too_many",
            Error::NoRoom => "no_room",
        }
    }
}
