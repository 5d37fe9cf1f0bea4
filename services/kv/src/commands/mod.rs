//! The commands, by their groups.

pub mod acl;
pub mod bits;
pub mod clients;
pub mod connection;
pub mod dumping;
pub mod expiry;
pub mod generic;
pub mod hashes;
pub mod introspection;
pub mod lists;
pub mod observing;
pub mod pubsub;
pub mod ranges;
pub mod scanning;
pub mod scripts;
pub mod server;
pub mod serving;
pub mod sets;
pub mod sorted;
pub mod sorted_ranges;
pub mod sorted_store;
pub mod streams;
pub mod strings;
pub mod substrings;
pub mod transactions;
