//! Load generators.

pub mod figures;
pub mod mix;
pub mod response;
pub mod schedule;
