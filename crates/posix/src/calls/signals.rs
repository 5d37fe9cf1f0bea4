//! Which signals' handlers have calls go on after them (`SA_RESTART`): the kernel goes on with its own calls, so waits here must.

use crate::real;
use libc::{c_int, sigaction as Action, sighandler_t};
use std::sync::atomic::{AtomicU8, Ordering};

const SIGNALS: usize = 65;
const NONE: u8 = 0;
const RESTARTS: u8 = 1;
const INTERRUPTS: u8 = 2;

static HANDLERS: [AtomicU8; SIGNALS] = [const { AtomicU8::new(NONE) }; SIGNALS];

fn note(signal: c_int, handler: sighandler_t, restarts: bool) {
    let Some(slot) = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)) else { return };
    let is_handled = handler != libc::SIG_DFL && handler != libc::SIG_IGN;
    let state = if !is_handled {
        NONE
    } else if restarts {
        RESTARTS
    } else {
        INTERRUPTS
    };
    slot.store(state, Ordering::Relaxed);
}

/// Whether a wait that a signal has interrupted goes on. Which signal it was nobody says: it does if every handler of the
/// program says so.
pub(crate) fn waits_go_on() -> bool {
    !HANDLERS.iter().any(|handler| handler.load(Ordering::Relaxed) == INTERRUPTS)
}

/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: as the caller says.
    let status = unsafe { real::sigaction(signal, new, old) };
    // SAFETY: as the caller says.
    let new = unsafe { new.as_ref() };
    if let Some(new) = new.filter(|_| status == 0) {
        note(signal, new.sa_sigaction, new.sa_flags & libc::SA_RESTART != 0);
    }
    status
}

/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: as the caller says.
    let old = unsafe { real::signal(signal, handler) };
    if old != libc::SIG_ERR {
        // As BSD has it, and glibc.
        note(signal, handler, true);
    }
    old
}
