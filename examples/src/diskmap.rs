//! The interface of diskmap (I. Marinos, *Specialised network and storage stacks*, table 4.1), as a thin layer on this API: requests with a
//! call-back each, started and consumed when the program says so.
//!
//! | diskmap | here |
//! |---|---|
//! | `nvme_open`, `nvme_close` | [`Diskmap::open`], dropping it |
//! | `nvme_read`, `nvme_write` | [`Diskmap::read`], [`Diskmap::write`] |
//! | `nvme_sqsync` | [`Diskmap::sqsync`] |
//! | `nvme_consume_completions`, `nvme_cqsync` | [`Diskmap::consume_completions`], which gives the queue's entries back as well |
//!
//! A request that is longer than a buffer is several of the disk's. They end in any order, and the call-back is made once, at the last.

use qanat::disk::{Completion, DiskOptions, OpenError, Operation, Request, Uring, Vsic};
use qanat::nic::Region;
use qanat::{Frame, Pool, StorageError};
use std::path::Path;

/// Is given the request's buffers in the order of its blocks, or why it failed.
pub type Done = Box<dyn FnOnce(Result<&[Frame], StorageError>)>;

/// A request, as long as any part of it is under way.
struct Whole {
    parts: Vec<Option<Frame>>,
    left: usize,
    result: Result<(), StorageError>,
    done: Done,
}

/// A disk's queue pair, with buffers that it transfers to and from.
pub struct Diskmap {
    disk: Uring,
    buffers: Pool,
    wholes: Vec<Option<Whole>>,
}

impl Diskmap {
    /// Opens a file, a block device, or an NVMe generic device (`/dev/ng0n1`), with `buffers` of `bytes` each: powers of two.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, buffers: u32, bytes: u32) -> Result<Diskmap, OpenError> {
        let none = |error| OpenError::Memory { bytes: buffers as usize * bytes as usize, error };
        let region = Region::new(buffers, bytes).map_err(none)?;
        let pool = region.pool(buffers).ok_or_else(|| none(std::io::ErrorKind::OutOfMemory.into()))?;
        let disk = Uring::open(path, DiskOptions { depth: buffers, ..DiskOptions::default() }, &[region])?;
        Ok(Diskmap { disk, buffers: pool, wholes: Vec::new() })
    }

    /// The disk, to ask for its size or to wait on.
    pub fn disk(&mut self) -> &mut Uring {
        &mut self.disk
    }

    /// Queues a read of so many bytes from a block on. `false`: there are too few buffers; `done` is dropped.
    #[must_use]
    pub fn read(&mut self, block: u64, bytes: usize, done: Done) -> bool {
        self.request(block, bytes, |block, frame, _| Operation::Read { block, frame }, done)
    }

    /// Queues a write. `false`: as for a read.
    #[must_use]
    pub fn write(&mut self, block: u64, data: &[u8], done: Done) -> bool {
        let fill = |block, mut frame: Frame, place: usize| {
            let length = frame.len();
            frame.bytes_mut().copy_from_slice(&data[place..place + length]);
            Operation::Write { block, frame, durable: false }
        };
        self.request(block, data.len(), fill, done)
    }

    /// Starts what is queued.
    pub fn sqsync(&mut self) {
        self.disk.ring();
    }

    /// Takes up to `count` completions of the disk's, and makes the call-backs of requests that are whole. How many completions there were.
    pub fn consume_completions(&mut self, count: usize) -> usize {
        let mut completions = Vec::with_capacity(count);
        self.disk.complete(&mut completions, count);
        let taken = completions.len();
        for Completion { token, frame, result } in completions {
            let (number, part) = ((token >> 32) as usize, token as u32 as usize);
            let Some(whole) = self.wholes[number].as_mut() else { continue };
            whole.parts[part] = frame;
            whole.result = whole.result.and(result);
            whole.left -= 1;
            if whole.left == 0
                && let Some(Whole { parts, result, done, .. }) = self.wholes[number].take()
            {
                let frames: Vec<Frame> = parts.into_iter().flatten().collect();
                done(result.map(|()| &frames[..]));
            }
        }
        taken
    }

    fn request(
        &mut self,
        block: u64,
        bytes: usize,
        operation: impl Fn(u64, Frame, usize) -> Operation,
        done: Done,
    ) -> bool {
        let longest = self.buffers.region().frame_size() as usize;
        let count = bytes.div_ceil(longest);
        let frames: Vec<Frame> = (0..count).map_while(|_| self.buffers.allocate(0)).collect();
        if count == 0 || frames.len() < count || count > self.disk.room() {
            return false;
        }
        let number = self.wholes.iter().position(Option::is_none).unwrap_or(self.wholes.len());
        let whole = Whole { parts: (0..count).map(|_| None).collect(), left: count, result: Ok(()), done };
        if number == self.wholes.len() {
            self.wholes.push(Some(whole))
        } else {
            self.wholes[number] = Some(whole)
        }
        let block_bytes = self.disk.geometry().block_bytes as usize;
        for (part, mut frame) in frames.into_iter().enumerate() {
            let place = part * longest;
            frame.append(longest.min(bytes - place));
            let operation = operation(block + (place / block_bytes) as u64, frame, place);
            let token = (number as u64) << 32 | part as u64;
            let Ok(()) = self.disk.submit(Request { token, operation }) else { unreachable!("there was room") };
        }
        true
    }
}
