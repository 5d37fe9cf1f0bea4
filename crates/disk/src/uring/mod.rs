//! [`Uring`]: a file, partition or disk by io_uring, past the page cache.
//!
//! ```text
//!  submit ─▶ submission ring ─ ring(): one io_uring_enter, which also has the kernel post completions ─▶ device
//!  complete ◀─ completion ring ◀─ a flag in shared memory says that there are some: polling takes no system call
//! ```
//! The file and the memory of buffers are registered once, so that no request has its descriptor looked up or its pages pinned.
//! Completions are made when this thread asks for them (deferred task work), never by interrupting it.
//!
//! The ring is restricted before it takes its first request: it reads, writes and flushes this one file from registered memory, and
//! nothing else, ever. So a confined process may be left with it: whoever takes that process over can't open a file or a socket by it.

mod file;
mod holder;
mod make;

pub use file::{DiskFile, DiskOptions};
pub use make::make_file;

use crate::error::{OpenError, StorageError};
use crate::vsic::{Completion, Kind, Operation, Request, Vsic, VsicStatistics};
use io_uring::register::Restriction;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use qanat_api::Geometry;
use qanat_nic::{Frame, Region};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The file's place in the table of registered files.
const FILE: Fixed = Fixed(0);
/// Bytes of zeroes written at once.
const ZEROES_BYTES: u32 = 1 << 20;
/// How long a device that is let go may take for what is under way. Then its memory is given up, for good.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A request under way.
struct Slot {
    token: u64,
    kind: Kind,
    durable: bool,
    /// Where its transfer goes on, in bytes on the device.
    offset: u64,
    /// Of its transfer, bytes done.
    done: u64,
    /// Of its transfer, bytes in all; of zeroes as well.
    length: u64,
    frame: Option<Frame>,
    /// The registered memory the frame is in.
    buffer: u16,
}

/// `IORING_UNREGISTER_FILES`, which the crate does not name.
const UNREGISTER_FILES: u8 = 3;
/// `IOSQE_FIXED_FILE`, likewise.
const FIXED_FILE: u8 = 1;

/// All that a ring may ever be asked for (`io_uring_register(2)`: IORING_REGISTER_RESTRICTIONS).
fn restrictions() -> [Restriction; 5] {
    [
        Restriction::sqe_op(opcode::ReadFixed::CODE),
        Restriction::sqe_op(opcode::WriteFixed::CODE),
        Restriction::sqe_op(opcode::Fsync::CODE),
        // Only files that are registered, of which there is one.
        Restriction::sqe_flags_required(FIXED_FILE),
        Restriction::register_op(UNREGISTER_FILES),
    ]
}

/// A disk by io_uring.
pub struct Uring {
    ring: IoUring,
    file: DiskFile,
    /// Memory registered with the kernel, in the order of its numbers; the last is the zeroes.
    regions: Vec<(std::ops::Range<usize>, Rc<Region>)>,
    zeroes: Frame,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Requests that ended without the device.
    refused: Vec<Completion>,
    statistics: VsicStatistics,
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
        let depth = file.geometry.depth;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(2 * depth.next_power_of_two())
            .setup_r_disabled()
            .build(depth.next_power_of_two())
            .map_err(|error| OpenError::Ring { error })?;
        let of_zeroes = |error| OpenError::Memory { bytes: ZEROES_BYTES as usize, error };
        let region = Region::new(1, ZEROES_BYTES).map_err(of_zeroes)?;
        let mut zeroes =
            region.pool(1).and_then(|pool| pool.allocate(0)).ok_or_else(|| of_zeroes(io::Error::other("no frame")))?;
        zeroes.append(ZEROES_BYTES as usize);
        let regions: Vec<_> =
            memory.iter().cloned().chain([region]).map(|region| (region.addresses(), region)).collect();
        let vectors: Vec<libc::iovec> = regions
            .iter()
            .map(|(addresses, _)| libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(addresses.start),
                iov_len: addresses.len(),
            })
            .collect();
        // SAFETY: the regions are mapped as long as `self.regions` holds them, which is dropped after the ring.
        unsafe { ring.submitter().register_buffers(&vectors) }
            .map_err(|error| OpenError::Memory { bytes: vectors.iter().map(|vector| vector.iov_len).sum(), error })?;
        ring.submitter()
            .register_files(&[file.as_fd().as_raw_fd()])
            .and_then(|()| ring.submitter().register_restrictions(&mut restrictions()))
            .and_then(|()| ring.submitter().register_enable_rings())
            .map_err(|error| OpenError::Ring { error })?;
        let slots = (0..depth).map(|_| None).collect();
        let (free, refused) = ((0..depth).rev().collect(), Vec::with_capacity(depth as usize));
        Ok(Uring { ring, file, regions, zeroes, slots, free, refused, statistics: VsicStatistics::default() })
    }

    /// Which registered memory a frame is of.
    #[inline]
    fn buffer_of(&self, frame: &Frame) -> Option<u16> {
        let address = frame.bytes().as_ptr().addr();
        self.regions.iter().position(|(addresses, _)| addresses.contains(&address)).map(|index| index as u16)
    }

    /// Queues what is left of the request in a slot.
    fn queue(&mut self, index: u32) {
        let Some(Some(slot)) = self.slots.get_mut(index as usize) else { return };
        let left = slot.length - slot.done;
        let offset = slot.offset + slot.done;
        let flags = if slot.durable { libc::RWF_DSYNC } else { 0 };
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
            (Kind::Flush, _) => opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build(),
            _ => {
                let some = left.min(u64::from(ZEROES_BYTES)) as u32;
                let zeroes = self.regions.len() as u16 - 1;
                opcode::WriteFixed::new(FILE, self.zeroes.bytes().as_ptr(), some, zeroes).offset(offset).build()
            }
        };
        self.push(&entry.user_data(u64::from(index)));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry names is registered, and the frame stays in its slot until the completion.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // As many entries as slots, and a slot has one entry at most: full only of what was queued before.
            self.enter();
        }
    }

    /// Starts what is queued, and has the kernel post what has completed.
    fn enter(&mut self) {
        self.statistics.doorbells += 1;
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument; entries are valid (see `push`). An error (EINTR, EAGAIN, EBUSY while completions overflow)
        // leaves entries queued: the next call starts them.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, EnterFlags::GETEVENTS.bits(), None) };
    }

    /// What the kernel says of a slot's request: its end, or `None` if it goes on.
    fn completed(&mut self, index: u32, result: i32) -> Option<Completion> {
        let slot = self.slots.get_mut(index as usize)?.as_mut()?;
        let outcome = match result {
            _ if result == -libc::EAGAIN || result == -libc::EINTR => None,
            _ if result < 0 => Some(Err(StorageError::from_errno(-result))),
            _ if slot.kind == Kind::Flush => Some(Ok(())),
            // Nothing more: the file has become shorter, or the device smaller.
            0 => Some(Err(StorageError::Gone)),
            _ => {
                slot.done += u64::from(result.unsigned_abs());
                // A part that is no whole block can't be gone on from.
                let whole = slot.done % u64::from(self.file.geometry.block_bytes) == 0;
                if slot.done == slot.length {
                    Some(Ok(()))
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
            Operation::Read { frame, .. } | Operation::Write { frame, .. } => match self.buffer_of(frame) {
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
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Some(Slot { token, kind, durable, offset, done: 0, length, frame, buffer });
        }
        self.queue(index);
        Ok(())
    }

    #[inline]
    fn ring(&mut self) {
        if !self.ring.submission().is_empty() {
            self.enter();
        }
    }

    #[inline]
    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let before = completions.len();
        completions.extend(self.refused.drain(..self.refused.len().min(completions_max)));
        let mut again = true;
        while completions.len() - before < completions_max {
            let Some(entry) = self.ring.completion().next() else {
                // Completions that wait for this thread to ask: one system call gets them all.
                let submission = self.ring.submission();
                let waiting = submission.taskrun() || submission.cq_overflow();
                drop(submission);
                if !waiting || !std::mem::take(&mut again) {
                    break;
                }
                self.enter();
                continue;
            };
            completions.extend(self.completed(entry.user_data() as u32, entry.result()));
        }
        // What goes on after a short transfer is started by this.
        self.ring();
        completions.len() - before
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.refused.len()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring's descriptor lives as long as the ring, which `self` owns.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }

    /// Starts what is queued as well: one system call.
    fn wait(&mut self, patience: Duration) {
        if !self.refused.is_empty() || self.in_flight() == 0 {
            return;
        }
        let time = Timespec::new().sec(patience.as_secs()).nsec(patience.subsec_nanos());
        self.statistics.doorbells += 1;
        // An error is EINTR or ETIME, or too many completions that nobody has taken: the caller looks in any case.
        let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
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
            self.regions.drain(..).for_each(std::mem::forget);
        }
        // The kernel lets go of a ring in its own time; the file is somebody else's at once.
        let _ = self.ring.submitter().unregister_files();
        self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of an entry that the driver never makes.
    fn outcome(ring: &mut IoUring, entry: &squeue::Entry) -> i32 {
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
}
