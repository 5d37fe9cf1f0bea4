//! Checkpoints of a log, as they are asked for.

use super::{Log, Phase};
use crate::chain::frame::RecordKind;
use crate::error::StoreError;
use crate::position::Position;
use crate::running::Checkpoint;
use qanat_api::StorageCommands;

impl Log {
    /// Leaves so many bytes of the log free for a checkpoint: as many as one may take. Appends that would take of them are refused as
    /// [`StoreError::Full`]. While a checkpoint is made, what it has taken is left of it.
    pub fn set_reserve(&mut self, bytes: u64) {
        self.reserve = bytes;
    }

    /// Whether a checkpoint is under way.
    pub(crate) fn is_checkpointing(&self) -> bool {
        matches!(&self.phase, Phase::Run(it) if it.checkpoint.is_some() || it.checkpointed.is_some())
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
        if running.checkpoint.is_none_or(|checkpoint| checkpoint.end.is_some()) {
            return Err(StoreError::NoCheckpoint);
        }
        let before = running.writer.used();
        let position = self.push(RecordKind::Checkpoint, pieces, 0, storage)?;
        let running = self.running()?;
        let after = running.writer.used();
        running.checkpoint.iter_mut().for_each(|checkpoint| checkpoint.bytes += after - before);
        Ok(position)
    }

    /// Ends a checkpoint. [`LogEvent::Checkpointed`](crate::LogEvent::Checkpointed) follows once it is durable and recorded, after the next [`commit`](Log::commit).
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
}
