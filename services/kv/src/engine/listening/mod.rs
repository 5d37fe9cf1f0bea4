//! Who listens to which channel, what is published there, and what is told there of keys.

pub mod channels;
pub mod leaving;
pub mod misses;
pub mod notices;
pub mod publishing;
