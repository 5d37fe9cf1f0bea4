//! Which numbers and how much memory the library needs, and how it has them whatever the program may have.

pub(crate) mod memory_limits;
pub(crate) mod numbers;
pub(crate) mod raised_limits;
