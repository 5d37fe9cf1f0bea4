//! The chain of frames that a log is: its format, how it is written, walked and read again.

pub(crate) mod fetch;
pub(crate) mod frame;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod writer;
