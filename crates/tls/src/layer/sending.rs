//! What a service gave is sealed, some records ahead of what the peer has acknowledged.

use super::blocks::Blocks;
use super::link::{Link, Stage};
use super::shared::{Shared, UNSENT_BYTES};
use crate::alert::Alert;
use crate::record::{CONTENT_BYTES_MAX, HEADER_BYTES, OVERHEAD_BYTES};
use crate::session::Session;
use bytes::Bytes;
use qanat_api::{Block, CommandError, Commands, Filled, FilledBlock};

impl Link {
    /// Seals and sends what can be sent now, and ends what is to end.
    pub(crate) fn send<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) {
        if self.stage == Stage::Over {
            return;
        }
        if self.session.is_open() {
            if let Err(alert) = self.seal(shared, below) {
                return self.fail(alert, shared, below);
            }
            if self.queue.bytes() > 0 || !self.refused.is_empty() {
                return;
            }
        } else if self.stage != Stage::Closing {
            return;
        }
        self.end(shared, below);
    }

    /// All is sent: says so, if the service has.
    fn end<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) {
        if matches!(self.stage, Stage::ShuttingDown | Stage::Closing) && self.session.is_open() {
            match self.close_notify() {
                Ok(bytes) => self.give(FilledBlock(Filled::Own(Bytes::from(bytes))), 0, below),
                Err(alert) => return self.fail(alert, shared, below),
            }
            self.is_farewell_sent = true;
        }
        match self.stage {
            Stage::ShuttingDown => {
                self.stage = Stage::ShutDown;
                let _ = below.shutdown(self.id);
            }
            Stage::Closing => self.close(below),
            Stage::Open | Stage::ShutDown | Stage::Over => {}
        }
    }

    /// Closes it for good. The stack delivers what it was given.
    pub(crate) fn close<C: Commands>(&mut self, below: &mut C) {
        self.stage = Stage::Over;
        self.queue.clear();
        self.refused.clear();
        // The keys are not needed any more.
        self.session = Session::Over;
        self.drop_received(below);
        // Refused only if it is gone already: then `Closed` is on its way.
        let _ = below.close(self.id);
    }

    /// It can't go on: the peer is told why, the service by the connection's end.
    pub(crate) fn fail<C: Commands>(&mut self, alert: Alert, shared: &mut Shared, below: &mut C) {
        shared.figures.connections_failed += 1;
        if let Session::Established(established) = &mut self.session
            && let Ok(record) = established.alert(alert)
        {
            self.give(FilledBlock(Filled::Own(Bytes::from(record))), 0, below);
        }
        self.close(below);
    }

    fn close_notify(&mut self) -> Result<Vec<u8>, Alert> {
        match &mut self.session {
            Session::Established(established) => established.close_notify(),
            Session::Foreign(foreign) => foreign.close_notify(),
            Session::Handshake(_) | Session::Over => Err(Alert::InternalError),
        }
    }

    /// Gives something to the stack. What it does not take now goes first the next time.
    pub(crate) fn give<C: Commands>(&mut self, block: FilledBlock, content: usize, below: &mut C) {
        self.note_sealed(block.bytes().len(), content);
        if !self.refused.is_empty() {
            return self.refused.push_back(block);
        }
        // For any other reason: it is gone, and `Closed` is on its way.
        if below.send_block(self.id, block.clone()) == Err(CommandError::Full) {
            self.refused.push_back(block);
        }
    }

    fn seal<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) -> Result<(), Alert> {
        while let Some(block) = self.refused.front() {
            if below.send_block(self.id, block.clone()) == Err(CommandError::Full) {
                return Ok(());
            }
            self.refused.pop_front();
        }
        let mut room = below.send_room(self.id).map(|room| room + UNSENT_BYTES);
        loop {
            if let Session::Established(established) = &mut self.session
                && established.is_update_due()
            {
                let record = established.update()?;
                shared.figures.key_updates += 1;
                self.give(FilledBlock(Filled::Own(Bytes::from(record))), 0, below);
            }
            let is_enough = room.map_or(self.sealed_bytes >= self.ahead_bytes, |room| room <= 0);
            if self.queue.bytes() == 0 || is_enough || !self.refused.is_empty() {
                return Ok(());
            }
            let sealed = self.seal_record(&mut shared.blocks, below)?;
            room = room.map(|room| room - sealed as i64);
            shared.figures.records_sealed += 1;
        }
    }

    /// One record of what waits, and how long it is: encrypted on the way from where it lies to the block that is sent, if it lies in one piece. Else it is put
    /// together in the block first.
    fn seal_record<C: Commands>(&mut self, blocks: &mut Blocks, below: &mut C) -> Result<usize, Alert> {
        let wanted = self.queue.bytes().min(CONTENT_BYTES_MAX as u64) as usize;
        let queue = &mut self.queue;
        let (block, count) = match &mut self.session {
            Session::Established(established) => {
                let mut block = blocks.take(wanted + OVERHEAD_BYTES, below);
                if block.room() <= OVERHEAD_BYTES {
                    block = Block::own(wanted + OVERHEAD_BYTES);
                }
                let count = wanted.min(block.room() - OVERHEAD_BYTES);
                block.append_with(count + OVERHEAD_BYTES, |target| {
                    let lent = queue.lent(count);
                    if lent.is_none() {
                        queue.copy(target.get_mut(HEADER_BYTES..HEADER_BYTES + count).unwrap_or_default());
                    }
                    established.seal(lent, target)
                })?;
                (block.filled(), count)
            }
            Session::Foreign(foreign) => {
                let mut content = vec![0; wanted];
                queue.copy(&mut content);
                (FilledBlock(Filled::Own(Bytes::from(foreign.seal(&content)?))), wanted)
            }
            Session::Handshake(_) | Session::Over => return Err(Alert::InternalError),
        };
        self.queue.skip(count);
        let sealed = block.bytes().len();
        self.give(block, count, below);
        Ok(sealed)
    }
}
