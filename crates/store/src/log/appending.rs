//! What is asked of a log: records to append, to read again, and to give up.

use super::{Log, Phase};
use crate::chain::frame::RecordKind;
use crate::error::StoreError;
use crate::layout::BASE_RESERVE_BYTES;
use crate::position::Position;
use qanat_api::StorageCommands;

impl Log {
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

    pub(super) fn push(
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

    /// Asks for a record that is durable: [`LogEvent::Read`](crate::LogEvent::Read) follows, in the order of requests. It fails with [`StoreError::None`] if the
    /// record is given up meanwhile.
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

    /// Gives up what is before `position`, a durable record or the end of those. The records of its frame stay, so some before it may
    /// be told again. [`LogEvent::Truncated`](crate::LogEvent::Truncated) follows.
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
    /// called when all is durable and the process ends; [`LogEvent::Truncated`](crate::LogEvent::Truncated) follows.
    ///
    /// # Errors
    /// As [`truncate`](Log::truncate).
    pub fn seal(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let start = Position::new(self.running()?.writer.start(), 0);
        self.truncate(start, storage)
    }
}
