//! A process that ends by its own wish leaves the world's lock alone: [`finish`](crate::sys::this_process::finish). `exit` calls this last,
//! when all that the program has registered is done; `_exit` has it as its only work.

use crate::sys::raw::{self, Call};
use crate::sys::this_process::{finish, own_process};
use crate::world::lock;
use libc::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    /// As in the C++ ABI, which the C library keeps. A null `object`: when no object is unloaded, but when the process ends.
    fn __cxa_atexit(function: extern "C" fn(*mut c_void), argument: *mut c_void, object: *mut c_void) -> c_int;
}

/// The C library's word on whether the process never had a second thread (2.32 and newer); null: it has none.
static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Has `exit` call [`leave`]. What is registered first is called last.
pub(crate) fn prepare() {
    finish::note_process();
    // Looked up here: `_exit` may be called where nothing may be waited for.
    // SAFETY: the name is a C string.
    let known = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE_THREADED.store(known.cast(), Ordering::Relaxed);
    // SAFETY: the function stays, as this library is never unloaded. Without memory for it, the end is as it is by a signal.
    unsafe { __cxa_atexit(at_exit, std::ptr::null_mut(), std::ptr::null_mut()) };
}

extern "C" fn at_exit(_: *mut c_void) {
    leave();
}

/// The process ends after this.
pub(crate) fn leave() {
    // A child that borrows this process' memory ends alone.
    if lock::shared().is_some() && !own_process::is_librarys() && !is_single_threaded() && finish::is_this_process() {
        lock::close_to_others();
    }
}

/// Whether the process never had a second thread, as far as the C library says.
fn is_single_threaded() -> bool {
    let known = SINGLE_THREADED.load(Ordering::Relaxed);
    // SAFETY: the C library's variable of that name is one byte.
    !known.is_null() && unsafe { known.read_volatile() } != 0
}

/// Ends the process.
pub(crate) fn end(status: c_int) -> ! {
    loop {
        // SAFETY: the call takes no pointers, and does not return.
        unsafe { raw::call(&Call::new(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0])) };
    }
}
