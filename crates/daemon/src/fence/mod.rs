//! The fence as the daemon has it: the programs, and the tables that they decide by.

pub(crate) mod digest;
pub(crate) mod injectors;
pub(crate) mod keepers;
mod pins;
pub mod rows;
pub mod tables;
