//! Records: how the bytes of a connection are cut (RFC 8446, 5.1 and 5.2).
//!
//! ```text
//!  0 content type 1   1 legacy version 2   3 length 2   5 bytes
//! ```

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 5;
/// Bytes of content that a record has at most.
pub const CONTENT_BYTES_MAX: usize = 1 << 14;
/// By how much a record that is sealed may be longer than its content.
pub const EXPANSION_BYTES_MAX: usize = 256;
/// Bytes of an authentication tag, in each suite of TLS 1.3.
pub const TAG_BYTES: usize = 16;
/// What a record of ours has besides its content: header, inner content type, tag.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;
/// The longest record that may come.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + CONTENT_BYTES_MAX + EXPANSION_BYTES_MAX;

/// What a record's content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentType {
    /// A fatal error, or the end of what one side sends.
    Alert,
    /// Messages of the handshake, and those that may follow it.
    Handshake,
    /// Of the application.
    ApplicationData,
}

impl ContentType {
    /// Its number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            ContentType::Alert => 21,
            ContentType::Handshake => 22,
            ContentType::ApplicationData => 23,
        }
    }

    /// The one with this number; `None`: no other may come in a record that is sealed.
    pub(crate) const fn of(number: u8) -> Option<ContentType> {
        match number {
            21 => Some(ContentType::Alert),
            22 => Some(ContentType::Handshake),
            23 => Some(ContentType::ApplicationData),
            _ => None,
        }
    }
}

/// The header of a record that is sealed.
pub(crate) fn sealed_header(length: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = (length as u16).to_be_bytes();
    [ContentType::ApplicationData.number(), 3, 3, high, low]
}

/// The length of the record at the start of `bytes`, with its header; `None`: the header is not whole.
pub(crate) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, high, low] = *bytes.first_chunk::<HEADER_BYTES>()?;
    Some(HEADER_BYTES + usize::from(u16::from_be_bytes([high, low])))
}
