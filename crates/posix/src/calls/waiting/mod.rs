//! Calls that wait for descriptors, and the signals that interrupt them.

pub(super) mod epoll;
pub(super) mod poll;
mod signals;
