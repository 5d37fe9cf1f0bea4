//! Applications that break every rule of a disk core, beside a neighbour who keeps to them.
//!
//! Each row: the attacker does what drivers do (the control: it works), then its attack; meanwhile the neighbour's requests end within a
//! few turns each, its bytes and all others outside the attacker's area stay, and the attacker is refused, cut off, or served.

mod attacker;
mod commands;
mod descriptors;
mod doorbells;
mod memory;
mod queues;
mod stage;
