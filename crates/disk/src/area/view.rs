//! [`AreaDisk`]: one area of a disk, as a device of its own.
//!
//! This is no fence against whoever holds it: the disk's descriptor is in the same process. It is for programs whose own the whole
//! disk is, and for the disk core, which checks what its tenants ask by the same code.

use super::extent::{Extent, pieces};
use super::layout::UNIT_BYTES;
use crate::error::StorageError;
use crate::slots::Slots;
use crate::vsic::{Completion, Operation, Request, Vsic, VsicStatistics};
use qanat_api::Geometry;
use qanat_nic::Frame;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A request under way, which may lie in several extents: they are done one after the other.
struct Spread {
    token: u64,
    /// Where it goes on, bytes of the area.
    offset: u64,
    /// Bytes left, those under way included.
    left: u64,
    /// Of those, bytes under way.
    part: u64,
    kind: Kind,
}

/// What to go on with, and the whole transfer's window in its frame.
#[derive(Clone, Copy)]
enum Kind {
    Read { headroom: usize, length: usize },
    Write { headroom: usize, length: usize, durable: bool },
    Flush,
    Zero,
}

/// An area.
pub struct AreaDisk<V> {
    disk: V,
    extents: Vec<Extent>,
    geometry: Geometry,
    under_way: Slots<Spread>,
    passing: Vec<Completion>,
}

impl<V: std::fmt::Debug> std::fmt::Debug for AreaDisk<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AreaDisk({} bytes of {:?})", self.geometry.bytes(), self.disk)
    }
}

impl<V: Vsic> AreaDisk<V> {
    /// The first `bytes` of what lies in `extents` of `disk`.
    pub fn new(disk: V, extents: &[Extent], bytes: u64) -> AreaDisk<V> {
        let below = disk.geometry();
        let total: u64 = extents.iter().map(Extent::bytes).fold(0, u64::saturating_add);
        let geometry = Geometry { blocks: bytes.min(total) / u64::from(below.block_bytes), ..below };
        AreaDisk { disk, extents: extents.to_vec(), geometry, under_way: Slots::new(), passing: Vec::new() }
    }

    /// The disk.
    pub fn disk(&self) -> &V {
        &self.disk
    }

    /// The same, to be changed.
    pub fn disk_mut(&mut self) -> &mut V {
        &mut self.disk
    }

    /// The area has become larger: these are all its extents. Whether it can: those that it had must be the first, but for the last, which
    /// may be longer.
    pub fn grow(&mut self, extents: &[Extent], bytes: u64) -> bool {
        let total: u64 = extents.iter().map(Extent::bytes).fold(0, u64::saturating_add);
        let blocks = bytes.min(total) / u64::from(self.geometry.block_bytes);
        let mut pairs = self.extents.iter().zip(extents);
        let last = self.extents.len().saturating_sub(1);
        let is_kept = extents.len() > last
            && (0..).zip(&mut pairs).all(|(index, (old, new))| {
                old.unit == new.unit && (old.units == new.units || (index == last && new.units > old.units))
            });
        if is_kept && blocks >= self.geometry.blocks {
            self.extents = extents.to_vec();
            self.geometry.blocks = blocks;
        }
        is_kept && blocks >= self.geometry.blocks
    }

    /// The disk.
    pub fn into_inner(self) -> V {
        self.disk
    }

    /// Where byte `offset` lies on the disk, and how many bytes from there on are in one piece, `bytes` at most.
    fn place(&self, offset: u64, bytes: u64) -> Option<(u64, u64)> {
        match self.extents.as_slice() {
            [only] => Some((only.unit * UNIT_BYTES + offset, bytes)),
            extents => pieces(extents, offset, bytes)?.next().map(|piece| (piece.place, piece.bytes)),
        }
    }

    /// Starts the next part of a request.
    fn go_on(&mut self, mut spread: Spread, frame: Option<Frame>) -> Result<(), Request> {
        let token = spread.token;
        let (place, part) = match spread.kind {
            Kind::Flush => (0, 0),
            // Checked before: it is within the area.
            _ => self.place(spread.offset, spread.left).unwrap_or((u64::MAX, spread.left)),
        };
        let block_bytes = u64::from(self.geometry.block_bytes);
        let (block, is_whole) = (place / block_bytes, part == spread.left);
        let window = |frame: Option<Frame>, headroom: usize, length: usize| {
            let mut frame = frame?;
            // The part's window: behind what is done. A request in one piece keeps the window it came with.
            if !is_whole || spread.left < length as u64 {
                set_window(&mut frame, headroom + (length - spread.left as usize), part as usize);
            }
            Some(frame)
        };
        let operation = match spread.kind {
            Kind::Read { headroom, length } => {
                window(frame, headroom, length).map(|frame| Operation::Read { block, frame })
            }
            Kind::Write { headroom, length, durable } => {
                window(frame, headroom, length).map(|frame| Operation::Write { block, frame, durable })
            }
            Kind::Flush => Some(Operation::Flush),
            Kind::Zero => Some(Operation::WriteZeroes { block, blocks: part / block_bytes }),
        };
        let operation = operation.unwrap_or(Operation::Flush);
        spread.part = part;
        let inner = self.under_way.put(spread);
        self.disk.submit(Request { token: inner, operation }).map_err(|refused| {
            self.under_way.take(inner);
            Request { token, ..refused }
        })
    }

    /// A part has ended: the request's end, or `None` if it goes on.
    fn ended(&mut self, completion: Completion) -> Option<Completion> {
        let Completion { token, frame, result } = completion;
        let mut spread = self.under_way.take(token)?;
        let finish = |token, frame: Option<Frame>, result, kind| {
            let frame = frame.map(|mut frame| {
                if let Kind::Read { headroom, length } | Kind::Write { headroom, length, .. } = kind
                    && frame.len() != length
                {
                    set_window(&mut frame, headroom, length);
                }
                frame
            });
            Completion { token, frame, result }
        };
        spread.offset += spread.part;
        spread.left -= spread.part;
        let (token, kind) = (spread.token, spread.kind);
        if result.is_err() || spread.left == 0 {
            return Some(finish(token, frame, result, kind));
        }
        // There is room: this request's own place has just become free.
        match self.go_on(spread, frame) {
            Ok(()) => {
                self.disk.ring();
                None
            }
            Err(refused) => Some(finish(token, refused.operation.into_frame(), Err(StorageError::Aborted), kind)),
        }
    }
}

/// Has a frame's data be `length` bytes from `start` on; they stay as they are.
pub(super) fn set_window(frame: &mut Frame, start: usize, length: usize) {
    frame.reset(start);
    frame.resize(length);
}

impl<V: Vsic> Vsic for AreaDisk<V> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        self.disk.room()
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        let block_bytes = u64::from(self.geometry.block_bytes);
        if request.check(&self.geometry).is_err() {
            // The disk refuses it as well, and in its turn: nothing lies there.
            let beyond = match request.operation {
                Operation::Read { frame, .. } => Operation::Read { block: u64::MAX, frame },
                Operation::Write { frame, durable, .. } => Operation::Write { block: u64::MAX, frame, durable },
                Operation::WriteZeroes { blocks, .. } => Operation::WriteZeroes { block: u64::MAX, blocks },
                Operation::Flush => Operation::Flush,
            };
            let spread = Spread { token: request.token, offset: 0, left: 0, part: 0, kind: Kind::Flush };
            let token = self.under_way.put(spread);
            return self.disk.submit(Request { token, operation: beyond }).map_err(|refused| {
                let token = self.under_way.take(refused.token).map_or(0, |spread| spread.token);
                Request { token, ..refused }
            });
        }
        let (block, left, kind, frame) = match request.operation {
            Operation::Read { block, frame } => {
                let (headroom, length) = (frame.headroom(), frame.len());
                (block, length as u64, Kind::Read { headroom, length }, Some(frame))
            }
            Operation::Write { block, frame, durable } => {
                let (headroom, length) = (frame.headroom(), frame.len());
                (block, length as u64, Kind::Write { headroom, length, durable }, Some(frame))
            }
            Operation::Flush => (0, 0, Kind::Flush, None),
            Operation::WriteZeroes { block, blocks } => (block, blocks * block_bytes, Kind::Zero, None),
        };
        let spread = Spread { token: request.token, offset: block * block_bytes, left, part: 0, kind };
        self.go_on(spread, frame).map_err(|refused| {
            // As it came: its address is the area's.
            let operation = match (kind, refused.operation) {
                (Kind::Read { headroom, length }, Operation::Read { mut frame, .. }) => {
                    set_window(&mut frame, headroom, length);
                    Operation::Read { block, frame }
                }
                (Kind::Write { headroom, length, durable }, Operation::Write { mut frame, .. }) => {
                    set_window(&mut frame, headroom, length);
                    Operation::Write { block, frame, durable }
                }
                (Kind::Zero, _) => Operation::WriteZeroes { block, blocks: left / block_bytes },
                (_, operation) => operation,
            };
            Request { token: refused.token, operation }
        })
    }

    fn ring(&mut self) {
        self.disk.ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let before = completions.len();
        let mut passing = std::mem::take(&mut self.passing);
        self.disk.complete(&mut passing, completions_max);
        for completion in passing.drain(..) {
            completions.extend(self.ended(completion));
        }
        self.passing = passing;
        completions.len() - before
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.disk.doorbell()
    }

    fn wait(&mut self, patience: Duration) {
        self.disk.wait(patience);
    }

    fn is_lost(&self) -> bool {
        self.disk.is_lost()
    }

    fn statistics(&self) -> VsicStatistics {
        self.disk.statistics()
    }
}
