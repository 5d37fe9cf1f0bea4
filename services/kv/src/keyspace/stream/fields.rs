//! The fields of an entry, one behind the other in one piece of memory: each name and each value with its length.

use crate::keyspace::leb;

/// Names and values by turns, as one piece.
pub fn pack<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    pieces.for_each(|piece| leb::put_piece(&mut packed, piece));
    packed
}

/// The names and values of such a piece.
pub fn unpack(packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packed;
    std::iter::from_fn(move || leb::take_piece(&mut rest))
}
