//! Streams: XADD, XREAD, XREADGROUP and their like.

mod answer;
pub mod claims;
pub mod delivery;
pub mod entries;
mod find;
pub mod groups;
mod ids;
pub mod inspection;
pub mod pending;
pub mod ranges;
pub mod reading;
mod trimming;
