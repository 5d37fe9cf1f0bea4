//! Load generators.

pub mod engine;
pub mod figures;
pub mod mix;
pub mod response;
pub mod schedule;
