//! Which descriptors of a process are ours: one table for each process, in the arena, so that the keeper knows what a process
//! that died had open.

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
}

/// A process's descriptors.
pub(crate) type Table = [AtomicU32];

/// This process's.
static TABLE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// An empty table; to be called with the lock held.
pub(crate) fn new_table() -> Box<Table> {
    (0..DESCRIPTORS_MAX).map(|_| AtomicU32::new(0)).collect()
}

/// Makes `table`, which is never given up as long as this process lives, its own.
pub(crate) fn use_table(table: &Table) {
    TABLE.store(table.as_ptr().cast_mut(), Ordering::Release);
}

/// This process is none of the program's: its descriptors are the kernel's, whatever the program has under the same numbers.
pub(crate) fn use_none() {
    TABLE.store(std::ptr::null_mut(), Ordering::Release);
}

#[inline]
fn cell(fd: RawFd) -> Option<&'static AtomicU32> {
    let table = TABLE.load(Ordering::Relaxed);
    if table.is_null() || fd as u32 as usize >= DESCRIPTORS_MAX {
        return None;
    }
    // SAFETY: within the table, which stays as long as this process.
    Some(unsafe { &*table.add(fd as usize) })
}

pub(crate) fn encode(entry: Entry) -> u32 {
    match entry {
        Entry::Kernel => 0,
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

/// What `fd` stands for.
#[inline]
pub(crate) fn get(fd: RawFd) -> Entry {
    cell(fd).map_or(Entry::Kernel, |cell| decode(cell.load(Ordering::Acquire)))
}

/// The socket `fd` is, if it is ours.
#[inline]
pub(crate) fn socket(fd: RawFd) -> Option<u32> {
    match get(fd) {
        Entry::Socket(socket) => Some(socket),
        _ => None,
    }
}

/// Whether what the kernel has at `fd`, a socket of ours, stands in for many.
#[inline]
pub(crate) fn is_stand_in(fd: RawFd) -> bool {
    cell(fd).is_some_and(|cell| {
        let word = cell.load(Ordering::Acquire);
        word & KIND == SOCKET && word & STAND_IN != 0
    })
}

/// As [`set`], of a socket of ours for which another file stands in in the kernel.
pub(crate) fn set_stand_in(fd: RawFd, socket: u32) -> bool {
    let Some(cell) = cell(fd) else { return false };
    cell.store(SOCKET | STAND_IN | socket, Ordering::Release);
    true
}

/// Says what `fd` stands for; `false`: its number is too high.
pub(crate) fn set(fd: RawFd, entry: Entry) -> bool {
    let Some(cell) = cell(fd) else { return false };
    cell.store(encode(entry), Ordering::Release);
    true
}
