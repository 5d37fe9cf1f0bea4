//! Calls that wait for descriptors, and the signals that interrupt them.

pub(crate) mod epoll;
pub(crate) mod poll;
pub(crate) mod signals;
