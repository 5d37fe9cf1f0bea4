//! What is asked of the daemon, and answered.

pub(crate) mod filters;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod pages;
pub(crate) mod serve;
pub(crate) mod served;
pub(crate) mod vnics;
