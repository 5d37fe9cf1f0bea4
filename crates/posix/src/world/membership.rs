//! How processes become members of a world, and what happens to what a process had when it has ended.

use crate::sys::descriptor::{self, Entry, decode};
use crate::world::lock::{Guard, shared};
use crate::world::processes::{Record, be, be_in_place_of, number};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// This process is the one whose record this is, again.
pub(crate) fn is_own(record: &Record) {
    note_id(number(), record, std::process::id() as i32);
    descriptor::use_table(&record.table);
}

/// This process makes the calls of process `number`, the kernel's `id`.
pub(crate) fn stand_in_for(number: u32, record: &Record, id: libc::pid_t) {
    note_id(number, record, id);
    be_in_place_of(number);
    descriptor::use_table(&record.table);
    descriptor::read_table(&record.table);
}

/// Makes this process, or the child of a fork, number `number`, which ends with `lifeline`.
pub(crate) fn become_process(number: u32, lifeline: RawFd, record: &Record) {
    be(number, lifeline);
    note_id(number, record, std::process::id() as i32);
    descriptor::use_table(&record.table);
}

/// The process with this record is the kernel's `id`.
fn note_id(number: u32, record: &Record, id: libc::pid_t) {
    record.id.store(id, Ordering::Relaxed);
    if let Some(shared) = shared() {
        shared.pids.note(number, id);
    }
}

impl Guard {
    /// A record for a child, which has all this process has.
    pub(crate) fn clone_process(&mut self) -> u32 {
        let mut words: Vec<u32> = Vec::new();
        if let Some(own) = self.processes.own() {
            words.extend(own.table.iter().map(|word| word.load(Ordering::Relaxed)));
        }
        let table = descriptor::new_table();
        for (word, cell) in words.iter().zip(table.iter()) {
            self.refer(decode(*word));
            cell.store(*word, Ordering::Relaxed);
        }
        self.processes.insert(table)
    }

    /// A record for a process that has `entry` alone, as its descriptor `fd`.
    pub(crate) fn record_with(&mut self, fd: RawFd, entry: Entry) -> u32 {
        let table = descriptor::new_table();
        self.refer(entry);
        if let Some(cell) = table.get(fd as usize) {
            cell.store(descriptor::encode(entry), Ordering::Relaxed);
        }
        self.processes.insert(table)
    }

    /// One more descriptor stands for `entry`.
    pub(crate) fn refer(&mut self, entry: Entry) {
        match entry {
            Entry::Socket(socket) => {
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.references += 1;
                }
            }
            Entry::Epoll(epoll) => {
                if let Some(epoll) = self.sockets.epolls.get_mut(epoll as usize).and_then(Option::as_mut) {
                    epoll.references += 1;
                }
            }
            Entry::Own | Entry::Kernel | Entry::Remote => {}
        }
    }

    /// A process has ended: what it had is closed.
    pub(crate) fn process_ended(&mut self, number: u32) {
        let Some(record) = self.processes.records.get_mut(number as usize).and_then(Option::take) else { return };
        self.shared().pids.remove(number);
        self.leadership.process_ended(number);
        for waker in record.wakers {
            self.wakers.give_back(waker);
        }
        for socket in record.held {
            self.release(socket);
        }
        for cell in &record.table {
            match decode(cell.load(Ordering::Relaxed)) {
                Entry::Socket(socket) => self.release(socket),
                Entry::Epoll(epoll) => self.release_epoll(epoll),
                Entry::Own | Entry::Kernel | Entry::Remote => {}
            }
        }
    }

    /// Whether the process with this number of the kernel's has this world.
    pub(crate) fn has_process(&self, id: i32) -> bool {
        let ids = self.processes.records.iter().flatten();
        ids.into_iter().any(|record| record.id.load(Ordering::Relaxed) == id)
    }
}
