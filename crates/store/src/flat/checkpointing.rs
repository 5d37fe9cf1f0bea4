//! Checkpoints of the table of objects.

use super::{CHECKPOINT_STEP, Objects};
use crate::error::StoreError;
use crate::layout::UNIT_BYTES;
use crate::objects::table::Record;
use crate::objects::writing::Stage;
use qanat_api::StorageCommands;

impl Objects {
    /// Leaves room for a checkpoint of the table.
    pub(super) fn reserve(&mut self) {
        self.log.set_reserve(self.table_bytes + self.table_bytes / 8 + 8 * UNIT_BYTES);
    }

    /// Writes the table anew, some objects at a time, when half of the room beside it is used.
    pub(super) fn drive_checkpoint(&mut self, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let (used, all) = self.log.bytes();
        if let Some(cursor) = self.cursor.take() {
            // The step before is on its way: one at a time.
            if !self.log.is_idle() {
                self.cursor = Some(cursor);
                return Ok(());
            }
            let from = (std::ops::Bound::Excluded(cursor.clone()), std::ops::Bound::Unbounded);
            let mut last = cursor;
            let mut rest = self.table.objects.range::<Vec<u8>, _>(from);
            let mut is_at_end = false;
            for _ in 0..CHECKPOINT_STEP {
                let Some((name, extent)) = rest.next() else {
                    is_at_end = true;
                    break;
                };
                let head = Record::Object(*extent, name).head();
                match self.log.checkpoint_append(&[&head, name], storage) {
                    Ok(_) => last.clone_from(name),
                    // Once what was appended is written.
                    Err(StoreError::Busy { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
            if is_at_end {
                self.log.checkpoint_end(storage)?;
            } else {
                self.cursor = Some(last);
            }
            self.log.commit(storage);
        } else if !self.log.is_checkpointing()
            // An object whose record is before the checkpoint has to be in the table when the checkpoint comes to it.
            && !self.writings.values().any(|writing| matches!(writing.stage, Stage::Recorded(_)))
            && used.saturating_sub(self.floor) > all.saturating_sub(self.floor) / 2
            && self.log.is_idle()
        {
            self.log.checkpoint_begin(storage)?;
            let head = Record::Generations(self.table.next_generation).head();
            self.log.checkpoint_append(&[&head], storage)?;
            // No name is empty: all of them are behind this.
            self.cursor = Some(Vec::new());
            self.log.commit(storage);
        }
        Ok(())
    }
}
