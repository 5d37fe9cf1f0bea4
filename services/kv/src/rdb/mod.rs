//! Redis' format of dumps (RDB): what `SAVE` writes, and what DUMP and RESTORE carry. Versions up to 11 are read, 10 is written.
//!
//! ```text
//!  file     REDIS0010 · opcodes and keys · EOF · CRC64 (8)         reader.rs, writer.rs
//!  payload  type (1) · value · version (2) · CRC64 (8)             payload.rs; of libraries: functions.rs
//!  value    by its type: lengths, strings, packed pieces           value.rs, encode.rs; a stream's: stream/
//! ```
//! What is read may be anybody's. Nothing of it makes the reader panic, a length that is promised takes no memory before its bytes have
//! come, and what a value may have at most is said by who reads it.

mod budget;
mod cursor;
pub mod encode;
pub mod error;
pub mod functions;
mod kind;
mod lengths;
mod lzf;
mod packed;
pub mod payload;
pub mod reader;
mod skip;
mod source;
mod stream;
mod value;
pub mod writer;
mod ziplist;
