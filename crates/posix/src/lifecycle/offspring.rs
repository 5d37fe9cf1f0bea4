//! Processes of the library's own that begin in the program. The program has no part in them: no signal tells it of their end, `wait`
//! does not find them, what it has registered for its own forks (`pthread_atfork`) is not called, and they are nobody's children here.
//!
//! ```text
//!  program ── clone without a signal ──▶ a child that lives for a moment ── the same ──▶ the new process
//!     │                                      │ ends: the new one is adopted by the process that adopts orphans
//!     └── waits for it by its number, which takes a call that asks for such children (`__WALL`) ◀┘
//! ```
//! The C library's `fork` can do none of this. So the new process goes without what that would do: memory comes from a heap of its own,
//! as another thread of the program may have been in the midst of the C library's, and signals are blocked until it has let go of the
//! program's handlers.

use crate::sys::raw::{self, Call};
use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

const SUBREAPER_SET: usize = 36;
const SUBREAPER_GET: usize = 37;
/// Bytes of the kernel's set of signals, and how many there are.
const SET: usize = 8;
const SIGNALS: usize = 64;
/// Those that tell a process of its own faults: they end it.
const FATAL: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT, libc::SIGFPE];

/// Children of a program that adopts orphans whatever it says, the first of a process namespace. It would adopt the new process by its
/// parent's end, and have a child like any other: so the parent stays, and is buried when the next one begins. 0: none.
static STAYED: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

fn system(number: i64, arguments: [usize; 5]) -> isize {
    // SAFETY: the callers hand numbers, or places that are theirs for the call.
    unsafe { raw::call(&Call::new(number, arguments)) }
}

/// Begins a process that does `begin`, which does not come back.
///
/// # Errors
/// What `clone` says.
pub(crate) fn start(begin: impl FnOnce()) -> Result<(), Errno> {
    let list = crate::sys::lock_word::known_robust_list();
    let (all, mut before) = (u64::MAX, 0u64);
    let mask = |how: libc::c_int, set: usize, old: usize| {
        system(libc::SYS_rt_sigprocmask, [how as usize, set, old, SET, 0]);
    };
    mask(libc::SIG_SETMASK, (&raw const all).addr(), (&raw mut before).addr());
    let outcome = start_unheard(|| {
        crate::sys::lock_word::register_robust_list(list);
        crate::sys::arena::use_private_heap();
        crate::sys::local::forked();
        crate::sys::this_process::finish::note_process();
        ignore_signals();
        let none = 0u64;
        mask(libc::SIG_SETMASK, (&raw const none).addr(), 0);
        begin();
    });
    mask(libc::SIG_SETMASK, (&raw const before).addr(), 0);
    outcome
}

/// As [`start`], with signals blocked.
fn start_unheard(begin: impl FnOnce()) -> Result<(), Errno> {
    bury();
    let is_program = !crate::sys::this_process::own_process::is_librarys();
    let adopts_anyway = is_program && system(libc::SYS_getpid, [0; 5]) == 1;
    let mut adopts: libc::c_int = 0;
    if is_program {
        system(libc::SYS_prctl, [SUBREAPER_GET, (&raw mut adopts).addr(), 0, 0, 0]);
    }
    if adopts != 0 && !adopts_anyway {
        system(libc::SYS_prctl, [SUBREAPER_SET, 0, 0, 0, 0]);
    }
    let child = clone();
    if child == 0 {
        let grandchild = clone();
        if grandchild == 0 {
            begin();
        }
        if adopts_anyway && grandchild > 0 {
            stay(grandchild);
        }
        system(libc::SYS_exit_group, [usize::from(grandchild <= 0), 0, 0, 0, 0]);
    }
    let mut status: libc::c_int = 0;
    if child > 0 && !adopts_anyway {
        let arguments = [child as usize, (&raw mut status).addr(), libc::__WALL as usize, 0, 0];
        while system(libc::SYS_wait4, arguments) == -(libc::EINTR as isize) {}
    }
    if adopts != 0 && !adopts_anyway {
        system(libc::SYS_prctl, [SUBREAPER_SET, adopts as usize, 0, 0, 0]);
    }
    match child {
        1.. if adopts_anyway => stays(child as i32),
        _ if child < 0 => return Err(crate::sys::libc_next::error_of(-child as i64)),
        // The child could have none itself.
        _ if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 => return Err(Errno::AGAIN),
        _ => {}
    }
    Ok(())
}

/// Makes a child. Nobody is told of its end. Returns 0 in the child.
fn clone() -> isize {
    system(libc::SYS_clone, [0; 5])
}

/// Is there until `child` is not, with nothing of the program's open. All signals are blocked here.
fn stay(child: isize) {
    system(libc::SYS_prctl, [libc::PR_SET_NAME as usize, c"qanat-parent".as_ptr().addr(), 0, 0, 0]);
    system(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0]);
    while system(libc::SYS_wait4, [child as usize, 0, libc::__WALL as usize, 0, 0]) == -(libc::EINTR as isize) {}
}

/// Notes a child that stays one. Beyond the room for them they are left as they are when they end: nothing but a number each.
fn stays(child: i32) {
    for place in &STAYED {
        if place.compare_exchange(0, child, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Those that have stayed and have ended are gone.
fn bury() {
    for place in &STAYED {
        let child = place.load(Ordering::Relaxed);
        if child == 0 {
            continue;
        }
        let how = (libc::__WALL | libc::WNOHANG) as usize;
        if system(libc::SYS_wait4, [child as usize, 0, how, 0, 0]) != 0 {
            let _ = place.compare_exchange(child, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The kernel's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// The program's handlers are not called here.
fn ignore_signals() {
    for signal in 1..=SIGNALS {
        let is_fatal = FATAL.iter().any(|fatal| *fatal as usize == signal);
        let handler = if is_fatal { libc::SIG_DFL } else { libc::SIG_IGN };
        let action = Action { handler, flags: 0, restorer: 0, mask: 0 };
        system(libc::SYS_rt_sigaction, [signal, (&raw const action).addr(), 0, SET, 0]);
    }
}
