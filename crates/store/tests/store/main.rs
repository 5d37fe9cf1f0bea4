//! The structures over the simulated disk: histories with crashes, exhaustively if they are short and by seed if they are long; crashes
//! during recovery; and disks that rot, go astray or can't be read, which must be noticed.
//!
//! `QANAT_SEEDS` is how many histories are tried, `QANAT_SEED` repeats one. A failing history prints its seed.
#![forbid(unsafe_code)]

mod disk;
mod exhaustive;
mod faults;
mod formats;
mod histories;
mod objects;
mod oracle;
mod queues;
mod seeds;
