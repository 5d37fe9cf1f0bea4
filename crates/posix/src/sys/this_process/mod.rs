//! What this process is: its rights, its name, what it is to its world, and how it leaves that.

pub(crate) mod class;
pub(crate) mod departure;
pub(crate) mod identity;
pub(crate) mod own_process;
pub(crate) mod program;
pub(crate) mod standing;
