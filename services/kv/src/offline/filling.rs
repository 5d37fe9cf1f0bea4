//! [`Filler`]: puts keys into a log, by records of a bounded size.

use super::{PATIENCE, STUCK};
use crate::engine::settings::Durability;
use crate::engine::state::LogState;
use crate::journal::{Journal, News};
use crate::keyspace::database::Entry;
use crate::keyspace::dump;
use crate::keyspace::space::Keyspace;
use crate::keyspace::text::TEXT_BYTES_MAX;
use qanat::{AreaId, Storage, Time};
use qanat_store::{Recovered, StoreError};

/// A record ends when it has so many bytes. One with a single long element is longer.
const RECORD_BYTES: usize = 256 << 10;

/// Why keys can't be put into a log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FillError {
    /// The log can't be used.
    #[error("{0}")]
    Store(StoreError),
    /// The log has no room.
    #[error("the log has no room for more keys: it has {bytes} bytes, and holds all keys twice; use a larger area")]
    NoRoom {
        /// Bytes of the log.
        bytes: u64,
    },
}

/// A log that is filled. What was put is durable after [`finish`](Filler::finish).
#[derive(Debug)]
pub struct Filler {
    storage: StorageOf,
    journal: Journal,
    keyspace: Keyspace,
    state: LogState,
}

/// The areas, which have nothing to show.
struct StorageOf(Storage);

impl std::fmt::Debug for StorageOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Storage")
    }
}

impl Filler {
    /// Opens the log of an area, or makes one if the area is empty; `identity`: 16 random bytes. `tell` hears how many bytes of it were
    /// read.
    ///
    /// # Errors
    /// [`FillError`].
    pub fn open(
        mut storage: Storage,
        identity: [u8; 16],
        mut tell: impl FnMut(u64),
    ) -> Result<(Filler, Recovered), FillError> {
        let journal = Journal::open(AreaId::new(0, 0), identity, &mut storage).map_err(FillError::Store)?;
        let (keyspace, state) = (Keyspace::default(), LogState::default());
        let mut filler = Filler { storage: StorageOf(storage), journal, keyspace, state };
        loop {
            match filler.journal.next(&mut filler.keyspace, &mut filler.storage.0) {
                Some(News::Recovered(recovered)) => {
                    filler.make_room(2 * RECORD_BYTES)?;
                    return Ok((filler, recovered));
                }
                Some(News::Failed(error)) => return Err(FillError::Store(error)),
                Some(News::Durable) => {}
                None => {
                    tell(filler.journal.progress());
                    filler.wait()?;
                }
            }
        }
    }

    /// Keys that are there.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Lets the disk go on.
    fn wait(&mut self) -> Result<(), FillError> {
        let Filler { storage: StorageOf(storage), journal, .. } = self;
        let is_busy = storage.is_busy();
        let took = storage.turn(PATIENCE, |event, storage| drop(journal.handle(event, storage)));
        match took || is_busy {
            true => Ok(()),
            false => Err(FillError::Store(StoreError::Contradiction { place: 0, what: STUCK })),
        }
    }

    /// Hears what the log has to say.
    fn hear(&mut self) -> Result<(), FillError> {
        while let Some(news) = self.journal.next(&mut self.keyspace, &mut self.storage.0) {
            if let News::Failed(error) = news {
                return Err(FillError::Store(error));
            }
        }
        Ok(())
    }

    fn heard(news: Option<News>) -> Result<(), FillError> {
        match news {
            Some(News::Failed(error)) => Err(FillError::Store(error)),
            _ => Ok(()),
        }
    }

    /// What was appended goes to the disk, and a checkpoint goes on.
    fn commit(&mut self) -> Result<(), FillError> {
        let how = (Durability::Always, false, Time::ZERO);
        let news = self.journal.turn_ended(&self.keyspace, how, &mut self.storage.0);
        Filler::heard(news)?;
        self.hear()?;
        self.journal.tell(&self.keyspace, &mut self.state);
        Ok(())
    }

    /// Waits until a record of so many bytes can be taken: a checkpoint may be under way, which gives room. All that has changed has to be
    /// appended: what a checkpoint writes may not be ahead of the log.
    fn make_room(&mut self, bytes: usize) -> Result<(), FillError> {
        loop {
            self.commit()?;
            let is_busy = self.journal.is_busy();
            let has_room = bytes as u64 <= self.state.room;
            if has_room && !is_busy || !is_busy && !self.state.is_checkpointing && !self.storage.0.is_busy() {
                // Whether there is room for what really comes is judged when it has come.
                return Ok(());
            }
            if self.storage.0.is_busy() {
                self.wait()?;
            }
        }
    }

    /// Appends what has changed, and makes room for as much again, or for so many bytes.
    fn append(&mut self, next: usize) -> Result<(), FillError> {
        if self.keyspace.record().len() as u64 > self.state.room {
            return Err(FillError::NoRoom { bytes: self.state.bytes.1 });
        }
        let news = self.journal.append(&mut self.keyspace, &mut self.storage.0);
        Filler::heard(news)?;
        self.make_room(next.max(2 * RECORD_BYTES))
    }

    /// Makes `key` what `entry` is, whatever it was.
    ///
    /// # Errors
    /// [`FillError`]: some of it may be there.
    pub fn put(&mut self, database: u8, key: &[u8], entry: &Entry) -> Result<(), FillError> {
        let next = entry.value.bytes().min(TEXT_BYTES_MAX) + RECORD_BYTES;
        let mut outcome = if next > 2 * RECORD_BYTES { self.append(next) } else { Ok(()) };
        dump::changes(key, entry, |change| {
            if outcome.is_ok() {
                self.keyspace.change(database, change);
                if self.keyspace.record().len() >= RECORD_BYTES {
                    outcome = self.append(next);
                }
            }
        });
        outcome
    }

    /// Makes all that was put durable, and records how far the log is.
    ///
    /// # Errors
    /// [`FillError`].
    pub fn finish(mut self) -> Result<(), FillError> {
        self.append(0)?;
        let mut is_sealed = false;
        loop {
            self.commit()?;
            let is_idle = self.journal.is_idle() && !self.state.is_checkpointing;
            if is_idle && is_sealed {
                return Ok(());
            }
            if is_idle {
                self.journal.seal(&mut self.storage.0);
                is_sealed = true;
            }
            if self.storage.0.is_busy() {
                self.wait()?;
            }
        }
    }
}
