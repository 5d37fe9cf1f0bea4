//! Calls that begin other processes and programs, and those that change what a process may do.

pub(super) mod credentials;
pub(super) mod exec;
mod finish;
mod fork;
pub(super) mod hand_over;
mod spawn;
