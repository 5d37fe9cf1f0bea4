//! Which check failed.

use std::fmt;

/// The check that bytes, or a buffer to write into, failed. Which header it was is known from whose `parse` or `emit`
/// said so. `as usize` indexes a table of [`Error::COUNT`] counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Error {
    /// Fewer bytes than the format's fixed part, or than the length its header states.
    Truncated,
    /// The version field isn't this format's.
    BadVersion,
    /// The header length field is below the minimum (IHL < 5, data offset < 5).
    BadHeaderLength,
    /// A length field contradicts the header's own size or another length.
    BadLength,
    /// A field has a value that this format doesn't allow (ARP hardware type, wrong message type, …).
    BadValue,
    /// An option's length is zero or runs past the end of the options.
    BadOption,
    /// More options or extension headers than the walk's bound.
    TooMany,
    /// The buffer to write into is too short; nothing was written.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "fewer bytes than the header states",
            Error::BadVersion => "wrong version field",
            Error::BadHeaderLength => "header length field below the minimum",
            Error::BadLength => "length field contradicts the header",
            Error::BadValue => "field value not allowed in this format",
            Error::BadOption => "option length is zero or runs past the end",
            Error::TooMany => "more options or extension headers than allowed",
            Error::NoRoom => "buffer too short to write into",
        })
    }
}

impl std::error::Error for Error {}
