//! What operators ask for: memory, slow commands, what took long, and all commands as they come.

pub mod latency;
pub mod memory;
pub mod monitor;
pub mod object;
pub mod slowlog;
pub mod statistics;
