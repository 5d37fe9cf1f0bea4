//! `_exit` and `_Exit`: no thread of this process is within the world's lock then.

use crate::world::finish::{end, leave};
use libc::c_int;

#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    leave();
    end(status)
}

#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}
