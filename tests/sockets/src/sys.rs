//! libc's calls as safe functions that return the value and the errno: the only unsafe code of this program. Nothing is
//! retried, checked or hidden here: what the C library says is what a case sees.

mod base;
mod data;
mod descriptors;
mod processes;
mod readiness;
mod signals;
mod sockets;
mod stdio;

pub use base::{Fd, Ret, close_all};
pub use data::*;
pub use descriptors::*;
pub use processes::*;
pub use readiness::*;
pub use signals::*;
pub use sockets::*;
pub use stdio::*;
