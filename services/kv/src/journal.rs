//! [`Journal`]: the log of a keyspace. Each command's changes are a record. Now and then all keys are written anew, a few at a time, between
//! other records: a checkpoint. Nothing is copied or forked for it.

use crate::engine::settings::Durability;
use crate::engine::state::LogState;
use crate::keyspace::change::Encoder;
use crate::keyspace::space::{Keyspace, Walk};
use crate::limits::LOG_RECORD_BYTES_MAX;
use qanat::{AreaId, Event, StorageCommands, Time};
use qanat_store::{Log, LogEvent, Options, Position, Recovered, StoreError};
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes that may wait for the disk: a few of the longest records.
const PENDING_BYTES_MAX: u64 = 256 << 20;
/// If so much waits for the disk, clients wait, too.
const BUSY_BYTES: u64 = 16 << 20;
/// A checkpoint adds so much at once, while no more than that waits for the disk.
const CHECKPOINT_STEP_BYTES: usize = 128 << 10;
/// Bytes that are committed at once whatever the durability.
const COMMIT_BYTES: u64 = 1 << 20;
/// A log that has so many times the keys' bytes, and so many bytes more, is worth a checkpoint: recovery has to read it.
const GARBAGE: (u64, u64) = (4, 64 << 20);

/// News of the log.
#[derive(Debug)]
pub enum News {
    /// It is recovered.
    Recovered(Recovered),
    /// More is durable.
    Durable,
    /// Nothing more is acknowledged.
    Failed(StoreError),
}

/// Records that wait for the disk: the last one of a turn, and the bytes of the turn.
#[derive(Debug, Default)]
struct Outstanding {
    turns: VecDeque<(Position, u64)>,
    bytes: u64,
}

/// The log of a keyspace. One thread's.
#[derive(Debug)]
pub struct Journal {
    log: Log,
    is_ready: bool,
    failure: Option<StoreError>,
    /// The last record appended.
    last: Option<Position>,
    /// All before it is durable.
    durable: Position,
    outstanding: Outstanding,
    /// Appended and not committed yet.
    uncommitted: u64,
    committed_at: Time,
    /// A commit whose time is taken: its last record, and when it was given. One at a time is enough to know how long they take.
    timed: Option<(Position, Time)>,
    /// A checkpoint is to begin though none is due.
    is_wanted: bool,
    walk: Option<Walk>,
    /// All keys are written, and the end of the checkpoint is on its way.
    is_ending: bool,
    /// Used again for each step of a checkpoint.
    records: Vec<Encoder>,
    /// Bytes of this checkpoint so far.
    written: u64,
    checkpoints: u64,
}

impl Journal {
    /// Opens the log on an area, or makes one if the area is empty; `identity`: 16 random bytes.
    ///
    /// # Errors
    /// [`StoreError`], as [`Log::open`] has it.
    pub fn open(area: AreaId, identity: [u8; 16], storage: &mut dyn StorageCommands) -> Result<Journal, StoreError> {
        let options = Options::default().make_if_empty(identity).pending_bytes_max(PENDING_BYTES_MAX);
        let log = Log::open(area, options.record_bytes_max(LOG_RECORD_BYTES_MAX), storage)?;
        Ok(Journal {
            log,
            is_ready: false,
            failure: None,
            last: None,
            durable: Position::default(),
            outstanding: Outstanding::default(),
            uncommitted: 0,
            committed_at: Time::ZERO,
            timed: None,
            is_wanted: false,
            walk: None,
            is_ending: false,
            records: Vec::new(),
            written: 0,
            checkpoints: 0,
        })
    }

    /// Takes an event of the area. Gives back one that is not the log's.
    pub fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event> {
        self.log.handle(event, storage)
    }

    /// The next news; while it is recovered, records are put into the keyspace.
    pub fn next(&mut self, keyspace: &mut Keyspace, storage: &mut dyn StorageCommands) -> Option<News> {
        // A log that was refused is asked for nothing more, so nothing of it is written.
        while self.failure.is_none() {
            match self.log.next(storage)? {
                LogEvent::Record { position, bytes, .. } => {
                    if !keyspace.replay(bytes) {
                        let place = position.to_number();
                        let what = "a record of the log is no list of changes";
                        return self.fail(StoreError::Contradiction { place, what });
                    }
                }
                LogEvent::Recovered(recovered) => {
                    self.is_ready = true;
                    self.durable = self.log.durable();
                    return Some(News::Recovered(recovered));
                }
                LogEvent::Durable { before } => {
                    self.durable = before;
                    let Outstanding { turns, bytes } = &mut self.outstanding;
                    while let Some(&(position, of_turn)) = turns.front()
                        && position < before
                    {
                        turns.pop_front();
                        *bytes -= of_turn;
                    }
                    return Some(News::Durable);
                }
                LogEvent::Checkpointed { .. } => {
                    self.is_ending = false;
                    self.checkpoints += 1;
                }
                LogEvent::Truncated { .. } | LogEvent::Read { .. } => {}
                LogEvent::Failed(error) => return self.fail(error),
            }
        }
        None
    }

    fn fail(&mut self, error: StoreError) -> Option<News> {
        if self.failure.is_some() {
            return None;
        }
        (self.is_ready, self.walk) = (false, None);
        self.failure = Some(error.clone());
        Some(News::Failed(error))
    }

    /// Whether it takes records.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Why it takes no more.
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    /// Whether clients that may write have to wait until some of it is durable.
    pub fn is_busy(&self) -> bool {
        self.outstanding.bytes > BUSY_BYTES
    }

    /// Bytes of records that wait for the disk.
    pub fn waiting_bytes(&self) -> u64 {
        self.outstanding.bytes
    }

    /// How long a commit took that is durable now, if one was timed.
    pub fn take_flushed(&mut self, now: Time) -> Option<Duration> {
        let (_, since) = self.timed.take_if(|(last, _)| *last < self.durable)?;
        Some(now.since(since))
    }

    /// Bytes of the log that recovery has gone through.
    pub fn progress(&self) -> u64 {
        self.log.progress()
    }

    /// The record that an answer given now has to wait for; `None`: all is durable.
    pub fn gate(&self) -> Option<Position> {
        self.last.filter(|last| *last >= self.durable)
    }

    /// Whether a record is durable.
    pub fn is_durable(&self, position: Position) -> bool {
        position < self.durable
    }

    /// Appends what has changed since the last time. If that is not possible, memory is ahead of the log, and nothing more may be
    /// acknowledged.
    pub fn append(&mut self, keyspace: &mut Keyspace, storage: &mut dyn StorageCommands) -> Option<News> {
        let record = keyspace.record();
        if record.is_empty() {
            return None;
        }
        let appended = if self.is_ready { self.log.append(record, storage) } else { Err(StoreError::NotReady) };
        let bytes = record.len() as u64;
        keyspace.clear_record();
        match appended {
            Ok(position) => {
                self.appended(position, bytes);
                None
            }
            Err(error) => self.fail(error),
        }
    }

    fn appended(&mut self, position: Position, bytes: u64) {
        self.last = Some(position);
        self.uncommitted += bytes;
        self.outstanding.bytes += bytes;
        match self.outstanding.turns.back_mut() {
            // One of the same frame becomes durable with it.
            Some((last, of_turn)) if last.to_number() / 4_096 == position.to_number() / 4_096 => {
                (*last, *of_turn) = (position, *of_turn + bytes);
            }
            _ => self.outstanding.turns.push_back((position, bytes)),
        }
    }

    /// A checkpoint begins at the next end of a turn at which the log takes one.
    pub fn want_checkpoint(&mut self) {
        self.is_wanted = true;
    }

    /// The end of a turn: what was appended is committed if it is to be, and a checkpoint goes on. `is_wanted`: it is to be committed at
    /// once.
    pub fn turn_ended(
        &mut self,
        keyspace: &Keyspace,
        (durability, is_wanted, now): (Durability, bool, Time),
        storage: &mut dyn StorageCommands,
    ) -> Option<News> {
        if !self.is_ready {
            return None;
        }
        if let Err(error) = self.checkpoint(keyspace, storage) {
            return self.fail(error);
        }
        let age = now.since(self.committed_at);
        let is_due = match durability {
            Durability::Always => true,
            Durability::EverySecond => age >= Duration::from_secs(1),
            Durability::No => age >= Duration::from_secs(30),
        };
        let is_checkpointing = self.walk.is_some() || self.is_ending;
        if self.uncommitted > 0 && (is_due || is_wanted || is_checkpointing || self.uncommitted >= COMMIT_BYTES) {
            (self.uncommitted, self.committed_at) = (0, now);
            self.timed = self.timed.or_else(|| self.last.map(|last| (last, now)));
            self.log.commit(storage);
        }
        None
    }

    /// Begins a checkpoint if one is due, or goes on with it.
    fn checkpoint(&mut self, keyspace: &Keyspace, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let Some(walk) = self.walk else {
            let (used, all) = self.log.bytes();
            let is_due = self.is_wanted || used >= all / 2 || used > GARBAGE.0 * keyspace.bytes() as u64 + GARBAGE.1;
            if self.is_ending || !is_due {
                return Ok(());
            }
            match self.log.checkpoint_begin(storage) {
                Ok(()) => (self.walk, self.written, self.is_wanted) = (Some(keyspace.walk()), 0, false),
                Err(StoreError::Busy { .. } | StoreError::CheckpointRuns) => {}
                Err(error) => return Err(error),
            }
            return Ok(());
        };
        if self.outstanding.bytes > CHECKPOINT_STEP_BYTES as u64 {
            return Ok(());
        }
        let mut next = walk;
        self.records.clear();
        let mut goes_on = true;
        while goes_on && self.records.iter().map(|record| record.bytes().len()).sum::<usize>() < CHECKPOINT_STEP_BYTES {
            goes_on = keyspace.dump_next(&mut next, &mut self.records);
        }
        for index in 0..self.records.len() {
            let Some(record) = self.records.get(index) else { break };
            let bytes = record.bytes().len() as u64;
            match self.log.checkpoint_append(&[record.bytes()], storage) {
                Ok(position) => {
                    self.written += bytes;
                    self.appended(position, bytes);
                }
                // All of this step comes again: parts of a key have to be without anything between them.
                Err(StoreError::Busy { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.walk = Some(next);
        if !goes_on {
            match self.log.checkpoint_end(storage) {
                Ok(()) => (self.walk, self.is_ending, self.uncommitted) = (None, true, self.uncommitted.max(1)),
                Err(StoreError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What is so of the log now, besides what was counted elsewhere.
    pub fn tell(&self, keyspace: &Keyspace, state: &mut LogState) {
        let (used, all) = self.log.bytes();
        state.bytes = (used, all);
        let is_under_way = self.walk.is_some() || self.is_ending;
        state.is_checkpointing = self.is_wanted || is_under_way;
        if state.checkpoints != self.checkpoints {
            state.checkpointed_ms = Some(keyspace.now_ms);
        }
        state.checkpoints = self.checkpoints;
        state.has_failed = self.failure.is_some();
        state.batches = self.log.statistics().batches;
        // A checkpoint of all keys has to fit behind what there is, with what its frames cost, and changes meanwhile.
        let keys = keyspace.bytes() as u64;
        let written = if is_under_way { self.written.min(keys) } else { 0 };
        let reserve = keys + keys / 32 + (256 << 10) - written;
        state.room_to_shrink = all.saturating_sub(used + reserve);
        // What makes keys larger is written twice: once now, once by the checkpoint.
        state.room = state.room_to_shrink.saturating_sub(all / 16) / 2;
    }

    /// The process ends: all that was appended is committed, and the log records how far it is durable. Whether that is done.
    pub fn seal(&mut self, storage: &mut dyn StorageCommands) {
        if self.is_ready {
            self.uncommitted = 0;
            self.log.commit(storage);
            if self.log.is_idle() {
                // While a checkpoint is under way it is not possible, and not needed.
                let _ = self.log.seal(storage);
            }
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        !self.is_ready || self.log.is_idle()
    }
}
