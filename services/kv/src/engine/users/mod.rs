//! Users: what each may do, how they show who they are, and what was refused to them. Data only; [`access`](crate::engine::access) judges
//! commands by it.

pub mod digest;
pub mod file;
pub mod log;
pub mod roster;
pub mod selector;
pub mod user;
