//! What a library's content is made of.

/// Bytes of a piece: what one read has, and one record of TLS.
pub const PIECE_BYTES: u64 = 16 * 1024;

/// An object of a library, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlatObject(pub u64);
