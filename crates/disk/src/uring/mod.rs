//! [`Uring`]: a file, partition or disk by io_uring, past the page cache.
//!
//! ```text
//!  submit ─▶ submission ring ─ ring(): an io_uring_enter for two, the last of which has the kernel post completions ─▶ device
//!  complete ◀─ completion ring ◀─ a flag in shared memory says that there are some: polling takes no system call
//! ```
//! The file and the memory of buffers are registered once, so that no request has its descriptor looked up or its pages pinned.
//! Completions are made when this thread asks for them (deferred task work), never by interrupting it.
//!
//! The ring is restricted before it takes its first request: it reads, writes and flushes this one file from registered memory, and
//! nothing else, ever. So a confined process may be left with it: whoever takes that process over can't open a file or a socket by it.

mod file;
mod generic;
mod holder;
mod make;
mod memory;
mod polling;
mod queue;
mod ring;
mod slot;

pub use file::{DiskFile, DiskOptions};
pub use make::make_file;
pub use polling::Polling;

use crate::error::{OpenError, StorageError};
use crate::nvme::spec::Command;
use crate::vsic::{Completion, Kind, Operation, Request, Vsic, VsicStatistics};
use io_uring::opcode;
use memory::Registered;
use qanat_api::Geometry;
use qanat_nic::{Frame, Region};
use ring::{FILE, Ring, Shape};
use rustix::event::EventfdFlags;
use slot::{Slot, ZEROES_BYTES, command_of};
use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// How long a device that is let go may take for what is under way. Then its memory is given up, for good.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A disk by io_uring.
pub struct Uring {
    ring: Ring,
    file: DiskFile,
    polling: Polling,
    /// Of which all buffers are. Dropped after the ring.
    memory: Registered,
    zeroes: Frame,
    /// The number of the zeroes' memory.
    zeroes_buffer: u16,
    /// The file is another process's as well, which has locked it.
    is_lent: bool,
    /// It is signalled when there is something to complete. It is made when it is first asked for: a ring that is only polled does without
    /// the signals. (The ring's own descriptor does not wake a thread that polls it, for completions are made when this thread asks.)
    event: OnceCell<Option<OwnedFd>>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Requests that ended without the device.
    refused: Vec<Completion>,
    statistics: VsicStatistics,
    /// Flushes that are under way.
    flushes: u32,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uring({:?}, {} under way)", self.file, self.in_flight())
    }
}

impl Uring {
    /// Opens a file, partition or disk; `memory`: what all buffers will be of.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, options: DiskOptions, memory: &[Rc<Region>]) -> Result<Uring, OpenError> {
        Uring::over(DiskFile::open(path, options)?, memory)
    }

    /// Over an open file.
    ///
    /// # Errors
    /// [`OpenError::Ring`], [`OpenError::Memory`].
    pub fn over(file: DiskFile, memory: &[Rc<Region>]) -> Result<Uring, OpenError> {
        Uring::build(file, memory, 0)
    }

    /// Over a file that another process has locked, with memory that comes and goes ([`lend`](Uring::lend)), so many pieces at most. From
    /// here on the ring can do nothing but read, write and flush this file, and register memory: whoever gets hold of it opens no file
    /// and no socket by it, whatever else the process may do.
    ///
    /// # Errors
    /// [`OpenError::Ring`], [`OpenError::Memory`].
    pub fn fenced(file: DiskFile, pieces_max: u16) -> Result<Uring, OpenError> {
        let disk = Uring::build(file, &[], pieces_max.max(1))?;
        // It is made while there are rights.
        let _ = disk.doorbell();
        Ok(disk)
    }

    /// `pieces_max`: of memory that is lent later, so many at once; then the ring is fenced.
    fn build(file: DiskFile, memory: &[Rc<Region>], pieces_max: u16) -> Result<Uring, OpenError> {
        if !file.polled {
            return Uring::make(file, memory, pieces_max, Polling::NotOffered);
        }
        // A queue that can be polled may lie under what can't, as some file systems. Only a request shows it.
        let mut disk = Uring::make(file, memory, pieces_max, Polling::Used)?;
        match disk.try_polling() {
            None => Ok(disk),
            Some(number) => {
                let file = disk.file.clone();
                drop(disk);
                Uring::make(file, memory, pieces_max, Polling::Refused(number))
            }
        }
    }

    fn make(file: DiskFile, memory: &[Rc<Region>], pieces_max: u16, polling: Polling) -> Result<Uring, OpenError> {
        let depth = file.geometry.depth;
        let is_lent = pieces_max > 0;
        let is_generic = file.namespace.is_some();
        let shape = Shape { is_generic, is_polled: polling == Polling::Used, depth };
        let ring = Ring::new(shape)?;
        let of_zeroes = |error| OpenError::Memory { bytes: ZEROES_BYTES as usize, error };
        let region = Region::new(1, ZEROES_BYTES).map_err(of_zeroes)?;
        let mut zeroes =
            region.pool(1).and_then(|pool| pool.allocate(0)).ok_or_else(|| of_zeroes(io::Error::other("no frame")))?;
        zeroes.append(ZEROES_BYTES as usize);
        let zeroes_buffer = memory.len() as u16;
        let memory = memory.iter().cloned().chain([region]).collect();
        let memory = Registered::new(&ring, memory, pieces_max)?;
        ring.enable(file.as_fd(), shape, is_lent)?;
        let slots = (0..depth).map(|_| None).collect();
        let (free, refused) = ((0..depth).rev().collect(), Vec::with_capacity(depth as usize));
        let (event, statistics) = (OnceCell::new(), VsicStatistics::default());
        Ok(Uring {
            ring,
            file,
            polling,
            memory,
            zeroes,
            zeroes_buffer,
            is_lent,
            event,
            slots,
            free,
            refused,
            statistics,
            flushes: 0,
        })
    }

    /// Reads the first block of a device that is polled: the number of the error if that can't be done by polling.
    fn try_polling(&mut self) -> Option<i32> {
        let (buffer, block_bytes) = (self.zeroes_buffer, self.file.geometry.block_bytes);
        let place = self.zeroes.bytes_mut().as_mut_ptr();
        match self.file.namespace {
            Some(namespace) => {
                let at = (place.expose_provenance() as u64, block_bytes, buffer);
                let entry = generic::entry(Command::read(namespace.identifier, 0, 1), Some(at));
                // SAFETY: the zeroes are registered memory, of which nothing else is under way.
                unsafe { self.ring.push_command(&entry) }
            }
            None => {
                let entry = opcode::ReadFixed::new(FILE, place, block_bytes, buffer).build();
                // SAFETY: as above.
                unsafe { self.ring.push(&entry) }
            }
        };
        let end = std::time::Instant::now() + LAST_WAIT;
        let mut outcome = None;
        while outcome.is_none() && std::time::Instant::now() < end {
            self.ring.wait(Duration::from_millis(100), false);
            outcome = self.ring.next();
        }
        if let Some(first) = self.zeroes.bytes_mut().get_mut(..block_bytes as usize) {
            first.fill(0);
        }
        // Whatever else is wrong with the block, it was polled for.
        match outcome.map(|(_, result)| -result) {
            Some(number @ (libc::EOPNOTSUPP | libc::EINVAL)) => Some(number),
            _ => None,
        }
    }

    /// How completions are noticed.
    pub fn polling(&self) -> Polling {
        self.polling
    }

    /// `None`: there are no descriptors left, and the ring has to be polled.
    fn make_event(&self) -> Option<OwnedFd> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        self.ring.register_event(event.as_fd()).ok()?;
        Some(event)
    }

    /// Registers memory that buffers will be of, until it is taken back.
    ///
    /// # Errors
    /// What the kernel says: `ENOMEM` beyond the limit of locked memory, `EFAULT` for more than 1 GiB. `ENOSPC`: there is no room for more,
    /// or the ring was not made for memory that comes later.
    pub fn lend(&mut self, region: &Rc<Region>) -> io::Result<()> {
        self.memory.add(&self.ring, region)
    }

    /// Takes memory back. Requests under way keep the pages until they end.
    pub fn take_back(&mut self, region: &Rc<Region>) {
        self.memory.remove(&self.ring, region);
    }

    /// The open file, for another ring on it.
    pub fn file(&self) -> DiskFile {
        self.file.clone()
    }

    /// Queues what is left of the request in a slot.
    fn queue(&mut self, index: u32) {
        let Some(Some(slot)) = self.slots.get_mut(index as usize) else { return };
        let left = slot.length - slot.done;
        let offset = slot.offset + slot.done;
        let flags = if slot.durable && !slot.then_flush { libc::RWF_DSYNC } else { 0 };
        let user_data = u64::from(index);
        if let Some(namespace) = self.file.namespace {
            let entry = command_of(slot, namespace, &self.file.geometry, (&self.zeroes, self.zeroes_buffer));
            let entry = entry.user_data(user_data);
            // SAFETY: the memory that the entry names is registered, and the frame stays in its slot until the completion.
            while !unsafe { self.ring.push_command(&entry) } {
                self.enter();
            }
            return;
        }
        if slot.is_flushing() {
            self.flushes += 1;
            while !self.ring.push_flush(user_data) {
                self.enter();
            }
            return;
        }
        let entry = match (slot.kind, &mut slot.frame) {
            (Kind::Read, Some(frame)) => {
                let rest = frame.bytes_mut().get_mut(slot.done as usize..).unwrap_or_default();
                opcode::ReadFixed::new(FILE, rest.as_mut_ptr(), left as u32, slot.buffer).offset(offset).build()
            }
            (Kind::Write, Some(frame)) => {
                let rest = frame.bytes().get(slot.done as usize..).unwrap_or_default();
                let write = opcode::WriteFixed::new(FILE, rest.as_ptr(), left as u32, slot.buffer);
                write.offset(offset).rw_flags(flags).build()
            }
            _ => {
                let some = left.min(u64::from(ZEROES_BYTES)) as u32;
                let (zeroes, buffer) = (self.zeroes.bytes().as_ptr(), self.zeroes_buffer);
                opcode::WriteFixed::new(FILE, zeroes, some, buffer).offset(offset).build()
            }
        };
        let entry = entry.user_data(user_data);
        // SAFETY: the memory that the entry names is registered, and the frame stays in its slot until the completion.
        while !unsafe { self.ring.push(&entry) } {
            // As many entries as slots, and a slot has one entry at most: full only of what was queued before.
            self.enter();
        }
    }

    /// Starts what is queued, and has the kernel post what has completed.
    fn enter(&mut self) {
        self.statistics.doorbells += 1;
        self.ring.enter();
    }

    /// What the kernel says of a slot's request: its end, or `None` if it goes on.
    fn completed(&mut self, index: u32, result: i32) -> Option<Completion> {
        let slot = self.slots.get_mut(index as usize)?.as_mut()?;
        let flushed = self.file.namespace.is_none() && slot.is_flushing();
        if flushed {
            self.flushes = self.flushes.saturating_sub(1);
        }
        let outcome = match result {
            _ if self.file.namespace.is_some() => slot.command_completed(result, &self.file.geometry),
            _ if result == -libc::EAGAIN || result == -libc::EINTR => None,
            _ if result < 0 => Some(Err(StorageError::from_errno(-result))),
            _ if flushed => Some(Ok(())),
            // Nothing more: the file has become shorter, or the device smaller.
            0 => Some(Err(StorageError::Gone)),
            _ => {
                slot.done += u64::from(result.unsigned_abs());
                // A part that is no whole block can't be gone on from.
                let whole = slot.done % u64::from(self.file.geometry.block_bytes) == 0;
                if slot.done == slot.length {
                    (!slot.then_flush).then_some(Ok(()))
                } else if whole {
                    None
                } else {
                    Some(Err(StorageError::Medium))
                }
            }
        };
        let Some(result) = outcome else {
            self.queue(index);
            return None;
        };
        let slot = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        self.statistics.count(slot.kind, slot.length, result);
        Some(Completion { token: slot.token, frame: slot.frame, result })
    }

    fn refuse(&mut self, request: Request, error: StorageError) {
        self.statistics.failures += 1;
        self.refused.push(request.refused(error));
    }
}

impl Vsic for Uring {
    fn geometry(&self) -> Geometry {
        self.file.geometry
    }

    #[inline]
    fn room(&self) -> usize {
        self.free.len().saturating_sub(self.refused.len())
    }

    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), Request> {
        if self.room() == 0 {
            return Err(request);
        }
        if let Err(error) = request.check(&self.file.geometry) {
            self.refuse(request, error);
            return Ok(());
        }
        let block_bytes = u64::from(self.file.geometry.block_bytes);
        let kind = request.operation.kind();
        let buffer = match &request.operation {
            Operation::Read { frame, .. } | Operation::Write { frame, .. } => match self.memory.number_of(frame) {
                Some(buffer) => buffer,
                None => {
                    self.refuse(request, StorageError::Foreign);
                    return Ok(());
                }
            },
            Operation::Flush | Operation::WriteZeroes { .. } => 0,
        };
        let token = request.token;
        let (offset, length, frame, durable) = match request.operation {
            Operation::Read { block, frame } => (block * block_bytes, frame.len() as u64, Some(frame), false),
            Operation::Write { block, frame, durable } => {
                (block * block_bytes, frame.len() as u64, Some(frame), durable)
            }
            Operation::Flush => (0, 0, None, false),
            Operation::WriteZeroes { block, blocks } => (block * block_bytes, blocks * block_bytes, None, false),
        };
        let Some(index) = self.free.pop() else { return Ok(()) };
        let then_flush = durable && !self.file.writes_through();
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Some(Slot { token, kind, durable, offset, done: 0, length, frame, buffer, then_flush });
        }
        self.queue(index);
        Ok(())
    }

    #[inline]
    fn ring(&mut self) {
        if self.ring.has_queued() {
            self.enter();
        }
    }

    #[inline]
    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let before = completions.len();
        completions.extend(self.refused.drain(..self.refused.len().min(completions_max)));
        let mut again = true;
        while completions.len() - before < completions_max {
            let Some((user_data, result)) = self.ring.next() else {
                // Completions that wait for this thread to ask: one system call gets them all. So does a look into the device's queue.
                let waiting = self.ring.has_to_ask() || self.ring.is_polled() && self.free.len() < self.slots.len();
                if !waiting || !std::mem::take(&mut again) {
                    break;
                }
                self.enter();
                continue;
            };
            completions.extend(self.completed(user_data as u32, result));
        }
        // What goes on after a short transfer is started by this.
        self.ring();
        completions.len() - before
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.refused.len()
    }

    /// Has to be asked for once before the process gives up its rights: making it takes a system call that a confined service has not.
    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        if self.ring.is_polled() {
            return None;
        }
        let event = self.event.get_or_init(|| self.make_event()).as_ref()?;
        // What it says by now is old. It would block if there is nothing: then nothing was said.
        let _ = rustix::io::read(event, &mut [0_u8; 8]);
        if self.ring.has_news() || !self.refused.is_empty() {
            // What came before is said again. It can't be full.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
        Some(event.as_fd())
    }

    /// Starts what is queued as well: one system call.
    fn wait(&mut self, patience: Duration) {
        if !self.refused.is_empty() || self.in_flight() == 0 {
            return;
        }
        self.statistics.doorbells += 1;
        self.ring.wait(patience, self.flushes > 0);
    }

    fn statistics(&self) -> VsicStatistics {
        self.statistics
    }
}

impl Drop for Uring {
    /// Waits for what is under way: its memory is the device's until then.
    fn drop(&mut self) {
        let mut ended = Vec::new();
        let end = std::time::Instant::now() + LAST_WAIT;
        while self.in_flight() > self.refused.len() && std::time::Instant::now() < end {
            self.wait(Duration::from_millis(100));
            self.complete(&mut ended, usize::MAX);
        }
        if self.in_flight() > 0 {
            // The device may still write there: nobody gets this memory any more.
            self.slots.drain(..).flatten().for_each(std::mem::forget);
            self.memory.give_up();
        }
        // The kernel lets go of a ring in its own time; the file is somebody else's at once.
        self.ring.unregister_file();
        if !self.is_lent {
            self.file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::squeue;
    use std::os::fd::AsRawFd;

    /// What the kernel says of an entry that the driver never makes.
    fn outcome(ring: &mut Ring, entry: &squeue::Entry) -> i32 {
        let Ring::Blocks(ring) = ring else { panic!("the file is not polled") };
        // SAFETY: the entry names no memory, or what outlives the call.
        unsafe { ring.submission().push(entry) }.unwrap();
        ring.submit_and_wait(1).unwrap();
        ring.completion().next().unwrap().result()
    }

    #[test]
    fn a_ring_does_nothing_but_what_it_is_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let memory = Region::new(2, 4_096).unwrap();
        let mut disk = Uring::open(&path, DiskOptions::default(), &[memory]).unwrap();
        let name = c"/etc/passwd";
        let fd = io_uring::types::Fd(disk.file.as_fd().as_raw_fd());
        let at_fd = io_uring::types::Fd(libc::AT_FDCWD);
        for entry in [
            opcode::OpenAt::new(at_fd, name.as_ptr()).build(),
            opcode::Socket::new(libc::AF_UNIX, libc::SOCK_STREAM, 0).build(),
            opcode::Nop::new().build(),
            opcode::Close::new(FILE).build(),
            // A file that is not the registered one.
            opcode::Fsync::new(fd).build(),
        ] {
            assert_eq!(outcome(&mut disk.ring, &entry), -libc::EACCES);
        }
        // The control: the same by the registered file.
        assert_eq!(outcome(&mut disk.ring, &opcode::Fsync::new(FILE).build()), 0);
        let refused = disk.ring.submitter().register_files(&[0]).unwrap_err();
        assert!(matches!(refused.raw_os_error(), Some(libc::EACCES | libc::EBUSY)), "{refused}");
    }

    #[test]
    fn what_has_ended_wakes_who_sleeps_on_the_doorbell() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let memory = Region::new(2, 4_096).unwrap();
        let pool = memory.pool(2).unwrap();
        let mut disk = Uring::open(&path, DiskOptions::default(), &[memory]).unwrap();
        for token in 0..3 {
            let mut frame = pool.allocate(0).unwrap();
            frame.append(4_096).unwrap();
            disk.submit(Request { token, operation: Operation::Read { block: 0, frame } }).unwrap();
            disk.ring();
            let bell = disk.doorbell().unwrap();
            let mut polled = [rustix::event::PollFd::from_borrowed_fd(bell, rustix::event::PollFlags::IN)];
            let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut polled, Some(&patience)).unwrap(), 1, "nobody is woken");
            let mut ended = Vec::new();
            assert_eq!(disk.complete(&mut ended, 8), 1);
            assert_eq!((ended[0].token, ended[0].result), (token, Ok(())));
        }
    }
}
