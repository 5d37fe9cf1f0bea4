//! Calls that move bytes.

pub(crate) mod beside;
pub(crate) mod file;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod splice;
pub(crate) mod stdio;
