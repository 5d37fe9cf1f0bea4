//! The processes of a program: who has which sockets open, and how the keeper learns that one has ended.
//!
//! Each process holds the write end of a pipe that is closed by its end, or by `exec`; the keeper has the read ends.

use crate::sys::bells::{Bell, out_of_the_way};
use crate::sys::descriptor::{self, Entry, Table, decode};
use crate::world::lock::{Guard, lock};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// What is known of one process.
pub(crate) struct Record {
    /// The kernel's number of it; 0: it has not begun yet.
    pub(crate) id: AtomicI32,
    pub(crate) table: Box<Table>,
    /// Bells its threads have.
    pub(crate) bells: Vec<Bell>,
    /// Sockets that its threads wait for: each has a reference.
    pub(crate) held: Vec<u32>,
}

#[derive(Default)]
pub(crate) struct Processes {
    pub(crate) records: Vec<Option<Record>>,
    /// Where processes register with the keeper.
    pub(crate) registry: RawFd,
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

/// This process goes on as one that is away.
pub(crate) fn begin_away(number: u32, lifeline: RawFd, registry: RawFd) {
    NUMBER.store(number, Ordering::Relaxed);
    LIFELINE.store(lifeline, Ordering::Relaxed);
    REGISTRY.store(registry, Ordering::Relaxed);
}

/// A child of a process that is away.
pub(crate) fn child_of_away(number: u32, lifeline: RawFd) {
    set_first(false);
    let parents = LIFELINE.swap(lifeline, Ordering::Relaxed);
    NUMBER.store(number, Ordering::Relaxed);
    descriptor::set(lifeline, Entry::Own);
    descriptor::set(parents, Entry::Kernel);
    // SAFETY: a copy of the parent's, of no use here.
    unsafe { crate::sys::libc_next::close(parents) };
}

/// This process is the one whose record this is, again.
pub(crate) fn is_own(record: &Record) {
    note_id(number(), record, std::process::id() as i32);
    descriptor::use_table(&record.table);
}

/// This process makes the calls of process `number`, the kernel's `id`.
pub(crate) fn stand_in_for(number: u32, record: &Record, id: libc::pid_t) {
    note_id(number, record, id);
    NUMBER.store(number, Ordering::Relaxed);
    descriptor::use_table(&record.table);
    descriptor::read_table(&record.table);
}

/// Asks the keeper for something other than a life to be noted: the line on which it answers.
pub(crate) fn ask_keeper(what: u32, text: &[u8]) -> Option<OwnedFd> {
    let (own, keepers) = crate::sys::unix_pair::pair(rustix::net::SocketType::SEQPACKET)?;
    let descriptors = [std::os::fd::AsFd::as_fd(&keepers)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    let registry = registry();
    if registry < 0 {
        return None;
    }
    // SAFETY: open as long as this process is one of a world.
    let registry = unsafe { BorrowedFd::borrow_raw(registry) };
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(registry, &[IoSlice::new(&what.to_ne_bytes()), IoSlice::new(text)], &mut beside, flags).ok()?;
    Some(own)
}

/// A record for a child of this process's, of whose end the keeper learns by `pipe`.
///
/// # Errors
/// There is no keeper.
pub(crate) fn record_for_child(pipe: &OwnedFd) -> Result<u32, i32> {
    let number = lock()?.clone_process();
    hand_line(registry(), number, pipe).map(|()| number)
}

impl Processes {
    pub(crate) fn insert(&mut self, table: Box<Table>) -> u32 {
        let record = Record { id: AtomicI32::new(0), table, bells: Vec::new(), held: Vec::new() };
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

/// Makes this process, or the child of a fork, number `number`, which ends with `lifeline`.
pub(crate) fn become_process(number: u32, lifeline: RawFd, record: &Record) {
    NUMBER.store(number, Ordering::Relaxed);
    LIFELINE.store(lifeline, Ordering::Relaxed);
    note_id(number, record, std::process::id() as i32);
    descriptor::use_table(&record.table);
}

/// The process with this record is the kernel's `id`.
fn note_id(number: u32, record: &Record, id: libc::pid_t) {
    record.id.store(id, Ordering::Relaxed);
    if let Some(shared) = crate::world::lock::shared() {
        shared.roll.note(number, id);
    }
}

/// A pipe whose read end goes to the keeper with the number of the process that will hold the write end.
pub(crate) fn register(registry: RawFd, number: u32) -> Result<OwnedFd, i32> {
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(rustix::io::Errno::raw_os_error)?;
    hand_line(registry, number, &read)?;
    Ok(write)
}

/// Gives the keeper its end of what tells of the life of process `number`.
pub(crate) fn hand_line(registry: RawFd, number: u32, end: &OwnedFd) -> Result<(), i32> {
    say_to_keeper(registry, &number.to_ne_bytes(), end)
}

/// Says something to the keeper, and gives it a descriptor.
pub(crate) fn say_to_keeper(registry: RawFd, bytes: &[u8], end: &OwnedFd) -> Result<(), i32> {
    let descriptors = [std::os::fd::AsFd::as_fd(end)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    // SAFETY: open as long as this process lives.
    let registry = unsafe { BorrowedFd::borrow_raw(registry) };
    sendmsg(registry, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)
        .map(|_| ())
        .map_err(rustix::io::Errno::raw_os_error)
}

/// What a process that is about to be forked from this one will be.
pub(crate) struct Child {
    number: u32,
    lifeline: RawFd,
}

impl Child {
    /// A record for it, which has all that this process has.
    ///
    /// # Errors
    /// There is no world, or this process is out of it.
    pub(crate) fn new() -> Result<Child, i32> {
        let mut guard = lock()?;
        let number = guard.clone_process();
        let registry = guard.processes.registry;
        drop(guard);
        let lifeline = register(registry, number).map(|fd| out_of_the_way(fd.into_raw_fd())).unwrap_or(-1);
        Ok(Child { number, lifeline })
    }

    /// Called in the child: it is that one from now on.
    pub(crate) fn begin(&self) {
        let Child { number, lifeline } = *self;
        crate::sys::local::forked();
        set_first(false);
        let parents = LIFELINE.load(Ordering::Relaxed);
        // Its own whatever becomes of the world meanwhile.
        NUMBER.store(number, Ordering::Relaxed);
        LIFELINE.store(lifeline, Ordering::Relaxed);
        if let Ok(guard) = lock()
            && let Some(Some(record)) = guard.processes.records.get(number as usize)
        {
            become_process(number, lifeline, record);
        }
        descriptor::set(lifeline, Entry::Own);
        descriptor::set(parents, Entry::Kernel);
        // SAFETY: a copy of the parent's, of no use here.
        unsafe { crate::sys::libc_next::close(parents) };
    }

    /// Called in the parent. By closing the last one the keeper learns that there is no child, if there is none.
    pub(crate) fn leave(self) {
        // SAFETY: ours.
        unsafe { crate::sys::libc_next::close(self.lifeline) };
    }
}

/// Forks the program.
///
/// # Safety
/// As `fork`.
pub(crate) unsafe fn fork() -> libc::pid_t {
    // SAFETY: as the caller says.
    unsafe { fork_by(|| crate::sys::libc_next::fork()) }
}

/// Forks the program, to execute another: nothing that it has registered for its forks is called, nor what makes the C library's memory
/// usable in the child.
///
/// # Safety
/// As `vfork`.
pub(crate) unsafe fn fork_quietly() -> libc::pid_t {
    // SAFETY: as the caller says.
    unsafe {
        fork_by(|| {
            let Some(fork) = crate::sys::libc_next::quiet_fork() else { return crate::sys::libc_next::fork() };
            let process = fork();
            if process == 0 {
                crate::sys::arena::use_private_heap();
            }
            process
        })
    }
}

/// # Safety
/// As `fork`.
unsafe fn fork_by(fork: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    crate::calls::option_notes::forget_all();
    let Ok(child) = Child::new() else {
        // SAFETY: as the caller says.
        return unsafe { if crate::sys::departure::is_away() { crate::lifecycle::away::fork() } else { fork() } };
    };
    let process = fork();
    if process == 0 {
        child.begin();
    } else {
        child.leave();
    }
    process
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
            Entry::Own | Entry::Kernel | Entry::Away => {}
        }
    }

    /// A process has ended: what it had is closed.
    pub(crate) fn process_ended(&mut self, number: u32) {
        let Some(record) = self.processes.records.get_mut(number as usize).and_then(Option::take) else { return };
        self.shared().roll.strike(number);
        self.lead.process_ended(number);
        for bell in record.bells {
            self.bells.give_back(bell);
        }
        for socket in record.held {
            self.release(socket);
        }
        for cell in &record.table {
            match decode(cell.load(Ordering::Relaxed)) {
                Entry::Socket(socket) => self.release(socket),
                Entry::Epoll(epoll) => self.release_epoll(epoll),
                Entry::Own | Entry::Kernel | Entry::Away => {}
            }
        }
    }
}
