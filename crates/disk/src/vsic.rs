//! The trait [`Vsic`]: one queue pair of a virtual storage controller.

use crate::error::StorageError;
use qanat_api::Geometry;
use qanat_nic::Frame;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What to do. Addresses and lengths are in blocks of [`Geometry::block_bytes`]; a transfer's length is that of its frame's data.
#[derive(Debug)]
pub enum Operation {
    /// Fills the frame's data with what is stored from `block` on.
    Read {
        /// The first block.
        block: u64,
        /// Where to.
        frame: Frame,
    },
    /// Stores the frame's data from `block` on.
    Write {
        /// The first block.
        block: u64,
        /// What.
        frame: Frame,
        /// It completes once the data survives a loss of power (NVMe: FUA).
        durable: bool,
    },
    /// Makes durable what **completed** before this was submitted. Writes under way are not covered.
    Flush,
    /// Stores zeroes. As long as it likes: the largest transfer does not bound it.
    WriteZeroes {
        /// The first block.
        block: u64,
        /// How many.
        blocks: u64,
    },
}

/// An operation, and what its submitter knows it by.
#[derive(Debug)]
pub struct Request {
    /// Comes back with the completion.
    pub token: u64,
    /// What to do.
    pub operation: Operation,
}

/// The end of a request. There is exactly one for each that was accepted.
#[derive(Debug)]
pub struct Completion {
    /// The request's.
    pub token: u64,
    /// The request's buffer, of a read or write. After a failed read its contents mean nothing.
    pub frame: Option<Frame>,
    /// How it went. After a failed write the blocks hold any mixture of old and new.
    pub result: Result<(), StorageError>,
}

/// Counters of a queue pair since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VsicStatistics {
    /// Reads that succeeded.
    pub reads: u64,
    /// Bytes in them.
    pub read_bytes: u64,
    /// Writes that succeeded, durable ones included.
    pub writes: u64,
    /// Bytes in them.
    pub written_bytes: u64,
    /// Flushes that succeeded.
    pub flushes: u64,
    /// Writes of zeroes that succeeded.
    pub zeroings: u64,
    /// Requests that failed, for whatever reason.
    pub failures: u64,
    /// System calls or doorbells that started requests.
    pub doorbells: u64,
}

impl VsicStatistics {
    /// Counts a request that ended; `bytes`: of its transfer.
    pub(crate) fn count(&mut self, kind: Kind, bytes: u64, result: Result<(), StorageError>) {
        if result.is_err() {
            self.failures += 1;
            return;
        }
        match kind {
            Kind::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Kind::Write => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
            Kind::Flush => self.flushes += 1,
            Kind::Zero => self.zeroings += 1,
        }
    }

    /// Every counter, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("disk_reads", self.reads),
            ("disk_read_bytes", self.read_bytes),
            ("disk_writes", self.writes),
            ("disk_written_bytes", self.written_bytes),
            ("disk_flushes", self.flushes),
            ("disk_zeroings", self.zeroings),
            ("disk_failures", self.failures),
            ("disk_doorbells", self.doorbells),
        ]
        .into_iter()
    }
}

/// What a request was, once its parts have gone their ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Zero,
}

impl Operation {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Operation::Read { .. } => Kind::Read,
            Operation::Write { .. } => Kind::Write,
            Operation::Flush => Kind::Flush,
            Operation::WriteZeroes { .. } => Kind::Zero,
        }
    }

    /// The buffer, of a request that is not done.
    pub fn into_frame(self) -> Option<Frame> {
        match self {
            Operation::Read { frame, .. } | Operation::Write { frame, .. } => Some(frame),
            Operation::Flush | Operation::WriteZeroes { .. } => None,
        }
    }
}

impl Request {
    /// Judges a request as a controller does.
    ///
    /// # Errors
    /// [`StorageError::Length`] if its buffer is empty or not of whole blocks, [`StorageError::TooLong`] beyond the largest
    /// transfer, [`StorageError::OutOfRange`] if it reaches beyond the end, [`StorageError::Unaligned`] for a buffer that does
    /// not begin at a multiple of 512 bytes.
    #[inline]
    pub fn check(&self, geometry: &Geometry) -> Result<(), StorageError> {
        let (block, blocks) = match &self.operation {
            Operation::Flush => return Ok(()),
            Operation::Read { block, frame } | Operation::Write { block, frame, .. } => {
                if !frame.bytes().as_ptr().addr().is_multiple_of(512) {
                    return Err(StorageError::Unaligned);
                }
                if frame.len() > geometry.transfer_bytes_max as usize {
                    return Err(StorageError::TooLong);
                }
                (*block, geometry.blocks_in(frame.len()).filter(|blocks| *blocks > 0).ok_or(StorageError::Length)?)
            }
            Operation::WriteZeroes { block, blocks } => (*block, *blocks),
        };
        match block.checked_add(blocks) {
            _ if blocks == 0 => Err(StorageError::Length),
            Some(end) if end <= geometry.blocks => Ok(()),
            _ => Err(StorageError::OutOfRange),
        }
    }

    /// Bytes it transfers.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        match &self.operation {
            Operation::Read { frame, .. } | Operation::Write { frame, .. } => frame.len() as u64,
            Operation::Flush | Operation::WriteZeroes { .. } => 0,
        }
    }

    /// Its end, if it never reached the device.
    pub(crate) fn refused(self, error: StorageError) -> Completion {
        Completion { token: self.token, frame: self.operation.into_frame(), result: Err(error) }
    }
}

/// One queue pair of a virtual storage controller, used by one thread.
///
/// There is no order between requests under way, not even of one queue: who needs an order waits for completions. Reads and
/// writes of the same blocks at the same time may see or leave any mixture.
pub trait Vsic {
    /// What the device is like.
    fn geometry(&self) -> Geometry;

    /// How many requests [`submit`](Vsic::submit) will certainly take now.
    fn room(&self) -> usize;

    /// Queues a request; it may start only at [`ring`](Vsic::ring). A request that can't be done (out of range, unaligned)
    /// is taken as well, and completes with the error.
    ///
    /// # Errors
    /// Gives the request back if as many as [`Geometry::depth`] are under way.
    fn submit(&mut self, request: Request) -> Result<(), Request>;

    /// Starts what is queued: one doorbell. Never blocks on the device.
    fn ring(&mut self);

    /// Appends up to `completions_max` completions; returns how many. Never blocks.
    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize;

    /// Requests accepted whose completions have not been taken.
    fn in_flight(&self) -> usize;

    /// A descriptor that polls readable when there may be completions; `None` if the device must be polled. It is to be asked for before
    /// each wait, since it may be another, and the device may have to be told that somebody waits.
    fn doorbell(&self) -> Option<BorrowedFd<'_>>;

    /// Starts what is queued, and waits until there may be completions, `patience` at most, for those that have nothing else to do;
    /// returns at once if the device must be polled.
    fn wait(&mut self, patience: Duration) {
        self.ring();
        wait_for(self.doorbell(), patience);
    }

    /// Whether the queue pair is of no use any more: whatever is submitted ends with an error.
    fn is_lost(&self) -> bool {
        false
    }

    /// Counters.
    fn statistics(&self) -> VsicStatistics;
}

/// Waits until a doorbell rings, `patience` at most.
fn wait_for(doorbell: Option<BorrowedFd<'_>>, patience: Duration) {
    let Some(doorbell) = doorbell else { return };
    let mut descriptors = [PollFd::from_borrowed_fd(doorbell, PollFlags::IN)];
    let time = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    // EINTR, as any other error, is as good as a bell: the caller looks.
    let _ = rustix::event::poll(&mut descriptors, Some(&time));
}

/// So that middleware can be stacked over any driver chosen at run time.
impl<V: Vsic + ?Sized> Vsic for Box<V> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        (**self).submit(request)
    }

    fn ring(&mut self) {
        (**self).ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        (**self).complete(completions, completions_max)
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        (**self).doorbell()
    }

    fn wait(&mut self, patience: Duration) {
        (**self).wait(patience);
    }

    fn is_lost(&self) -> bool {
        (**self).is_lost()
    }

    fn statistics(&self) -> VsicStatistics {
        (**self).statistics()
    }
}
