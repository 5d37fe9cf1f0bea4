//! What processes nobody trusts try on the control plane and on each other. Every attack has a positive control (the same
//! act, allowed, works), and those on the fence a run without protection (the attack then succeeds, so the test can fail).
#![forbid(unsafe_code)]

mod attacks;
mod cards;
mod frames;
mod gate;
mod hanging;
mod identity;
mod injectors;
mod names;
mod nic;
mod output;
mod policing;
mod protocol;
mod rows;
mod running;
mod steering;
mod takeover;
mod uplink;
mod vlans;
