//! `fdopen` and `dprintf` of a socket of ours. The C library's streams do not call `read` and `write` by their names, so such a stream gets
//! functions of its own.

use crate::arch;
use crate::lifecycle::detached::socket_of;
use crate::sys::libc_next;
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
    // SAFETY: the C library gives a buffer of `count` bytes.
    unsafe { receive(cookie.addr() as c_int, buffer.cast(), count, 0) }
}

unsafe extern "C" fn cookie_write(cookie: *mut c_void, buffer: *const c_char, count: size_t) -> ssize_t {
    // SAFETY: the C library gives a buffer of `count` bytes.
    let sent = unsafe { transmit(cookie.addr() as c_int, buffer.cast(), count, 0) };
    // As the manual wants it.
    sent.max(0)
}

unsafe extern "C" fn cookie_close(cookie: *mut c_void) -> c_int {
    // SAFETY: the call takes no pointers.
    unsafe { shut(cookie.addr() as c_int) }
}

/// # Safety
/// As `fdopen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if socket_of(fd).is_none() {
        // SAFETY: `mode` is a C string: the program's duty by fdopen(3).
        return unsafe { libc_next::fdopen(fd, mode) };
    }
    let functions =
        Functions { read: Some(cookie_read), write: Some(cookie_write), seek: None, close: Some(cookie_close) };
    // SAFETY: `mode` is a C string: the program's duty by fdopen(3).
    unsafe { fopencookie(std::ptr::without_provenance_mut(fd as usize), mode, functions) }
}

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// `arguments`: as `va_list`, which is the address of a structure.
///
/// # Safety
/// As `vdprintf`.
#[unsafe(no_mangle)]
unsafe extern "C" fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    if socket_of(fd).is_none() {
        // SAFETY: `format` is a C string, and `arguments` are what it names: the program's duty by vdprintf(3).
        return unsafe { libc_next::vdprintf(fd, format, arguments) };
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: `format` is a C string, and `arguments` are what it names: the program's duty by vdprintf(3).
    let length = unsafe { vasprintf(&raw mut text, format, arguments) };
    if length < 0 {
        return -1;
    }
    let mut done = 0;
    let mut outcome = length;
    while done < length as usize {
        // SAFETY: the pointer is to as many readable bytes as the length says.
        let sent = unsafe { transmit(fd, text.add(done).cast(), length as usize - done, 0) };
        if sent < 0 {
            outcome = -1;
            break;
        }
        done += sent as usize;
    }
    let error = libc_next::raw_errno();
    // SAFETY: given by the C library for this.
    unsafe { libc::free(text.cast()) };
    libc_next::set_raw_errno(error);
    outcome
}

/// # Safety
/// As `__vdprintf_chk`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __vdprintf_chk(fd: c_int, _: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: `format` is a C string, and `arguments` are what it names: the program's duty by vdprintf(3).
    unsafe { vdprintf(fd, format, arguments) }
}

/// # Safety
/// As `dprintf`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dprintf() {
    arch::with_list!(vdprintf, 2)
}

/// # Safety
/// As `__dprintf_chk`, whose third argument is the format.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __dprintf_chk() {
    arch::with_list!(vdprintf, 3)
}
