//! [`Log`]: records in order, durable in batches, given again at the next opening; and its checkpoints.

mod appending;
mod checkpointing;
mod figures;

use crate::chain::fetch::Fetch;
use crate::chain::frame::RecordKind;
use crate::chain::recovery::{End, Recovery, Step};
use crate::chain::writer::{Origin, Writer};
use crate::error::StoreError;
use crate::head::{Extent, Head};
use crate::io::{Ended, Io, Outcome, Role};
use crate::kind::Kind;
use crate::layout::{DATA, FRAME_BYTES_MAX, LOG_BYTES_MIN, OBJECTS_LOG_BYTES_MIN, Ring, UNIT_BYTES, whole_units};
use crate::look::{Look, Seen};
use crate::options::{Make, Options};
use crate::position::Position;
use crate::running::{Running, Stage};
use crate::superblock::Superblock;
use crate::told::{LogEvent, Recovered, Told};
use qanat_api::{AreaId, Event, StorageCommands};
use std::collections::VecDeque;

#[derive(Debug)]
enum Phase {
    Look(Box<Look>),
    Recover {
        recovery: Box<Recovery>,
        superblock: Box<Superblock>,
        worse: usize,
        is_damaged: bool,
    },
    Run(Box<Running>),
    /// It was opened to be read only, and was read.
    Finished(Box<Superblock>),
    Stopped(StoreError),
}

/// A log on a storage area, which is its alone.
///
/// It is opened by [`open`](Log::open). Then every event of the area goes to [`handle`](Log::handle), and what the log has to say comes from
/// [`next`](Log::next): first its records, then [`Recovered`](LogEvent::Recovered). After that records are [appended](Log::append), and
/// [committed](Log::commit) at the end of a turn: [`Durable`](LogEvent::Durable) says how far they are durable.
///
/// # Checkpoints
/// A log is as long as its area. So now and then what it means is written anew, and what came before is given up. A checkpoint is part
/// of the log: [`checkpoint_begin`](Log::checkpoint_begin), any number of [`checkpoint_append`](Log::checkpoint_append), and
/// [`checkpoint_end`](Log::checkpoint_end), over as many turns as it takes, with appends between them. No state is copied or held for
/// it. What is told again at the next opening begins with it. A part of a checkpoint says what is so at its place in the log: who writes
/// the state of a key with it, when the key's turn comes, finds at recovery all later changes of the key behind it. Changes before it
/// (since the checkpoint began) come first, and may be of a key that is not known yet: the part that comes replaces them.
#[derive(Debug)]
pub struct Log {
    io: Io,
    kind: Kind,
    options: Options,
    phase: Phase,
    told: VecDeque<Told>,
    reserve: u64,
}

impl Log {
    /// Opens the log in an area, of which nothing may be under way.
    ///
    /// # Errors
    /// [`StoreError::Geometry`], [`StoreError::AreaTooSmall`], [`StoreError::Refused`]. What is wrong with what is there is told by
    /// [`LogEvent::Failed`].
    pub fn open(area: AreaId, options: Options, storage: &mut dyn StorageCommands) -> Result<Log, StoreError> {
        Log::open_kind(Kind::Log, area, options, storage)
    }

    pub(crate) fn open_kind(
        kind: Kind,
        area: AreaId,
        options: Options,
        storage: &mut dyn StorageCommands,
    ) -> Result<Log, StoreError> {
        let io = Io::new(area, storage)?;
        let geometry = io.geometry();
        let (block_bytes, transfer_bytes) = (geometry.block_bytes, geometry.transfer_bytes_max);
        if u64::from(block_bytes) > UNIT_BYTES || u64::from(transfer_bytes) < UNIT_BYTES || geometry.depth < 2 {
            return Err(StoreError::Geometry { block_bytes, transfer_bytes, needed: UNIT_BYTES as u32 });
        }
        let (bytes, needed) = (geometry.bytes(), DATA + LOG_BYTES_MIN);
        if bytes < needed {
            return Err(StoreError::AreaTooSmall { bytes, needed });
        }
        let phase = Phase::Look(Box::new(Look::new(&io)));
        let mut log = Log { io, kind, options, phase, told: VecDeque::new(), reserve: 0 };
        if let Make::Always(identity) = options.make {
            log.make(identity)?;
        }
        log.drive(storage);
        Ok(log)
    }

    /// A new store.
    fn make(&mut self, identity: [u8; 16]) -> Result<(), StoreError> {
        let geometry = self.io.geometry();
        let room = whole_units(geometry.bytes() - DATA);
        let (share, least) = match self.kind {
            Kind::Objects => ((room / 16).max(OBJECTS_LOG_BYTES_MIN), OBJECTS_LOG_BYTES_MIN),
            Kind::Log | Kind::Queue => (room, LOG_BYTES_MIN),
        };
        let log_bytes = whole_units(self.options.log_bytes.unwrap_or(share)).max(least);
        if log_bytes > room {
            return Err(StoreError::AreaTooSmall { bytes: geometry.bytes(), needed: DATA + log_bytes });
        }
        let frame_bytes = whole_units(u64::from(geometry.transfer_bytes_max.min(FRAME_BYTES_MAX))) as u32;
        let ring = Ring { start: DATA, bytes: log_bytes };
        let superblock = Superblock {
            kind: self.kind,
            identity,
            serial: 0,
            epoch: 0,
            area_bytes: geometry.bytes(),
            ring,
            // A small ring has small frames, so that it has several.
            frame_bytes: frame_bytes.min((whole_units(log_bytes / 8)) as u32),
            start: 0,
            durable: 0,
            previous: 0,
            opened: 0,
        };
        let recovered = Recovered { records: 0, bytes: 0, was_torn: false, was_damaged: false, is_new: true };
        let end = End { position: 0, previous: 0, checkpoint: None, records: 0, was_torn: false };
        self.run((superblock, 0), end, recovered);
        Ok(())
    }

    /// Goes on with what was found, or made.
    fn run(&mut self, (superblock, worse): (Superblock, usize), end: End, recovered: Recovered) {
        let start = end.checkpoint.unwrap_or(superblock.start);
        let (ring, identity, frame_bytes) = (superblock.ring, superblock.identity, superblock.frame_bytes);
        let mut head = Head::new(superblock, worse);
        head.open(Extent { start, durable: end.position, previous: end.previous });
        let writer = Writer::new(Origin {
            ring,
            identity,
            epoch: head.superblock().epoch,
            frame_bytes,
            // What is before the checkpoint counts until the superblocks say otherwise.
            start: start.min(end.position),
            end: end.position,
            previous: end.previous,
            pending_bytes_max: self.options.pending_bytes_max,
        });
        let fetch = Fetch::new((ring, identity), frame_bytes, self.options.record_bytes_max);
        let recovered = Recovered { bytes: end.position - start, ..recovered };
        // Of a new store there is nothing to judge.
        let stage = if recovered.is_new { Stage::FlushDue } else { Stage::Found };
        self.told.push_back(Told::Whole);
        let (checkpoint, checkpointed) = (None, None);
        self.phase = Phase::Run(Box::new(Running { stage, recovered, head, writer, fetch, checkpoint, checkpointed }));
    }

    pub(crate) fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// The store's superblock, once it is known.
    pub(crate) fn superblock(&self) -> Option<&Superblock> {
        match &self.phase {
            Phase::Run(running) => Some(running.head.superblock()),
            Phase::Recover { superblock, .. } | Phase::Finished(superblock) => Some(superblock),
            _ => None,
        }
    }

    /// Takes an event of the area. Gives back one that is not this log's.
    pub fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event> {
        match self.io.ended(event) {
            Ok(ended) => {
                self.ended(ended, storage);
                None
            }
            Err(event) => Some(event),
        }
    }

    /// Takes the end of a request.
    pub(crate) fn ended(&mut self, ended: Ended, storage: &mut dyn StorageCommands) {
        if let Err(error) = self.take(ended) {
            self.fail(error);
        }
        self.drive(storage);
    }

    fn take(&mut self, ended: Ended) -> Result<(), StoreError> {
        let Ended { role, number, outcome } = ended;
        match (&mut self.phase, role, outcome) {
            (Phase::Look(look), Role::Look, Outcome::Read(result)) => look.arrived(number, result)?,
            (Phase::Recover { recovery, .. }, Role::Recover, Outcome::Read(result)) => {
                recovery.arrived(number, result)?
            }
            (Phase::Run(running), role, outcome) => self.told.extend(running.ended(role, number, outcome)?),
            // What was under way when the log stopped.
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn fail(&mut self, error: StoreError) {
        if !matches!(self.phase, Phase::Stopped(_)) {
            // What was durable and not told of yet is told of no more: who waits for it learns at the next opening.
            self.told.clear();
            self.told.push_back(Told::Failed(error.clone()));
            self.phase = Phase::Stopped(error);
        }
    }

    /// Gives the commands that can be given now.
    fn drive(&mut self, storage: &mut dyn StorageCommands) {
        if let Err(error) = self.try_to_drive(storage) {
            self.fail(error);
        }
    }

    fn try_to_drive(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        if let Phase::Look(look) = &mut self.phase {
            look.pump(&mut self.io, storage)?;
            match look.step() {
                Seen::Wait => {}
                Seen::Wrong(error) => return Err(error),
                Seen::Nothing => match self.options.make {
                    Make::IfEmpty(identity) => self.make(identity)?,
                    _ => return Err(StoreError::Empty),
                },
                Seen::Store { superblock, worse, is_damaged } => self.found(superblock, worse, is_damaged)?,
            }
        }
        match &mut self.phase {
            Phase::Recover { recovery, .. } => recovery.pump(&mut self.io, storage),
            Phase::Run(running) => {
                self.told.extend(running.drive(&mut self.io, storage)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A store is there.
    fn found(&mut self, superblock: Box<Superblock>, worse: usize, is_damaged: bool) -> Result<(), StoreError> {
        let geometry = self.io.geometry();
        if superblock.kind != self.kind {
            return Err(StoreError::Kind { found: superblock.kind, wanted: self.kind });
        }
        if superblock.area_bytes > geometry.bytes() {
            return Err(StoreError::Shrunk { recorded: superblock.area_bytes, bytes: geometry.bytes() });
        }
        let (block_bytes, transfer_bytes) = (geometry.block_bytes, geometry.transfer_bytes_max);
        if superblock.frame_bytes > transfer_bytes {
            return Err(StoreError::Geometry { block_bytes, transfer_bytes, needed: superblock.frame_bytes });
        }
        let recovery = Recovery::new((*superblock).clone(), transfer_bytes, self.options.record_bytes_max);
        self.phase = Phase::Recover { recovery: Box::new(recovery), superblock, worse, is_damaged };
        Ok(())
    }

    /// What the log has to say next; `None`: nothing before the next event of the area. To be called until then after each
    /// [`handle`](Log::handle).
    // It lends, so it is no iterator.
    #[allow(clippy::should_implement_trait, reason = "see above")]
    pub fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<LogEvent<'_>> {
        let told = loop {
            match self.tell(storage)? {
                Told::Whole => {}
                told => break told,
            }
        };
        let before = self.durable();
        let bytes = self.bytes_told();
        Some(match told {
            Told::Record(position, kind) => LogEvent::Record { position, kind, bytes },
            // See above.
            Told::Whole => return None,
            Told::Recovered(recovered) => LogEvent::Recovered(recovered),
            Told::Durable => LogEvent::Durable { before },
            Told::Checkpointed(start) => LogEvent::Checkpointed { start: Position::new(start, 0) },
            Told::Truncated(start) => LogEvent::Truncated { start: Position::new(start, 0) },
            Told::Fetched(token, result) => LogEvent::Read { token, result: result.map(|()| bytes) },
            Told::Failed(error) => LogEvent::Failed(error),
        })
    }

    /// Tells this next.
    pub(crate) fn tell_again(&mut self, told: Told) {
        self.told.push_front(told);
    }

    /// Where in the area a record's frame lies.
    pub(crate) fn place(&self, position: Position) -> u64 {
        self.superblock().map_or(0, |superblock| superblock.ring.place(position.frame()))
    }

    /// The bytes of the record that was told of last.
    pub(crate) fn bytes_told(&self) -> &[u8] {
        match &self.phase {
            Phase::Recover { recovery, .. } => recovery.record_bytes(),
            Phase::Run(running) => running.fetch.bytes(),
            _ => &[],
        }
    }

    /// As [`next`](Log::next).
    pub(crate) fn tell(&mut self, storage: &mut dyn StorageCommands) -> Option<Told> {
        if let Phase::Run(running) = &mut self.phase {
            running.fetch.take_back();
            if self.told.is_empty() && running.stage == Stage::Found {
                running.stage = Stage::FlushDue;
            }
        }
        if let Some((position, kind)) = self.next_record(storage) {
            return Some(Told::Record(position, kind));
        }
        // One record is told of before the next is read into the same memory.
        if self.told.is_empty() {
            self.drive(storage);
        }
        let told = self.told.pop_front()?;
        if let (Told::Fetched(..), Phase::Run(running)) = (&told, &mut self.phase) {
            running.fetch.give();
        }
        Some(told)
    }

    /// The next record, while the log is recovered.
    fn next_record(&mut self, storage: &mut dyn StorageCommands) -> Option<(Position, RecordKind)> {
        let Phase::Recover { recovery, superblock, worse, is_damaged } = &mut self.phase else { return None };
        match recovery.step() {
            Ok(Step::Record { position, kind }) => return Some((position, kind)),
            Ok(Step::Wait) => {}
            Err(error) => self.fail(error),
            Ok(Step::End(end)) => {
                let recovered = Recovered {
                    records: end.records,
                    bytes: end.position - superblock.start,
                    was_torn: end.was_torn,
                    was_damaged: *is_damaged,
                    is_new: false,
                };
                if self.options.is_read_only {
                    self.told.extend([Told::Whole, Told::Recovered(recovered)]);
                    self.phase = Phase::Finished(superblock.clone());
                } else {
                    let found = ((**superblock).clone(), *worse);
                    self.run(found, end, recovered);
                }
            }
        }
        self.drive(storage);
        None
    }

    fn running(&mut self) -> Result<&mut Running, StoreError> {
        match &mut self.phase {
            Phase::Run(running) if running.stage == Stage::Ready => Ok(running),
            Phase::Stopped(error) => Err(StoreError::Stopped(Box::new(error.clone()))),
            _ => Err(StoreError::NotReady),
        }
    }

    /// Why it takes no changes now.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        self.running().map(drop)
    }

    /// Why nothing that it tells of can be read now.
    pub(crate) fn check_read(&mut self) -> Result<(), StoreError> {
        if self.is_read_only() { Ok(()) } else { self.check() }
    }
}
