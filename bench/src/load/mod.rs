//! Load generators.

pub mod response;
