//! What this machine can do, and how fast.

pub mod bench;
pub mod doctor;
