//! [`Storage`]: the storage areas of a running service, wherever its stack is.
//!
//! ```text
//!  service ── read, write, flush ──► Storage ── submit ──► Vsic (io_uring, a disk core's queue pair, memory)
//!          ◄── Read, Written, … ────         ◄─ complete ─
//! ```
//! A turn of the runtime takes completions first, so that what they cause leaves in the same turn, and rings each disk's doorbell
//! once at its end.

use crate::renewal::Renewal;
use qanat_api::{AreaId, Block, CommandError, Durability, Event, Geometry, StorageCommands, StorageError};
use qanat_control::protocol::AreaFence;
use qanat_disk::{Completion, Operation, Request, Vsic, VsicStatistics};
use qanat_nic::{Frame, Pool};
use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Completions of one area that a turn takes at most: a disk must not keep the network waiting.
const COMPLETIONS_A_TURN: usize = 64;

/// How long the requests of a service that has ended are waited for.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);
const SETTLE_STEP: Duration = Duration::from_millis(100);

/// An area that a service is to have: a queue pair, and the memory that it transfers to and from.
pub struct StorageArea {
    vsic: Box<dyn Vsic>,
    pool: Pool,
    renewal: Option<Box<dyn Renewal>>,
    /// The daemon counts it as a handle.
    lease: Option<OwnedFd>,
    fence: AreaFence,
}

impl StorageArea {
    /// A queue pair, and its buffers. The buffers have to be of memory that the queue pair knows, or each transfer ends with
    /// [`StorageError::Foreign`].
    pub fn new(vsic: Box<dyn Vsic>, pool: Pool) -> StorageArea {
        StorageArea { vsic, pool, renewal: None, lease: None, fence: AreaFence::Core }
    }

    /// The same; if the queue pair is lost, the area goes on with the next one that `renewal` has. Commands that are given meanwhile end
    /// with [`StorageError::Gone`].
    pub fn with_renewal(self, renewal: Box<dyn Renewal>) -> StorageArea {
        StorageArea { renewal: Some(renewal), ..self }
    }

    /// The same, with what tells the daemon that it is used, and what keeps its holder from the rest of the disk.
    pub(crate) fn with_lease(self, lease: OwnedFd, fence: AreaFence) -> StorageArea {
        StorageArea { lease: Some(lease), fence, ..self }
    }

    /// By which way an area of the daemon's is used: through the disk's core, or by a descriptor of its own.
    pub fn fence(&self) -> AreaFence {
        self.fence
    }
}

impl std::fmt::Debug for StorageArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StorageArea({:?})", self.vsic.geometry())
    }
}

/// What a request was, and its token.
#[derive(Clone, Copy)]
enum Asked {
    Read(u64),
    Write(u64),
    Flush(u64),
    Zero(u64),
}

/// One area in use.
struct Open {
    vsic: Box<dyn Vsic>,
    pool: Pool,
    geometry: Geometry,
    /// Requests under way, by the tokens that the queue pair knows them by.
    asked: Vec<Option<Asked>>,
    /// Places in `asked` that are free.
    free: Vec<u32>,
    /// Something was submitted since the doorbell was rung.
    is_queued: bool,
    renewal: Option<Box<dyn Renewal>>,
    /// Kept as long as the area is used.
    _lease: Option<OwnedFd>,
    /// The queue pair was lost, and the next one is on its way.
    is_renewing: bool,
    /// The loop slept on the doorbell though nothing was under way: it may have rung because the queue pair is lost.
    was_slept_on: Cell<bool>,
}

impl Open {
    fn new(area: StorageArea) -> Open {
        let geometry = area.vsic.geometry();
        // There are rights yet to make one.
        let _ = area.vsic.doorbell();
        Open {
            vsic: area.vsic,
            pool: area.pool,
            geometry,
            asked: vec![None; geometry.depth as usize],
            free: (0..geometry.depth).rev().collect(),
            is_queued: false,
            renewal: area.renewal,
            _lease: area.lease,
            is_renewing: false,
            was_slept_on: Cell::new(false),
        }
    }

    /// Whether there may be completions, or news of the queue pair itself.
    #[inline]
    fn is_due(&self) -> bool {
        self.vsic.in_flight() > 0 || self.was_slept_on.take()
    }

    /// Goes on with the next queue pair if this one is lost and all that was under way has ended.
    #[inline]
    fn renew(&mut self) {
        if self.renewal.is_some() && self.vsic.is_lost() && self.vsic.in_flight() == 0 {
            self.renew_lost();
        }
    }

    fn renew_lost(&mut self) {
        let Some(renewal) = &mut self.renewal else { return };
        if !std::mem::replace(&mut self.is_renewing, true) {
            renewal.begin();
        }
        let Some((vsic, pool)) = renewal.next() else { return };
        // Buffers of the old memory that the service has stay as they are, and are copied when they are written.
        (self.vsic, self.pool, self.is_renewing) = (vsic, pool, false);
        self.geometry = self.vsic.geometry();
        // Nothing is under way.
        self.asked = vec![None; self.geometry.depth as usize];
        self.free = (0..self.geometry.depth).rev().collect();
    }

    /// What to sleep on: news of the next queue pair, or completions, or the end of a queue pair that can be renewed.
    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        match &self.renewal {
            Some(renewal) if self.is_renewing && self.vsic.in_flight() == 0 => Some(renewal.doorbell()),
            None if self.vsic.in_flight() == 0 => None,
            renewal => {
                self.was_slept_on.set(renewal.is_some());
                self.vsic.doorbell()
            }
        }
    }

    /// Bytes that one transfer may have.
    fn transfer_bytes_max(&self) -> usize {
        self.geometry.transfer_bytes_max.min(self.pool.region().frame_size()) as usize
    }

    /// The block that begins at a byte.
    #[inline]
    fn block_at(&self, offset: u64) -> Result<u64, StorageError> {
        let block_bytes = u64::from(self.geometry.block_bytes);
        if offset.is_multiple_of(block_bytes) { Ok(offset / block_bytes) } else { Err(StorageError::Offset) }
    }

    #[inline]
    fn submit(&mut self, asked: Asked, operation: Operation) -> Result<(), CommandError> {
        let Some(place) = self.free.pop() else { return Err(CommandError::Full) };
        if self.vsic.submit(Request { token: u64::from(place), operation }).is_err() {
            self.free.push(place);
            return Err(CommandError::Full);
        }
        if let Some(slot) = self.asked.get_mut(place as usize) {
            *slot = Some(asked);
        }
        self.is_queued = true;
        Ok(())
    }

    /// The frame to write from: the block's own if it is of the area's memory, or a copy of it.
    fn frame_of(&self, block: Block) -> Result<Frame, CommandError> {
        let block = match block.into_frame() {
            Ok(frame) if self.pool.region().addresses().contains(&frame.bytes().as_ptr().addr()) => return Ok(frame),
            Ok(frame) => Block::transmit(frame),
            Err(own) => own,
        };
        let mut frame = self.pool.allocate(0).ok_or(CommandError::Full)?;
        frame.append_bytes(block.bytes()).ok_or(CommandError::TooLong)?;
        Ok(frame)
    }

    /// What a completion means to the service.
    #[inline]
    fn event(&mut self, area: AreaId, completion: Completion) -> Option<Event> {
        let Completion { token: place, frame, result } = completion;
        let asked = self.asked.get_mut(place as usize)?.take()?;
        self.free.push(place as u32);
        Some(match (asked, frame) {
            (Asked::Read(token), Some(frame)) => {
                Event::Read { area, token, result: result.map(|()| Block::transmit(frame)) }
            }
            (Asked::Write(token), Some(frame)) => Event::Written { area, token, block: Block::transmit(frame), result },
            // A queue pair gives the buffer back. If one did not, its contents can't be told.
            (Asked::Read(token), None) => Event::Read { area, token, result: Err(StorageError::Aborted) },
            (Asked::Write(token), None) => Event::Written { area, token, block: Block::own(0), result },
            (Asked::Flush(token), _) => Event::Flushed { area, token, result },
            (Asked::Zero(token), _) => Event::Zeroed { area, token, result },
        })
    }
}

/// A service's areas. The default is none.
#[derive(Default)]
pub struct Storage {
    areas: Vec<Open>,
    /// Ends of commands that no queue pair was asked for, because of what they said.
    refused: Vec<Event>,
    /// Completions on their way to the service; here so that none is allocated a turn.
    passing: Vec<Completion>,
}

impl Storage {
    /// Adds an area. The handles of areas count from `AreaId::new(0, 0)`.
    pub fn add(&mut self, area: StorageArea) -> AreaId {
        self.areas.push(Open::new(area));
        AreaId::new(self.areas.len() as u32 - 1, 0)
    }

    /// Waits for what is under way, for ten seconds at most, and forgets it: it was another service's.
    pub(crate) fn settle(&mut self) {
        let end = Instant::now() + SETTLE_PATIENCE;
        self.refused.clear();
        for open in &mut self.areas {
            while open.vsic.in_flight() > 0 && Instant::now() < end {
                open.vsic.wait(SETTLE_STEP);
                open.vsic.complete(&mut self.passing, usize::MAX);
                for completion in self.passing.drain(..) {
                    drop(open.event(AreaId::new(0, 0), completion));
                }
            }
            // What ends later than that is nobody's.
            open.asked.fill(None);
        }
    }

    /// Counters of each area's queue pair.
    pub fn statistics(&self) -> impl Iterator<Item = VsicStatistics> + '_ {
        self.areas.iter().map(|open| open.vsic.statistics())
    }

    /// Hands what has ended to `handle`. Returns whether there was anything.
    #[inline]
    pub(crate) fn deliver(&mut self, mut handle: impl FnMut(Event, &mut Storage)) -> bool {
        if self.areas.is_empty() {
            return false;
        }
        self.deliver_all(&mut handle)
    }

    fn deliver_all(&mut self, handle: &mut impl FnMut(Event, &mut Storage)) -> bool {
        let mut delivered = false;
        // Those of this moment: what the service asks for meanwhile is for the next turn.
        for event in std::mem::take(&mut self.refused) {
            delivered = true;
            handle(event, self);
        }
        for index in 0..self.areas.len() {
            let area = AreaId::new(index as u32, 0);
            let mut passing = std::mem::take(&mut self.passing);
            if let Some(open) = self.areas.get_mut(index).filter(|open| open.is_due()) {
                open.vsic.complete(&mut passing, COMPLETIONS_A_TURN);
            }
            for completion in passing.drain(..) {
                let event = self.areas.get_mut(index).and_then(|open| open.event(area, completion));
                if let Some(event) = event {
                    delivered = true;
                    handle(event, self);
                }
            }
            self.passing = passing;
            self.areas.get_mut(index).into_iter().for_each(Open::renew);
        }
        delivered
    }

    /// For who has no runtime: starts what was asked for, waits until some of it may have ended, `patience` at most, and hands what has
    /// to `handle`. Returns whether there was anything.
    pub fn turn(&mut self, patience: Duration, mut handle: impl FnMut(Event, &mut Storage)) -> bool {
        self.ring();
        if self.deliver(&mut handle) {
            return true;
        }
        for open in self.areas.iter_mut().filter(|open| open.vsic.in_flight() > 0) {
            open.vsic.wait(patience);
        }
        self.deliver(handle)
    }

    /// Whether something is under way.
    pub fn is_busy(&self) -> bool {
        !self.refused.is_empty() || self.areas.iter().any(|open| open.vsic.in_flight() > 0)
    }

    /// Starts what was asked for: one doorbell a disk.
    #[inline]
    pub(crate) fn ring(&mut self) {
        for open in &mut self.areas {
            if std::mem::take(&mut open.is_queued) {
                open.vsic.ring();
            }
        }
    }

    /// Whether all that is under way ends with a doorbell.
    pub(crate) fn can_sleep(&self) -> bool {
        self.refused.is_empty()
            && self.areas.iter().all(|open| open.vsic.in_flight() == 0 || open.vsic.doorbell().is_some())
    }

    /// The doorbells of disks from which something is awaited.
    pub(crate) fn doorbells(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.areas.iter().filter_map(Open::doorbell)
    }

    fn open(&mut self, area: AreaId) -> Result<&mut Open, CommandError> {
        if area.generation() != 0 {
            return Err(CommandError::Stale);
        }
        self.areas.get_mut(area.index()).ok_or(CommandError::Stale)
    }

    /// A command that ends without the disk.
    fn refuse(&mut self, event: Event) -> Result<(), CommandError> {
        // As bounded as what disks are asked for.
        let most: usize = self.areas.iter().map(|open| open.asked.len()).sum();
        if self.refused.len() >= most {
            return Err(CommandError::Full);
        }
        self.refused.push(event);
        Ok(())
    }
}

impl StorageCommands for Storage {
    fn geometry(&self, area: AreaId) -> Result<Geometry, CommandError> {
        let open = self.areas.get(area.index()).filter(|_| area.generation() == 0).ok_or(CommandError::Stale)?;
        // It may have grown.
        Ok(Geometry { transfer_bytes_max: open.transfer_bytes_max() as u32, ..open.vsic.geometry() })
    }

    fn area_block(&mut self, area: AreaId) -> Result<Block, CommandError> {
        self.open(area)?.pool.allocate(0).map(Block::transmit).ok_or(CommandError::Full)
    }

    #[inline]
    fn read(&mut self, area: AreaId, offset: u64, length: usize, token: u64) -> Result<(), CommandError> {
        let open = self.open(area)?;
        if length > open.transfer_bytes_max() {
            return Err(CommandError::TooLong);
        }
        let block = match open.block_at(offset) {
            Ok(block) => block,
            Err(error) => return self.refuse(Event::Read { area, token, result: Err(error) }),
        };
        let mut frame = open.pool.allocate(0).ok_or(CommandError::Full)?;
        frame.append(length);
        open.submit(Asked::Read(token), Operation::Read { block, frame })
    }

    #[inline]
    fn write(
        &mut self,
        area: AreaId,
        offset: u64,
        block: Block,
        durability: Durability,
        token: u64,
    ) -> Result<(), CommandError> {
        let open = self.open(area)?;
        if block.len() > open.transfer_bytes_max() {
            return Err(CommandError::TooLong);
        }
        let at = match open.block_at(offset) {
            Ok(at) => at,
            Err(error) => return self.refuse(Event::Written { area, token, block, result: Err(error) }),
        };
        let frame = open.frame_of(block)?;
        let durable = durability == Durability::Durable;
        open.submit(Asked::Write(token), Operation::Write { block: at, frame, durable })
    }

    #[inline]
    fn flush(&mut self, area: AreaId, token: u64) -> Result<(), CommandError> {
        self.open(area)?.submit(Asked::Flush(token), Operation::Flush)
    }

    fn write_zeroes(&mut self, area: AreaId, offset: u64, bytes: u64, token: u64) -> Result<(), CommandError> {
        let open = self.open(area)?;
        let block_bytes = u64::from(open.geometry.block_bytes);
        let whole = if bytes.is_multiple_of(block_bytes) { Ok(bytes / block_bytes) } else { Err(StorageError::Length) };
        match open.block_at(offset).and_then(|block| Ok((block, whole?))) {
            Ok((block, blocks)) => open.submit(Asked::Zero(token), Operation::WriteZeroes { block, blocks }),
            Err(error) => self.refuse(Event::Zeroed { area, token, result: Err(error) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::renewal::QueuePair;
    use crate::wait_set::Doorbell;
    use qanat_disk::{Media, Sim, SimConfig};
    use qanat_nic::Region;
    use std::os::fd::AsFd;
    use std::rc::Rc;

    /// A queue pair whose requests end when it dies, and not before.
    struct Mortal {
        is_dead: Rc<Cell<bool>>,
        geometry: Geometry,
        under_way: Vec<Request>,
    }

    impl Vsic for Mortal {
        fn geometry(&self) -> Geometry {
            self.geometry
        }

        fn room(&self) -> usize {
            self.geometry.depth as usize - self.under_way.len()
        }

        fn submit(&mut self, request: Request) -> Result<(), Request> {
            self.under_way.push(request);
            Ok(())
        }

        fn ring(&mut self) {}

        fn complete(&mut self, completions: &mut Vec<Completion>, _completions_max: usize) -> usize {
            let ended = self.under_way.drain(..if self.is_dead.get() { self.under_way.len() } else { 0 });
            let ended = ended.map(|Request { token, operation }| {
                let result = Err(StorageError::Gone);
                Completion { token, frame: operation.into_frame(), result }
            });
            let before = completions.len();
            completions.extend(ended);
            completions.len() - before
        }

        fn in_flight(&self) -> usize {
            self.under_way.len()
        }

        fn doorbell(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn is_lost(&self) -> bool {
            self.is_dead.get()
        }

        fn statistics(&self) -> VsicStatistics {
            VsicStatistics::default()
        }
    }

    /// Has the next queue pair when it is told to.
    struct Next {
        begun: Rc<Cell<u32>>,
        pair: Rc<Cell<Option<QueuePair>>>,
        bell: Doorbell,
    }

    impl Renewal for Next {
        fn begin(&mut self) {
            self.begun.set(self.begun.get() + 1);
        }

        fn next(&mut self) -> Option<QueuePair> {
            self.pair.take()
        }

        fn doorbell(&self) -> BorrowedFd<'_> {
            self.bell.as_fd()
        }
    }

    fn sim(depth: u32) -> QueuePair {
        let sim = Sim::new(&Media::new(64, 512), SimConfig { depth, ..SimConfig::default() });
        let pool = Region::new(4, 4_096).unwrap().pool(4).unwrap();
        (Box::new(sim), pool)
    }

    /// Results of reads, by their tokens, within a few turns.
    fn ended(storage: &mut Storage) -> Vec<(u64, Result<(), StorageError>)> {
        let mut ended = Vec::new();
        for _ in 0..4 {
            storage.ring();
            storage.deliver(|event, _| match event {
                Event::Read { token, result, .. } => ended.push((token, result.map(drop))),
                event => panic!("{event:?}"),
            });
        }
        ended
    }

    #[test]
    fn an_area_goes_on_with_the_next_queue_pair_and_every_command_ends_once() {
        let (is_dead, begun, pair) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let (model, pool) = sim(4);
        let mortal = Mortal { is_dead: Rc::clone(&is_dead), geometry: model.geometry(), under_way: Vec::new() };
        let next = Next { begun: Rc::clone(&begun), pair: Rc::clone(&pair), bell: Doorbell::new().unwrap() };
        let mut storage = Storage::default();
        let area = storage.add(StorageArea::new(Box::new(mortal), pool).with_renewal(Box::new(next)));
        storage.read(area, 0, 512, 1).unwrap();
        storage.read(area, 512, 512, 2).unwrap();
        assert!(ended(&mut storage).is_empty() && begun.get() == 0);
        let old = storage.area_block(area).unwrap();
        is_dead.set(true);
        let gone = Err(StorageError::Gone);
        assert_eq!(ended(&mut storage), [(1, gone), (2, gone)]);
        assert_eq!(begun.get(), 1, "once for one that is lost");
        assert_eq!(storage.doorbells().count(), 1, "what comes is slept on");
        storage.read(area, 0, 512, 3).unwrap();
        assert_eq!(ended(&mut storage), [(3, gone)]);
        pair.set(Some(sim(2)));
        assert!(ended(&mut storage).is_empty());
        storage.read(area, 0, 512, 4).unwrap();
        assert_eq!((ended(&mut storage), begun.get()), (vec![(4, Ok(()))], 1));
        // A block of the old memory is copied.
        let mut block = old;
        block.append(&[7; 512]);
        storage.write(area, 0, block, Durability::Durable, 5).unwrap();
        storage.ring();
        let mut results = Vec::new();
        storage
            .deliver(|event, _| results.extend(matches!(event, Event::Written { result: Ok(()), .. }).then_some(())));
        assert_eq!(results.len(), 1);
    }
}
