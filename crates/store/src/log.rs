//! [`Log`]: records in order, durable in batches, given again at the next opening; and its checkpoints.

use crate::chain::fetch::Fetch;
use crate::chain::frame::RecordKind;
use crate::chain::recovery::{End, Recovery, Step};
use crate::chain::writer::{LogStatistics, Origin, Writer};
use crate::error::StoreError;
use crate::head::{Extent, Head};
use crate::io::{Ended, Io, Outcome, Role};
use crate::layout::{BASE_RESERVE_BYTES, DATA, FRAME_BYTES_MAX, LOG_BYTES_MIN, Ring, UNIT_BYTES, whole_units};
use crate::look::{Look, Seen};
use crate::options::{Make, Options};
use crate::position::Position;
use crate::superblock::{Kind, Superblock, place};
use qanat_api::{AreaId, Event, StorageCommands};
use std::collections::VecDeque;

/// What a log was found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Records given.
    pub records: u64,
    /// Bytes of the log in use.
    pub bytes: u64,
    /// Whether the end was torn by a crash and cut off: nothing of it was acknowledged.
    pub was_torn: bool,
    /// Whether one of the two superblocks was damaged. It is written anew, unless the log is read only.
    pub was_damaged: bool,
    /// Whether the store was made now.
    pub is_new: bool,
}

/// What a log tells.
#[derive(Debug)]
pub enum LogEvent<'a> {
    /// A record, while the log is recovered: all of them come, in order.
    Record {
        /// Which.
        position: Position,
        /// [`RecordKind::Data`] or [`RecordKind::Checkpoint`].
        kind: RecordKind,
        /// What was appended.
        bytes: &'a [u8],
    },
    /// The log is recovered: it takes records from now on.
    Recovered(Recovered),
    /// All records before this position are durable.
    Durable {
        /// The first one that is not.
        before: Position,
    },
    /// The checkpoint is complete: what was before it is given up, and the log begins with it.
    Checkpointed {
        /// Its beginning.
        start: Position,
    },
    /// The log begins where [`Log::truncate`] said, or later.
    Truncated {
        /// The first position that it has.
        start: Position,
    },
    /// A record that was asked for by [`Log::read`].
    Read {
        /// The token that was given.
        token: u64,
        /// What was appended.
        result: Result<&'a [u8], StoreError>,
    },
    /// The log can't go on. Nothing more is acknowledged; it is to be opened again. This comes once.
    Failed(StoreError),
}

/// What is to be told, without the bytes that it is about: they are [`Log::bytes_told`].
#[derive(Debug)]
pub(crate) enum Told {
    Record(Position, RecordKind),
    Recovered(Recovered),
    Durable,
    Checkpointed(u64),
    Truncated(u64),
    Fetched(u64, Result<(), StoreError>),
    Failed(StoreError),
}

/// How far a log that was found is to be taken before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// What was read is to be made durable: the process before this one may have died with it in the disk's cache.
    FlushDue,
    Flushing,
    /// The superblocks are written, with the next epoch.
    Superblocks,
    Ready,
}

/// A checkpoint under way.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    /// Where it began.
    begin: u64,
    /// Bytes that it took so far.
    bytes: u64,
    /// Its last record.
    end: Option<Position>,
}

/// A log that was found or made.
#[derive(Debug)]
struct Running {
    stage: Stage,
    recovered: Recovered,
    head: Head,
    writer: Writer,
    fetch: Fetch,
    checkpoint: Option<Checkpoint>,
    /// The start that a complete checkpoint has, until the superblocks say so.
    checkpointed: Option<u64>,
}

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
    Finished,
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
        let share = if self.kind == Kind::Objects { (room / 16).max(16 * LOG_BYTES_MIN) } else { room };
        let log_bytes = whole_units(self.options.log_bytes.unwrap_or(share)).max(LOG_BYTES_MIN);
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
        let (stage, checkpoint, checkpointed) = (Stage::FlushDue, None, None);
        self.phase = Phase::Run(Box::new(Running { stage, recovered, head, writer, fetch, checkpoint, checkpointed }));
    }

    /// The area that it is on.
    pub fn area(&self) -> AreaId {
        self.io.area()
    }

    pub(crate) fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// The store's superblock, once it is known.
    pub(crate) fn superblock(&self) -> Option<&Superblock> {
        match &self.phase {
            Phase::Run(running) => Some(running.head.superblock()),
            Phase::Recover { superblock, .. } => Some(superblock),
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
        let told = self.tell(storage)?;
        let before = self.durable();
        let bytes = self.bytes_told();
        Some(match told {
            Told::Record(position, kind) => LogEvent::Record { position, kind, bytes },
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
                    self.told.push_back(Told::Recovered(recovered));
                    self.phase = Phase::Finished;
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

    /// Whether a checkpoint is under way.
    pub(crate) fn is_checkpointing(&self) -> bool {
        matches!(&self.phase, Phase::Run(it) if it.checkpoint.is_some() || it.checkpointed.is_some())
    }

    /// Appends a record of `bytes`. It is written by the next [`commit`](Log::commit).
    ///
    /// # Errors
    /// [`StoreError::Full`]: the log has no room besides the [reserve](Log::set_reserve). [`StoreError::Busy`]: so much waits for the
    /// disk that it is to be tried again after an event. [`StoreError::TooLong`], [`StoreError::NotReady`], [`StoreError::Stopped`].
    pub fn append(&mut self, bytes: &[u8], storage: &mut dyn StorageCommands) -> Result<Position, StoreError> {
        self.append_pieces(&[bytes], storage)
    }

    /// Appends a record of several pieces, one behind the other: nobody has to put them together.
    ///
    /// # Errors
    /// As [`append`](Log::append).
    pub fn append_pieces(
        &mut self,
        pieces: &[&[u8]],
        storage: &mut dyn StorageCommands,
    ) -> Result<Position, StoreError> {
        let reserve = self.reserve.saturating_add(BASE_RESERVE_BYTES);
        self.append_leaving(reserve, pieces, storage)
    }

    /// The same, if so many bytes of the log stay free.
    pub(crate) fn append_leaving(
        &mut self,
        reserve: u64,
        pieces: &[&[u8]],
        storage: &mut dyn StorageCommands,
    ) -> Result<Position, StoreError> {
        let written = self.running()?.checkpoint.map_or(0, |checkpoint| checkpoint.bytes);
        self.push(RecordKind::Data, pieces, reserve.saturating_sub(written), storage)
    }

    fn push(
        &mut self,
        kind: RecordKind,
        pieces: &[&[u8]],
        reserve: u64,
        storage: &mut dyn StorageCommands,
    ) -> Result<Position, StoreError> {
        let (bytes, most) = (pieces.iter().map(|piece| piece.len()).sum::<usize>(), self.options.record_bytes_max);
        if bytes > most {
            return Err(StoreError::TooLong { bytes: bytes as u64, most: most as u64 });
        }
        self.running()?;
        match &mut self.phase {
            Phase::Run(running) => running.writer.append(kind, pieces, reserve, (&self.io, storage)),
            _ => Err(StoreError::NotReady),
        }
    }

    /// What was appended goes to the disk: now, if nothing is on its way there, or else together with what else comes until that is
    /// durable.
    pub fn commit(&mut self, storage: &mut dyn StorageCommands) {
        if let Ok(running) = self.running() {
            running.writer.commit();
            self.drive(storage);
        }
    }

    /// Asks for a record that is durable: [`LogEvent::Read`] follows, in the order of requests.
    ///
    /// # Errors
    /// [`StoreError::None`] if the log does not have it any more, or it is not durable yet; [`StoreError::Busy`] if too many are asked
    /// for; [`StoreError::NotReady`], [`StoreError::Stopped`].
    pub fn read(
        &mut self,
        position: Position,
        token: u64,
        storage: &mut dyn StorageCommands,
    ) -> Result<(), StoreError> {
        let running = self.running()?;
        if position >= running.writer.whole() || position.frame() < running.writer.start() {
            return Err(StoreError::None);
        }
        if !running.fetch.want(position, token) {
            return Err(StoreError::Busy { pending: 0 });
        }
        self.drive(storage);
        Ok(())
    }

    /// Leaves so many bytes of the log free for a checkpoint: as many as one may take. Appends that would take of them are refused as
    /// [`StoreError::Full`]. While a checkpoint is made, what it has taken is left of it.
    pub fn set_reserve(&mut self, bytes: u64) {
        self.reserve = bytes;
    }

    /// Begins a checkpoint.
    ///
    /// # Errors
    /// [`StoreError::CheckpointRuns`]; else as [`append`](Log::append).
    pub fn checkpoint_begin(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let running = self.running()?;
        if running.checkpoint.is_some() || running.checkpointed.is_some() {
            return Err(StoreError::CheckpointRuns);
        }
        // It begins with a frame: the log will begin there.
        running.writer.close();
        let begin = self.push(RecordKind::Begin, &[], 0, storage)?.frame();
        self.running()?.checkpoint = Some(Checkpoint { begin, bytes: 0, end: None });
        Ok(())
    }

    /// Appends a part of a checkpoint. It is written by the next [`commit`](Log::commit). A few at a time, between other appends, delay
    /// those little.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`]; else as [`append`](Log::append), but it may take of the reserve.
    pub fn checkpoint_append(
        &mut self,
        pieces: &[&[u8]],
        storage: &mut dyn StorageCommands,
    ) -> Result<Position, StoreError> {
        let running = self.running()?;
        if !running.checkpoint.is_some_and(|checkpoint| checkpoint.end.is_none()) {
            return Err(StoreError::NoCheckpoint);
        }
        let before = running.writer.used();
        let position = self.push(RecordKind::Checkpoint, pieces, 0, storage)?;
        let running = self.running()?;
        let after = running.writer.used();
        running.checkpoint.iter_mut().for_each(|checkpoint| checkpoint.bytes += after - before);
        Ok(position)
    }

    /// Ends a checkpoint. [`LogEvent::Checkpointed`] follows once it is durable and recorded, after the next [`commit`](Log::commit).
    ///
    /// # Errors
    /// As [`checkpoint_append`](Log::checkpoint_append).
    pub fn checkpoint_end(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let Some(begin) = self.running()?.checkpoint.filter(|it| it.end.is_none()).map(|it| it.begin) else {
            return Err(StoreError::NoCheckpoint);
        };
        let end = self.push(RecordKind::End, &[&begin.to_le_bytes()], 0, storage)?;
        self.running()?.checkpoint.iter_mut().for_each(|checkpoint| checkpoint.end = Some(end));
        Ok(())
    }

    /// Gives up what is before `position`, a durable record or the end of those. The records of its frame stay, so some before it may
    /// be told again. [`LogEvent::Truncated`] follows.
    ///
    /// # Errors
    /// [`StoreError::None`] if it is not durable; [`StoreError::CheckpointRuns`]; [`StoreError::NotReady`], [`StoreError::Stopped`].
    pub fn truncate(&mut self, position: Position, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let running = self.running()?;
        if position > running.writer.whole() {
            return Err(StoreError::None);
        }
        if running.checkpoint.is_some() || running.checkpointed.is_some() {
            return Err(StoreError::CheckpointRuns);
        }
        let start = position.frame().max(running.writer.start());
        running.head.want(running.writer.extent(start));
        self.drive(storage);
        Ok(())
    }

    /// Records in the superblocks how far the log is durable: what is damaged before that is then never taken for the torn end. To be
    /// called when all is durable and the process ends; [`LogEvent::Truncated`] follows.
    ///
    /// # Errors
    /// As [`truncate`](Log::truncate).
    pub fn seal(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let start = Position::new(self.running()?.writer.start(), 0);
        self.truncate(start, storage)
    }

    /// Where the log begins. What recovery told of before that is part of the checkpoint that begins there.
    pub fn start(&self) -> Position {
        match &self.phase {
            Phase::Run(running) => Position::new(running.writer.start(), 0),
            _ => Position::default(),
        }
    }

    /// All records before it are durable.
    pub fn durable(&self) -> Position {
        match &self.phase {
            Phase::Run(running) => running.writer.whole(),
            _ => Position::default(),
        }
    }

    /// Whether nothing that was appended waits to become durable, and nothing else is under way.
    pub fn is_idle(&self) -> bool {
        match &self.phase {
            Phase::Run(running) => {
                running.stage == Stage::Ready
                    && running.writer.is_idle()
                    && running.head.is_idle()
                    && running.fetch.is_idle()
            }
            Phase::Finished | Phase::Stopped(_) => true,
            _ => false,
        }
    }

    /// Whether it takes records.
    pub fn is_ready(&self) -> bool {
        matches!(&self.phase, Phase::Run(running) if running.stage == Stage::Ready)
    }

    /// Bytes of the log: those in use, and all.
    pub fn bytes(&self) -> (u64, u64) {
        match &self.phase {
            Phase::Run(running) => (running.writer.used(), running.head.superblock().ring.bytes),
            _ => (0, self.superblock().map_or(0, |superblock| superblock.ring.bytes)),
        }
    }

    /// Bytes of the log that recovery has gone through so far.
    pub fn progress(&self) -> u64 {
        match &self.phase {
            Phase::Recover { recovery, .. } => recovery.progress(),
            Phase::Run(running) => running.recovered.bytes,
            _ => 0,
        }
    }

    /// What it has done since it was opened.
    pub fn statistics(&self) -> LogStatistics {
        match &self.phase {
            Phase::Run(running) => running.writer.statistics(),
            _ => LogStatistics::default(),
        }
    }
}

impl Running {
    /// A request has ended.
    fn ended(&mut self, role: Role, number: u64, outcome: Outcome) -> Result<Option<Told>, StoreError> {
        let done = |place: u64, outcome| match outcome {
            Outcome::Done(Err(error)) => Err(StoreError::Disk { place, error }),
            _ => Ok(()),
        };
        Ok(match (role, outcome) {
            (Role::Fetch, Outcome::Read(result)) => {
                self.fetch.arrived(result).map(|(token, result)| Told::Fetched(token, result))
            }
            (Role::Settle, outcome) => {
                done(0, outcome)?;
                self.stage = Stage::Superblocks;
                None
            }
            (Role::Head, outcome) => {
                done(place(number as usize), outcome)?;
                self.head.written().map(|start| self.recorded(start))
            }
            (Role::Frame, outcome) => {
                done(self.writer.place_of(number), outcome)?;
                if self.writer.written(number) { self.durable() } else { None }
            }
            (Role::Flush, outcome) => {
                done(0, outcome)?;
                if self.writer.flushed() { self.durable() } else { None }
            }
            _ => None,
        })
    }

    /// Both superblocks say that the log begins at `start`.
    fn recorded(&mut self, start: u64) -> Told {
        self.writer.set_start(start);
        match self.stage {
            Stage::Superblocks => {
                self.stage = Stage::Ready;
                Told::Recovered(self.recovered)
            }
            _ if self.checkpointed.take_if(|begin| *begin <= start).is_some() => Told::Checkpointed(start),
            _ => Told::Truncated(start),
        }
    }

    /// More is durable than before.
    fn durable(&mut self) -> Option<Told> {
        let whole = self.writer.whole();
        if let Some(checkpoint) = self.checkpoint.take_if(|it| it.end.is_some_and(|end| end < whole)) {
            self.checkpointed = Some(checkpoint.begin);
            self.head.want(self.writer.extent(checkpoint.begin));
        }
        Some(Told::Durable)
    }

    /// Gives the commands that can be given now.
    fn drive(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<Option<Told>, StoreError> {
        match self.stage {
            Stage::FlushDue => {
                if io.flush(storage, (Role::Settle, 0))? {
                    self.stage = Stage::Flushing;
                }
                return Ok(None);
            }
            Stage::Flushing => return Ok(None),
            Stage::Superblocks | Stage::Ready => {}
        }
        self.head.pump(io, storage)?;
        self.writer.pump(io, storage)?;
        let fetched = self.fetch.drive(io, storage)?;
        Ok(fetched.map(|(token, result)| Told::Fetched(token, result)))
    }
}
