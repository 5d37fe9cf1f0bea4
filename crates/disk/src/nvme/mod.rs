//! NVMe: the driver of a controller's queue pairs, whatever they are reached by.

mod commands;
mod memory;
mod prp;
mod queue;
pub mod spec;

pub use memory::Mapping;
pub use queue::Violation;
