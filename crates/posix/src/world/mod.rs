//! What a program's processes share, and how it is driven: the lock, the device, who leads, how a thread waits.

pub(crate) mod assemble;
pub(crate) mod drive;
pub(crate) mod end;
pub(crate) mod fallback_log;
pub(crate) mod fallbacks;
pub(crate) mod lead;
pub(crate) mod lock;
pub(crate) mod membership;
pub(crate) mod parcels;
pub(crate) mod processes;
pub(crate) mod release;
pub(crate) mod roll;
pub(crate) mod runs;
pub(crate) mod script;
pub(crate) mod sleepers;
pub(crate) mod state;
pub(crate) mod sysctl;
pub(crate) mod wait;
