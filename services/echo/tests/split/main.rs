//! The split placement, without root and without a kernel's network: net core, services and clients are threads, cards are
//! memif links. What a service can do to a net core, and what it can't.
#![forbid(unsafe_code)]

mod attacker;
mod hostile;
mod keeping;
mod lying;
mod memory;
mod placement;
mod several;
mod sharing;
mod support;
mod under_load;
