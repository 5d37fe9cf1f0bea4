//! Streams: entries in packed pieces, and groups with what is pending. Redis has three types of them, which are all read; that of 7.0 is
//! written.

mod entries;
mod listpack;
pub mod reader;
pub mod writer;

use super::kind::of_value as kind;

/// Whether a type of values is a stream.
pub fn is_one(number: u8) -> bool {
    matches!(number, kind::STREAM | kind::STREAM_2 | kind::STREAM_3)
}

/// What is wrong with a stream that is none.
const WHAT: &str = "stream";
/// An entry is gone, but lies there.
const GONE: i64 = 1;
/// An entry has the fields of the first one of its piece.
const SAME: i64 = 2;
