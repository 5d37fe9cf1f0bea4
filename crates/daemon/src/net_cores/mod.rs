//! Net cores the daemon starts: one process for each processor of `[net] cores`. One that dies is started again at once;
//! services find it by asking the daemon again.
//!
//! A service's card is made by the service's own rule, on its user's account, and handed to the net core with a handle: when
//! the net core closes that, or dies, the card is gone. So there is nothing to tidy up, and nothing to tell.

pub(crate) mod attach;
pub(crate) mod core;
pub(crate) mod guests;
pub(crate) mod lifecycle;
pub(crate) mod moves;
pub(crate) mod pool;
pub(crate) mod transfers;
