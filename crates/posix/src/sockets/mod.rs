//! Sockets and instances of `epoll` as POSIX has them: their state, and what the stack's events do to it.

pub(crate) mod epoll;
pub(crate) mod messages;
pub(crate) mod peers;
pub(crate) mod settings;
pub(crate) mod socket;
pub(crate) mod table;
pub(crate) mod watch;
