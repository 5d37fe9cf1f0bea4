//! The store without a network: its commands as a client sees them, its log after crashes of a simulated disk, and its keyspace against
//! its own log.
//!
//! `QANAT_SEEDS` is how many histories are tried, `QANAT_SEED` repeats one. A failing history prints its seed.
#![forbid(unsafe_code)]

mod bitfields;
mod bounded;
mod caching;
mod client;
mod commands;
mod crashes;
mod databases;
mod disk;
mod dumping;
mod events;
mod geo;
mod hyperloglog;
mod libraries;
mod operators;
mod packing;
mod pausing;
mod replay;
mod scripts;
mod sorting;
mod streams;
mod streams_dumped;
mod suite;
mod users;
