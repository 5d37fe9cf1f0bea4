//! The processes of a program: which sockets each has open, and which of them this process is.

use crate::sys::descriptor::{self, Entry, Table};
use crate::sys::wakers::Waker;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// What is known of one process.
pub(crate) struct Record {
    /// The kernel's number of it; 0: it has not begun yet.
    pub(crate) id: AtomicI32,
    pub(crate) table: Box<Table>,
    /// Wakers its threads have.
    pub(crate) wakers: Vec<Waker>,
    /// Sockets that its threads wait for: each has a reference.
    pub(crate) held: Vec<u32>,
}

#[derive(Default)]
pub(crate) struct Processes {
    pub(crate) records: Vec<Option<Record>>,
    /// Where processes register with the keeper.
    pub(crate) registry: RawFd,
}

impl Processes {
    pub(crate) fn insert(&mut self, table: Box<Table>) -> u32 {
        let record = Record { id: AtomicI32::new(0), table, wakers: Vec::new(), held: Vec::new() };
        match self.records.iter().position(Option::is_none) {
            Some(free) => {
                self.records[free] = Some(record);
                free as u32
            }
            None => {
                self.records.push(Some(record));
                self.records.len() as u32 - 1
            }
        }
    }

    pub(crate) fn own(&mut self) -> Option<&mut Record> {
        self.records.get_mut(number() as usize)?.as_mut()
    }

    pub(crate) fn count(&self) -> usize {
        self.records.iter().flatten().count()
    }
}

/// This process's number, its end of the pipe, and where the keeper hears it.
static NUMBER: AtomicU32 = AtomicU32::new(0);
static LIFELINE: AtomicI32 = AtomicI32::new(-1);
static REGISTRY: AtomicI32 = AtomicI32::new(-1);

/// This process made the world, or was executed by the one that did: it stays one of the world's over `exec`, with or without sockets
/// (haproxy's master, which closes its listeners and begins anew).
static IS_FIRST: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_first() -> bool {
    IS_FIRST.load(Ordering::Relaxed)
}

pub(crate) fn set_first(is_first: bool) {
    IS_FIRST.store(is_first, Ordering::Relaxed);
}

/// This process's number.
pub(crate) fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

pub(crate) fn lifeline() -> RawFd {
    LIFELINE.load(Ordering::Relaxed)
}

pub(crate) fn registry() -> RawFd {
    REGISTRY.load(Ordering::Relaxed)
}

/// Where the keeper hears this process: noted by itself, for when it can't look into the world.
pub(crate) fn note_registry(registry: RawFd) {
    REGISTRY.store(registry, Ordering::Relaxed);
}

/// This process goes on detached.
pub(crate) fn begin_detached(number: u32, lifeline: RawFd, registry: RawFd) {
    be(number, lifeline);
    note_registry(registry);
}

/// It is number `number`, whatever becomes of the world meanwhile; what it ended with before.
pub(crate) fn be(number: u32, lifeline: RawFd) -> RawFd {
    NUMBER.store(number, Ordering::Relaxed);
    LIFELINE.swap(lifeline, Ordering::Relaxed)
}

/// It makes the calls of process `number`.
pub(crate) fn be_in_place_of(number: u32) {
    NUMBER.store(number, Ordering::Relaxed);
}

/// A child of a detached process.
pub(crate) fn child_of_detached(number: u32, lifeline: RawFd) {
    set_first(false);
    let parents = be(number, lifeline);
    descriptor::set(lifeline, Entry::Own);
    descriptor::set(parents, Entry::Kernel);
    // SAFETY: the descriptor is a copy of the parent's, and nothing here uses it.
    unsafe { crate::sys::libc_next::close(parents) };
}
