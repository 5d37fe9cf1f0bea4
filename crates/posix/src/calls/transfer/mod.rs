//! Calls that move bytes.

pub(super) mod control_messages;
pub(super) mod datagram_send;
pub(super) mod receive;
pub(super) mod send;
pub(super) mod sendfile;
mod splice;
mod stdio;
pub(super) mod stream_send;
pub(super) mod vectors;
