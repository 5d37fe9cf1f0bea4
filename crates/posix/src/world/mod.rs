//! What a program's processes share, and how it is driven: the lock, the device, who leads, how a thread waits.

pub(crate) mod assemble;
pub(crate) mod drive;
pub(crate) mod end;
pub(crate) mod fallback_log;
pub(crate) mod fallbacks;
pub(crate) mod finish;
pub(crate) mod leader;
pub(crate) mod lock;
pub(crate) mod membership;
pub(crate) mod pid_table;
pub(crate) mod processes;
pub(crate) mod references_in_transit;
pub(crate) mod release;
pub(crate) mod runs;
pub(crate) mod script;
pub(crate) mod script_waiters;
pub(crate) mod state;
pub(crate) mod sysctl;
pub(crate) mod wait;
