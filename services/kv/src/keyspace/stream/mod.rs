//! Streams: entries in the order of their ids, and groups of consumers that have read some of them.

pub mod change;
pub mod dump;
pub mod entries;
pub mod fields;
pub mod group;
pub mod id;
pub mod items;
pub mod progress;
