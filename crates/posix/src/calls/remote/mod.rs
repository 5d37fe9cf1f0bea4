//! Calls of a process that has [left](crate::lifecycle::detached) the world: how it asks its deputy, and how the deputy makes them.

pub(super) mod client;
mod deputy;
mod entry;
pub(super) mod requests;
