//! HyperLogLog: how many different elements there were, about. A string of at most 12,304 bytes has it, in the format of Redis.
//!
//! ```text
//!  sketch:  HYLL · encoding (1) · zero (3) · cardinality (8, little-endian; its highest bit: not known) · registers
//!  dense:   16,384 registers of 6 bits, the lowest bits of a byte first
//!  sparse:  runs of registers, see [`sparse`]
//! ```
//! An element's hash says which register it belongs to. The register has the longest run of zeroes that was met in the hashes' other bits.

pub mod cardinality;
pub mod counting;
pub mod debugging;
pub mod dense;
pub mod hash;
pub mod sketch;
pub mod sparse;
pub mod storing;

/// Registers of a sketch.
pub const REGISTERS: usize = 1 << REGISTER_BITS;
/// Bits of a hash that say which register it is.
pub const REGISTER_BITS: u32 = 14;
