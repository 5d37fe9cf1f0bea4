//! Queue pairs in shared memory: how an application reaches the software controller of another process, the disk core.

mod layout;

pub use layout::{LayoutError, SharedLayout};
