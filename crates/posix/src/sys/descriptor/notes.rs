//! Which descriptors of a process are ours. The process notes them in its own memory and puts a copy into the arena, so that the keeper knows
//! what a process that died had open. The process never reads the copy, because others can write it.

use crate::sys::this_process::standing::is_out;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Descriptors from here on stay the kernel's.
pub(crate) const DESCRIPTORS_MAX: usize = 65_536;

const SOCKET: u32 = 1 << 30;
const EPOLL: u32 = 2 << 30;
const OWN: u32 = 3 << 30;
const KIND: u32 = 3 << 30;
/// Of a socket: what the kernel has at this number stands in for many. (There are never so many sockets.)
const STAND_IN: u32 = 1 << 29;

/// What a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The kernel's.
    Kernel,
    /// A socket of ours, by number.
    Socket(u32),
    /// An instance of `epoll` that has, or had, sockets of ours.
    Epoll(u32),
    /// The library's own, which is not the program's to close.
    Own,
    /// A socket of a world that this process has [left](crate::lifecycle::detached).
    Remote,
}

/// A process's descriptors.
pub(crate) type Table = [AtomicU32];

/// This process's own notes.
static NOTES: [AtomicU32; DESCRIPTORS_MAX] = [const { AtomicU32::new(0) }; DESCRIPTORS_MAX];
/// Their copy in the arena, if there is one.
static COPY: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// An empty table; to be called with the lock held.
pub(crate) fn new_table() -> Box<Table> {
    (0..DESCRIPTORS_MAX).map(|_| AtomicU32::new(0)).collect()
}

/// Makes `table`, which is never given up as long as this process lives, its copy.
pub(crate) fn use_table(table: &Table) {
    COPY.store(table.as_ptr().cast_mut(), Ordering::Release);
}

/// Takes over what `table` says of sockets; with the lock held.
pub(crate) fn read_table(table: &Table) {
    for (note, cell) in NOTES.iter().zip(table) {
        let word = cell.load(Ordering::Relaxed);
        if matches!(decode(word), Entry::Socket(_) | Entry::Epoll(_)) {
            note.store(word, Ordering::Relaxed);
        }
    }
}

/// From now on this process keeps its notes to itself.
pub(crate) fn use_no_table() {
    COPY.store(std::ptr::null_mut(), Ordering::Release);
}

/// This process is none of the program's: its descriptors are the kernel's, whatever the program has under the same numbers.
pub(crate) fn use_none() {
    use_no_table();
    for note in &NOTES {
        if note.load(Ordering::Relaxed) != 0 {
            note.store(0, Ordering::Relaxed);
        }
    }
}

/// The word noted for `fd`.
#[inline]
pub(crate) fn word(fd: RawFd) -> u32 {
    NOTES.get(fd as u32 as usize).map_or(0, |note| note.load(Ordering::Acquire))
}

/// Notes it.
fn put(fd: RawFd, word: u32) -> bool {
    let Some(note) = NOTES.get(fd as u32 as usize) else { return false };
    let copy = COPY.load(Ordering::Relaxed);
    if copy.is_null() && !is_out() {
        if word & KIND != 0 {
            return false;
        }
        note.store(word, Ordering::Release);
        return true;
    }
    note.store(word, Ordering::Release);
    if !copy.is_null() {
        // SAFETY: within the table, as long as the notes; it stays as long as this process.
        unsafe { &*copy.add(fd as usize) }.store(word, Ordering::Release);
    }
    true
}

pub(crate) fn encode(entry: Entry) -> u32 {
    match entry {
        Entry::Kernel | Entry::Remote => 0,
        Entry::Socket(socket) => SOCKET | socket,
        Entry::Epoll(epoll) => EPOLL | epoll,
        Entry::Own => OWN,
    }
}

pub(crate) fn decode(word: u32) -> Entry {
    match word & KIND {
        SOCKET => Entry::Socket(word & !KIND & !STAND_IN),
        EPOLL => Entry::Epoll(word & !KIND),
        OWN => Entry::Own,
        _ => Entry::Kernel,
    }
}

/// Whether what the kernel has at `fd`, a socket of ours, stands in for many.
#[inline]
pub(crate) fn is_stand_in(fd: RawFd) -> bool {
    let word = word(fd);
    word & KIND == SOCKET && word & STAND_IN != 0
}

/// As [`set`], of a socket of ours for which another file stands in in the kernel.
pub(crate) fn set_stand_in(fd: RawFd, socket: u32) -> bool {
    put(fd, SOCKET | STAND_IN | socket)
}

/// Says what `fd` stands for; `false`: its number is too high.
pub(crate) fn set(fd: RawFd, entry: Entry) -> bool {
    put(fd, encode(entry))
}

/// Notes a descriptor of the library's own, in a process that has no copy in the arena.
pub(crate) fn set_own(fd: RawFd) {
    if let Some(note) = NOTES.get(fd as u32 as usize) {
        note.store(OWN, Ordering::Release);
    }
}

/// As [`set`], of a copy of `old`.
pub(crate) fn set_like(fd: RawFd, old: RawFd) -> bool {
    put(fd, word(old))
}

/// Notes what another process says of `fd`, a socket of a world that this one has left. Only that it is one is taken from it.
pub(crate) fn put_remote(fd: RawFd, word: u32) {
    if matches!(decode(word), Entry::Socket(_) | Entry::Epoll(_)) {
        put(fd, word);
    }
}

/// Descriptors that stand for something other than the kernel's.
pub(crate) fn all() -> impl Iterator<Item = (RawFd, Entry)> {
    let known = NOTES.iter().enumerate().filter(|(_, note)| note.load(Ordering::Relaxed) != 0);
    known.map(|(fd, note)| (fd as RawFd, decode(note.load(Ordering::Relaxed))))
}
