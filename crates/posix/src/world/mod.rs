//! What a program's processes share, and how it is driven: the lock, the device, who leads, how a thread waits.

pub(crate) mod fallback;
pub(crate) mod lead;
pub(crate) mod lock;
pub(crate) mod roll;
pub(crate) mod runs;
pub mod script;
pub(crate) mod state;
pub(crate) mod sysctl;
pub(crate) mod wait;
pub(crate) mod wire;
