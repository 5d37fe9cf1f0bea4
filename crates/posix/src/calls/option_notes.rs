//! Sockets of TCP that this process has made and neither bound nor connected yet: what it has set on each. When one becomes ours,
//! the kernel is asked for that alone; all else is as on any new socket.
//!
//! A note is good for the socket it was made of, known by its cookie, as long as nobody else can have set anything: a child has
//! the socket, too, so `fork` ends all notes, and a copy or a message that carries the descriptor ends its.

use crate::sys::descriptor::DESCRIPTORS_MAX;
use crate::sys::kernel_socket::kernel_structure;
use crate::sys::libc_next;
use libc::c_int;
use qanat_launch::support::{OPTIONS, Support};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The state's bits: options that were set, by their place among those [`followed`]; flags; the generation.
const OPTIONS_MAX: u32 = 46;
const NONBLOCKING: u64 = 1 << OPTIONS_MAX;
const SIX: u64 = 2 << OPTIONS_MAX;
const GENERATION_SHIFT: u32 = OPTIONS_MAX + 2;
const GENERATION_MAX: u32 = (1 << (64 - GENERATION_SHIFT)) - 1;

/// Each has its bit: one without would be lost.
const _: () = {
    let (mut at, mut count) = (0, 0);
    while at < OPTIONS.len() {
        count += matches!(OPTIONS[at].support, Support::Supported) as u32;
        at += 1;
    }
    assert!(count <= OPTIONS_MAX);
};

struct Cell {
    /// `SO_COOKIE`.
    cookie: AtomicU64,
    /// 0: there is no note.
    state: AtomicU64,
}

static CELLS: [Cell; DESCRIPTORS_MAX] =
    [const { Cell { cookie: AtomicU64::new(0), state: AtomicU64::new(0) } }; DESCRIPTORS_MAX];
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// What is known of a socket without asking the kernel.
#[derive(Clone, Copy)]
pub(super) struct Note(u64);

fn cell(fd: c_int) -> Option<&'static Cell> {
    CELLS.get(usize::try_from(fd).ok()?)
}

fn generation() -> u64 {
    u64::from(GENERATION.load(Ordering::Relaxed)) << GENERATION_SHIFT
}

/// The options that the stack is told of, and their places.
pub(super) fn followed() -> impl Iterator<Item = (u32, (c_int, c_int))> {
    let rows = OPTIONS.iter().filter(|row| row.support == Support::Supported);
    (0..).zip(rows.map(|row| (row.level, row.option)))
}

/// The program has made a socket.
fn made(fd: c_int, family: c_int, kind: c_int, protocol: c_int) {
    let is_stream = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_STREAM;
    let is_noted = is_stream
        && matches!(family, libc::AF_INET | libc::AF_INET6)
        && matches!(protocol, 0 | libc::IPPROTO_TCP)
        && crate::sys::wishes::wishes().is_some();
    let Some(cell) = cell(fd).filter(|_| is_noted) else { return forget(fd) };
    let Some(cookie) = kernel_structure::<u64>(fd, libc::SOL_SOCKET, libc::SO_COOKIE) else { return forget(fd) };
    let nonblocking = if kind & libc::SOCK_NONBLOCK != 0 { NONBLOCKING } else { 0 };
    cell.cookie.store(cookie, Ordering::Relaxed);
    cell.state.store(generation() | nonblocking | if family == libc::AF_INET6 { SIX } else { 0 }, Ordering::Release);
}

/// Nothing is known of `fd` any more.
pub(super) fn forget(fd: c_int) {
    if let Some(cell) = cell(fd) {
        cell.state.store(0, Ordering::Relaxed);
    }
}

/// Nothing is known of any socket any more: another process has them, too.
pub(crate) fn forget_all() {
    let next = GENERATION.load(Ordering::Relaxed) % GENERATION_MAX + 1;
    GENERATION.store(next, Ordering::Relaxed);
}

fn change(fd: c_int, change: impl Fn(u64) -> u64) {
    if let Some(cell) = cell(fd) {
        let has_note = |state: u64| (state != 0).then(|| change(state));
        // There is none to change, then.
        let _ = cell.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_note);
    }
}

/// The program has set an option.
pub(super) fn has_set(fd: c_int, level: c_int, name: c_int) {
    if let Some((place, _)) = followed().find(|(_, option)| *option == (level, name)) {
        return change(fd, |state| state | 1 << place);
    }
    let is_of_no_effect = |row: &qanat_launch::support::Row| (row.level, row.option) == (level, name);
    // These are other names of what is followed; and what isn't known may be anything.
    let is_another_name = matches!((level, name), (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE | libc::SO_RCVBUFFORCE));
    if is_another_name || !OPTIONS.iter().any(is_of_no_effect) {
        forget(fd);
    }
}

/// The program has said whether calls wait.
pub(super) fn has_set_nonblocking(fd: c_int, nonblocking: bool) {
    change(fd, |state| if nonblocking { state | NONBLOCKING } else { state & !NONBLOCKING });
}

/// What is known of `fd`.
pub(super) fn note(fd: c_int) -> Option<Note> {
    let cell = cell(fd)?;
    let state = cell.state.load(Ordering::Acquire);
    if state == 0 || state >> GENERATION_SHIFT != generation() >> GENERATION_SHIFT {
        return None;
    }
    // Its number may have been closed past us, and be another's.
    let cookie = kernel_structure::<u64>(fd, libc::SOL_SOCKET, libc::SO_COOKIE)?;
    (cookie == cell.cookie.load(Ordering::Relaxed)).then_some(Note(state))
}

impl Note {
    pub(super) fn family(self) -> c_int {
        if self.0 & SIX != 0 { libc::AF_INET6 } else { libc::AF_INET }
    }

    pub(super) fn is_nonblocking(self) -> bool {
        self.0 & NONBLOCKING != 0
    }

    /// The options that were set.
    pub(super) fn set(self) -> impl Iterator<Item = (c_int, c_int)> {
        followed().filter(move |(place, _)| self.0 >> place & 1 != 0).map(|(_, option)| option)
    }
}

#[unsafe(no_mangle)]
extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc_next::socket(family, kind, protocol) };
    if fd >= 0 {
        made(fd, family, kind, protocol);
        super::interfaces::netlink::made(fd, family, protocol);
    }
    fd
}
