//! The transport layer's place in the stack: which socket, listener or connection a packet belongs to, the commands on each, and
//! the way of their packets to the network layer. TCP itself is in [`tcp`](crate::tcp).

pub(crate) mod connections;
pub(crate) mod datagram_path;
mod demultiplex;
mod emitter;
mod fast_open;
mod listener;
mod lost_addresses;
mod output;
mod passive_open;
mod reply;
mod settings;
mod settle;
pub(crate) mod tables;
mod udp;
pub(crate) mod udp_socket;
