//! `fork` and its variants: a child has its parent's sockets.

use crate::calls::give_int;
use crate::calls::option_notes::forget_all;
use crate::sys::libc_next;
use libc::{c_int, pid_t};

/// # Safety
/// As `fork`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> pid_t {
    forget_all();
    // SAFETY: nobody relies on threads that the child does not have: the program's duty by fork(2).
    unsafe { crate::lifecycle::fork::fork() }
}

/// A child that borrows its parent's memory would change the parent's table of descriptors: it gets a copy. What the program has
/// registered for its forks is not called, as by the C library's `vfork`.
///
/// # Safety
/// As `fork`.
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> pid_t {
    forget_all();
    // SAFETY: nobody relies on threads that the child does not have: the program's duty by fork(2).
    unsafe { crate::lifecycle::fork::fork_quietly() }
}

/// # Safety
/// As `daemon`.
#[unsafe(no_mangle)]
unsafe extern "C" fn daemon(no_chdir: c_int, no_close: c_int) -> c_int {
    if crate::world::lock::shared().is_none() {
        // SAFETY: nobody relies on threads that the child does not have: the program's duty by daemon(3).
        return unsafe { libc_next::daemon(no_chdir, no_close) };
    }
    forget_all();
    // SAFETY: nobody relies on threads that the child does not have: the program's duty by daemon(3).
    unsafe {
        match crate::lifecycle::fork::fork() {
            -1 => return give_int(Err(libc_next::errno())),
            0 => {}
            _ => libc::_exit(0),
        }
        if libc::setsid() < 0 {
            return give_int(Err(libc_next::errno()));
        }
        if no_chdir == 0 {
            libc::chdir(c"/".as_ptr());
        }
        if no_close == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            for fd in 0..3 {
                libc_next::dup2(null, fd);
            }
            if null > 2 {
                libc_next::close(null);
            }
        }
    }
    0
}
