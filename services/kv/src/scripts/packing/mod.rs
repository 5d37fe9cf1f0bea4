//! Values in few bytes: `struct`, as C lays them out, and `cmsgpack`, which is MessagePack.

pub mod arguments;
pub mod format;
pub mod message_reader;
pub mod message_writer;
pub mod messages;
pub mod structs;
