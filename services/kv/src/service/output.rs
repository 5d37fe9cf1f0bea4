//! Answers: which leave now, and which wait for the log.

use super::KvService;
use super::connection::Piece;
use crate::engine::settings::Durability;
use crate::engine::state::Waits;
use crate::limits::MISCONF;
use qanat::{Bytes, CommandError, Commands, ConnectionId, StorageCommands};
use qanat_store::Position;

/// A client that listens to channels, watches commands or tracks keys, and takes nothing is closed if it is owed more than this.
const MESSAGES_BYTES_MAX: u64 = 32 << 20;

impl KvService {
    /// What an answer that is given now waits for. As with Redis, no answer tells of what a crash may undo, whoever wrote it.
    pub(super) fn gate(&mut self) -> Option<Position> {
        let waits = std::mem::take(&mut self.state.waits_for_log);
        let is_always = self.state.settings.durability == Durability::Always;
        self.journal.as_ref().filter(|_| waits || is_always)?.gate()
    }

    /// Takes what was written for a client, and sends it if it need not wait. `has_failed`: its changes could not be written down.
    pub(super) fn finish<C: Commands + StorageCommands>(
        &mut self,
        slot: usize,
        answers: u32,
        has_failed: bool,
        context: &mut C,
    ) {
        let gate = self.gate();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if has_failed {
            self.reply.take().for_each(drop);
            (0..answers).for_each(|_| self.reply.error(MISCONF));
        }
        let mut answers = answers;
        for bytes in self.reply.take() {
            connection.push(Piece { gate, bytes, answers: std::mem::take(&mut answers) });
        }
        self.flush(slot, context);
    }

    /// Hands out what others are to be sent.
    pub(super) fn deliver<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        if self.state.outbox.is_empty() {
            return;
        }
        let waits = std::mem::replace(&mut self.state.waits_for_log, false);
        let gate = self.gate();
        self.state.waits_for_log = waits;
        for (slot, bytes, waits) in std::mem::take(&mut self.state.outbox) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            let gate = gate.filter(|_| waits != Waits::No);
            connection.push(Piece { gate, bytes, answers: u32::from(waits == Waits::Answer) });
            if connection.backlog() > MESSAGES_BYTES_MAX
                && let Some(session) = self.state.sessions.get_mut(slot)
                && (session.subscriptions() > 0 || session.is_monitor || session.is_told)
                && !session.is_killed
            {
                session.is_killed = true;
                self.state.kills = true;
                self.state.statistics.unread += 1;
            }
            self.flush(slot, context);
            // It may have waited for this.
            self.woken.push_back(slot);
        }
    }

    /// Sends what need not wait any more.
    pub(super) fn flush<C: Commands + StorageCommands>(&mut self, slot: usize, context: &mut C) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(id) = connection.id else { return };
        while let Some(piece) = connection.output.front() {
            let is_durable = |gate| self.journal.as_ref().is_none_or(|journal| journal.is_durable(gate));
            if piece.gate.is_some_and(|gate| !is_durable(gate)) {
                if !connection.is_gated {
                    connection.is_gated = true;
                    self.gated.push(slot);
                }
                return;
            }
            let (bytes, length) = (piece.bytes.clone(), piece.bytes.len() as u64);
            match context.send(id, bytes) {
                Ok(()) => {
                    connection.output.pop_front();
                    connection.queued -= length;
                    connection.unacknowledged += length;
                    self.state.statistics.output_bytes += length;
                }
                // It is tried again when the peer has acknowledged something.
                Err(CommandError::Full) => return,
                // It is gone, or sends no more: nobody will have it.
                Err(_) => {
                    connection.output.clear();
                    connection.queued = 0;
                }
            }
        }
        let is_ending = self.state.sessions.get(slot).is_some_and(|session| session.is_ending);
        if is_ending && !connection.is_closing {
            connection.is_closing = true;
            // One that is gone already says so by its last event.
            let _ = context.close(id);
            self.depart(slot);
        }
    }

    /// Tells readers of the export what need not wait any more.
    pub(super) fn release(&mut self) {
        let journal = self.journal.as_ref();
        let is_durable = |gate| journal.is_none_or(|journal| journal.is_durable(gate));
        self.questions.iter_mut().for_each(|questions| questions.release(is_durable));
    }

    /// The log has failed: what waits for it is answered by an error.
    pub(super) fn disappoint(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let error = Bytes::from(format!("-{MISCONF}\r\n"));
        for piece in std::mem::take(&mut connection.output) {
            connection.queued -= piece.bytes.len() as u64;
            if piece.gate.is_none() {
                connection.push(piece);
                continue;
            }
            for _ in 0..piece.answers {
                connection.push(Piece { gate: None, bytes: error.clone(), answers: 1 });
            }
        }
    }

    pub(super) fn acked<C: Commands + StorageCommands>(&mut self, id: ConnectionId, bytes: u32, context: &mut C) {
        let Some(connection) = self.connection(id) else { return };
        connection.unacknowledged = connection.unacknowledged.saturating_sub(u64::from(bytes));
        let (waits, holds) = (!connection.output.is_empty(), !connection.held.is_empty());
        if waits {
            self.flush(id.index(), context);
        }
        if holds || waits {
            self.woken.push_back(id.index());
        }
    }

    /// Closes a connection whose peer has, if nothing is left to answer.
    pub(super) fn settle<C: Commands + StorageCommands>(&mut self, slot: usize, context: &mut C) {
        let Some(connection) = self.connections.get_mut(slot).filter(|connection| connection.peer_closed) else {
            return;
        };
        let Some(session) = self.state.sessions.get(slot) else { return };
        let is_done = connection.output.is_empty()
            && !session.is_paused
            && (connection.held.is_empty() || session.blocked.is_some());
        if is_done && !connection.is_closing {
            connection.is_closing = true;
            // One that is gone already says so by its last event.
            let _ = connection.id.map(|id| context.close(id));
        }
    }
}
