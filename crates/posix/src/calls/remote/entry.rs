//! The library's entry point as a program of its own: it is executed as the keeper, whose deputies make calls.

use crate::calls::remote::deputy;
use crate::lifecycle::{keeper, keeper_image};
use crate::sys::this_process::program;
use libc::{c_char, c_int};

/// Where the dynamic linker begins when it runs this library: the stack holds how many arguments there are, and behind that these.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn qanat_helper() {
    crate::arch::enter!(begin)
}

extern "C" fn begin(count: c_int, arguments: *const *mut c_char) -> ! {
    // SAFETY: the arguments are where the kernel has put them.
    unsafe { program::note_arguments(count, arguments) };
    if let Some((things, own)) = keeper_image::begin() {
        program::rename(c"qanat-keeper");
        keeper::run(&things, Some(deputy::serve), &own);
    }
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(1) }
}
