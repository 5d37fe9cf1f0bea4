//! [`Ring`]: the kernel's ring, with entries of the size that the device needs, restricted to what a disk is asked for.
//!
//! | device | entries | flushes |
//! |---|---|---|
//! | file, partition or disk | 64 bytes | in the same ring; if that is polled, in a second one, for the kernel polls for transfers only |
//! | NVMe generic device | 128 bytes, completions of 32 | a command as any other |

use crate::error::OpenError;
use io_uring::register::Restriction;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{Builder, EnterFlags, IoUring, Submitter, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::time::Duration;

/// The file's place in the table of registered files.
pub(super) const FILE: Fixed = Fixed(0);

/// `IORING_REGISTER_BUFFERS_UPDATE`, which the crate does not name.
const BUFFERS_UPDATE: u8 = 16;
/// `IORING_UNREGISTER_FILES`, likewise.
const UNREGISTER_FILES: u8 = 3;
/// `IORING_REGISTER_EVENTFD`, likewise.
const REGISTER_EVENTFD: u8 = 4;
/// `IOSQE_FIXED_FILE`, likewise.
const FIXED_FILE: u8 = 1;

/// Entries that one system call starts. If there are more, the kernel gathers them all before the device hears of the first
/// (`IO_PLUG_THRESHOLD` in io_uring/io_uring.c), and a device that has little to do idles for as long. Measured: with requests of 4 KiB
/// and a depth of 8, all at once reached 0.90 of fio's requests, pairs 0.98.
const AT_ONCE: usize = 2;

/// Entries of an NVMe generic device, and their completions.
type Commands = IoUring<squeue::Entry128, cqueue::Entry32>;

/// What a ring is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The device is an NVMe generic device.
    pub(super) is_generic: bool,
    /// Completions are polled for in the device's own queue.
    pub(super) is_polled: bool,
    /// Entries.
    pub(super) depth: u32,
}

/// A ring, or two.
#[expect(clippy::large_enum_variant, reason = "each queue has one of them, which stays where it is")]
pub(super) enum Ring {
    /// Transfers and flushes in one.
    Blocks(IoUring),
    /// Transfers, which are polled for, and flushes, which are not.
    PolledBlocks(IoUring, IoUring),
    /// NVMe commands; whether they are polled for.
    Commands(Commands, bool),
}

/// Does the same with any ring.
macro_rules! main {
    ($ring:expr, $main:ident => $body:expr) => {
        match $ring {
            Ring::Blocks($main) | Ring::PolledBlocks($main, _) => $body,
            Ring::Commands($main, _) => $body,
        }
    };
}

/// All that a ring may ever be asked for (`io_uring_register(2)`: IORING_REGISTER_RESTRICTIONS).
fn restrictions(shape: Shape, lends: bool) -> Vec<Restriction> {
    let operations: &[u8] = if shape.is_generic {
        &[opcode::UringCmd80::CODE]
    } else {
        &[opcode::ReadFixed::CODE, opcode::WriteFixed::CODE, opcode::Fsync::CODE]
    };
    let mut all: Vec<_> = operations.iter().map(|code| Restriction::sqe_op(*code)).collect();
    // Only files that are registered, of which there is one.
    all.push(Restriction::sqe_flags_required(FIXED_FILE));
    all.extend([UNREGISTER_FILES, REGISTER_EVENTFD].map(Restriction::register_op));
    all.extend(lends.then(|| Restriction::register_op(BUFFERS_UPDATE)));
    all
}

fn set_up<S: squeue::EntryMarker, C: cqueue::EntryMarker>(builder: &mut Builder<S, C>, depth: u32) {
    builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    builder.setup_cqsize(2 * depth.next_power_of_two()).setup_r_disabled();
}

/// Registers the file, and lets the ring do nothing else from here on.
fn enable(submitter: &Submitter<'_>, file: BorrowedFd<'_>, mut allowed: Vec<Restriction>) -> Result<(), OpenError> {
    let failed = |error| OpenError::Ring { error };
    submitter.register_files(&[file.as_raw_fd()]).map_err(failed)?;
    submitter.register_restrictions(&mut allowed).map_err(failed)?;
    submitter.register_enable_rings().map_err(failed)
}

impl Ring {
    /// Makes one, which takes no requests yet.
    pub(super) fn new(shape: Shape) -> Result<Ring, OpenError> {
        let failed = |error| OpenError::Ring { error };
        let Shape { is_generic, is_polled, depth } = shape;
        let entries = depth.next_power_of_two();
        if is_generic {
            let mut builder = Commands::builder();
            set_up(&mut builder, depth);
            if is_polled {
                builder.setup_iopoll();
            }
            return Ok(Ring::Commands(builder.build(entries).map_err(failed)?, is_polled));
        }
        let make = |polls: bool| {
            let mut builder = IoUring::builder();
            set_up(&mut builder, depth);
            if polls {
                builder.setup_iopoll();
            }
            builder.build(entries).map_err(failed)
        };
        Ok(if is_polled { Ring::PolledBlocks(make(true)?, make(false)?) } else { Ring::Blocks(make(false)?) })
    }

    /// Registers the file, and lets the rings do nothing else from here on. Memory has been registered, unless it is lent later.
    pub(super) fn enable(&self, file: BorrowedFd<'_>, shape: Shape, lends: bool) -> Result<(), OpenError> {
        if let Ring::PolledBlocks(_, flushes) = self {
            enable(&flushes.submitter(), file, restrictions(shape, false))?;
        }
        enable(&self.submitter(), file, restrictions(shape, lends))
    }

    /// The ring for transfers.
    pub(super) fn submitter(&self) -> Submitter<'_> {
        main!(self, ring => ring.submitter())
    }

    /// Whether the kernel makes completions only when this thread looks for them in the device's queue.
    #[inline]
    pub(super) fn is_polled(&self) -> bool {
        matches!(self, Ring::PolledBlocks(..) | Ring::Commands(_, true))
    }

    /// Queues an entry for a file or block device; whether there was room.
    ///
    /// # Safety
    /// The memory that the entry names is registered with the ring, and nobody else's until its completion.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        match self {
            // SAFETY: the entry names registered memory, which is nobody else's until its completion.
            Ring::Blocks(ring) | Ring::PolledBlocks(ring, _) => unsafe { ring.submission().push(entry) }.is_ok(),
            // A generic device is asked by commands only.
            Ring::Commands(..) => true,
        }
    }

    /// Queues a command for a generic device; whether there was room.
    ///
    /// # Safety
    /// As for [`push`](Ring::push).
    pub(super) unsafe fn push_command(&mut self, entry: &squeue::Entry128) -> bool {
        match self {
            // SAFETY: the command names registered memory, which is nobody else's until its completion.
            Ring::Commands(ring, _) => unsafe { ring.submission().push(entry) }.is_ok(),
            Ring::Blocks(_) | Ring::PolledBlocks(..) => true,
        }
    }

    /// Queues a flush of a file or block device; whether there was room.
    pub(super) fn push_flush(&mut self, user_data: u64) -> bool {
        let entry = opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build().user_data(user_data);
        match self {
            // SAFETY: the entry names no memory.
            Ring::Blocks(ring) | Ring::PolledBlocks(_, ring) => unsafe { ring.submission().push(&entry) }.is_ok(),
            Ring::Commands(..) => true,
        }
    }

    /// Whether anything is queued that the kernel has not been told of.
    #[inline]
    pub(super) fn has_queued(&mut self) -> bool {
        let has_flushes = match self {
            Ring::PolledBlocks(_, flushes) => !flushes.submission().is_empty(),
            Ring::Blocks(_) | Ring::Commands(..) => false,
        };
        has_flushes || main!(self, ring => !ring.submission().is_empty())
    }

    /// Starts what is queued, but for at most [`AT_ONCE`], which the caller's system call starts.
    fn start_all_but_the_last(&mut self) {
        main!(self, ring => while ring.submission().len() > AT_ONCE {
            // SAFETY: as in `enter`, and so are errors.
            let started = unsafe { ring.submitter().enter::<libc::sigset_t>(AT_ONCE as u32, 0, 0, None) };
            if !matches!(started, Ok(1..)) {
                break;
            }
        });
    }

    /// Starts what is queued, and has the kernel post what has completed.
    pub(super) fn enter(&mut self) {
        self.start_all_but_the_last();
        // SAFETY: no argument; entries are valid (see `push`). An error (EINTR, EAGAIN, EBUSY while completions overflow)
        // leaves entries queued: the next call starts them.
        let enter = |submitter: &Submitter<'_>, queued: usize| unsafe {
            submitter.enter::<libc::sigset_t>(queued as u32, 0, EnterFlags::GETEVENTS.bits(), None)
        };
        if let Ring::PolledBlocks(_, flushes) = self {
            let queued = flushes.submission().len();
            if queued > 0 || flushes.submission().taskrun() || flushes.submission().cq_overflow() {
                let _ = enter(&flushes.submitter(), queued);
            }
        }
        main!(self, ring => {
            let queued = ring.submission().len();
            let _ = enter(&ring.submitter(), queued);
        });
    }

    /// Starts what is queued, and waits until something has completed, `patience` at most.
    pub(super) fn wait(&mut self, patience: Duration, flushes_under_way: bool) {
        if flushes_under_way && matches!(self, Ring::PolledBlocks(..)) {
            // Two rings can't be slept on at once: one look at both.
            return self.enter();
        }
        self.start_all_but_the_last();
        let time = Timespec::new().sec(patience.as_secs()).nsec(patience.subsec_nanos());
        // An error is EINTR or ETIME, or too many completions that nobody has taken: the caller looks in any case.
        let _ = main!(self, ring => ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)));
    }

    /// The next completion: what it was submitted as, and what came of it.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, i32)> {
        if let Ring::PolledBlocks(_, flushes) = self
            && let Some(entry) = flushes.completion().next()
        {
            return Some((entry.user_data(), entry.result()));
        }
        main!(self, ring => ring.completion().next().map(|entry| (entry.user_data(), entry.result())))
    }

    /// Whether completions wait for this thread to ask for them.
    #[inline]
    pub(super) fn has_to_ask(&mut self) -> bool {
        let waits = |taskrun: bool, overflow: bool| taskrun || overflow;
        let for_flushes = match self {
            Ring::PolledBlocks(_, flushes) => {
                let submission = flushes.submission();
                waits(submission.taskrun(), submission.cq_overflow())
            }
            _ => false,
        };
        for_flushes
            || main!(self, ring => {
                let submission = ring.submission();
                waits(submission.taskrun(), submission.cq_overflow())
            })
    }

    /// The same, and whether there are completions; for who only has a shared reference.
    pub(super) fn has_news(&self) -> bool {
        main!(self, ring => {
            // SAFETY: neither queue is in use elsewhere: both are borrowed within methods of `&mut self` only. Nothing is pushed or taken.
            let (submission, completion) = unsafe { (ring.submission_shared(), ring.completion_shared()) };
            submission.taskrun() || submission.cq_overflow() || !completion.is_empty()
        })
    }

    /// Has the kernel write to an eventfd for each completion.
    pub(super) fn register_event(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.submitter().register_eventfd(event.as_raw_fd())
    }

    /// Lets go of the file at once.
    pub(super) fn unregister_file(&self) {
        if let Ring::PolledBlocks(_, flushes) = self {
            let _ = flushes.submitter().unregister_files();
        }
        let _ = self.submitter().unregister_files();
    }
}
