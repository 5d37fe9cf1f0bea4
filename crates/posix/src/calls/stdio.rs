//! `fdopen` of a socket of ours: the C library's streams read and write past the names of its functions, so such a stream gets
//! functions of its own.

use crate::descriptor;
use crate::real;
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};

/// As `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    #[link_name = "recv"]
    fn receive(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    #[link_name = "send"]
    fn transmit(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    #[link_name = "close"]
    fn shut(fd: c_int) -> c_int;
}

unsafe extern "C" fn cookie_read(cookie: *mut c_void, buffer: *mut c_char, count: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { receive(cookie.addr() as c_int, buffer.cast(), count, 0) }
}

unsafe extern "C" fn cookie_write(cookie: *mut c_void, buffer: *const c_char, count: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    let sent = unsafe { transmit(cookie.addr() as c_int, buffer.cast(), count, 0) };
    // As the manual wants it.
    sent.max(0)
}

unsafe extern "C" fn cookie_close(cookie: *mut c_void) -> c_int {
    // SAFETY: takes no pointers.
    unsafe { shut(cookie.addr() as c_int) }
}

/// # Safety
/// As `fdopen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if descriptor::socket(fd).is_none() {
        // SAFETY: as the caller says.
        return unsafe { real::fdopen(fd, mode) };
    }
    let functions =
        Functions { read: Some(cookie_read), write: Some(cookie_write), seek: None, close: Some(cookie_close) };
    // SAFETY: as the caller says.
    unsafe { fopencookie(std::ptr::without_provenance_mut(fd as usize), mode, functions) }
}
