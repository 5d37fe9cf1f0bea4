//! HPACK, how heads are compressed (RFC 7541).
//!
//! ```text
//!  block ──► Decoder ── name, value ──► …        a table of what was said before, bounded by what we announced
//!  head ───► encode ──► block                    the table of the RFC alone: nothing to keep
//! ```

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod static_table;
mod table;

pub use decoder::{Decoder, HpackError};
pub use encoder::{encode, encode_status};
