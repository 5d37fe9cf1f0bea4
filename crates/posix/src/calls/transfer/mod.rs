//! Calls that move bytes.

pub(crate) mod control_messages;
pub(crate) mod datagram_send;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod sendfile;
pub(crate) mod splice;
pub(crate) mod stdio;
pub(crate) mod stream_send;
pub(crate) mod vectors;
