//! Strings as arrays of integers of any width, at any bit: BITFIELD, BITFIELD_RO.

pub mod fields;
pub mod kind;
pub mod packed;
