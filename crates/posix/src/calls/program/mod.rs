//! Calls that begin other processes and programs, and those that change what a process may do.

pub(crate) mod credentials;
pub(crate) mod exec;
pub(crate) mod hand_over;
pub(crate) mod process;
pub(crate) mod spawn;
