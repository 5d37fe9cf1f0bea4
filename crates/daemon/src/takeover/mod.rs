//! Taking back what an earlier daemon left running, whether it crashed or was replaced.
//!
//! The kernel keeps devices and their end's namespace (mounted beside the control socket), programs and tables (by the devices that
//! they are attached to), frame memory and rings (by the clients' sockets). A file says what is whose ([`state`](crate::state)).
//! What is in one of the two and not in the other was being made or unmade when the daemon ended, and is removed.

pub(crate) mod adopt;
pub(crate) mod ground;
pub(crate) mod leftovers;
pub(crate) mod manager;
pub(crate) mod record;
