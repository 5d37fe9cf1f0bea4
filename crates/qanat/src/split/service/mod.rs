//! The service's end: what stands for the stack in its process.

pub(crate) mod commands;
pub(crate) mod error;
pub(crate) mod leave;
pub(crate) mod link;
pub(crate) mod options;
pub(crate) mod placement;
pub(crate) mod places;
pub(crate) mod received;
pub(crate) mod remote;
pub(crate) mod remotes;
pub(crate) mod runtime;
pub(crate) mod seek;
pub(crate) mod streams;
