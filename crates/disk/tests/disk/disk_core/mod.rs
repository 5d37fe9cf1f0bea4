//! The disk core with honest applications.

mod fairness;
mod limits;
pub mod rig;
mod serving;
