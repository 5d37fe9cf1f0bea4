//! What this process is: its rights, its name, its standing in its world, and how it leaves the world.

pub(crate) mod class;
pub(crate) mod departure;
pub(crate) mod finish;
pub(crate) mod identity;
pub(crate) mod own_process;
pub(crate) mod program;
pub(crate) mod standing;
