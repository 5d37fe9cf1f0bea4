//! Handing responses to the stack: at once if it takes them, piece by piece if not, window by window from disk.

use super::connection::Piece;
use super::file_reads::{Answer, Delivery};
use super::{Commands, Phase, WebService, milliseconds};
use crate::content::window::NoWindow;
use qanat::{Bytes, CommandError, ConnectionId};
use std::rc::Rc;

/// Connections that wait for a window and are looked at when bytes are acknowledged; all are at each tick.
const QUEUED_LOOKED_AT: usize = 8;

fn try_send<C: Commands>(id: ConnectionId, piece: &Piece, context: &mut C) -> Result<(), CommandError> {
    match piece {
        Piece::Bytes(bytes) => context.send(id, bytes.clone()),
        Piece::Object { object, stamp, offset, length } => {
            context.send_prepared(id, Rc::clone(object) as Rc<dyn qanat::Source>, *stamp, *offset, *length)
        }
        // Go by windows, and piece by piece.
        Piece::File { .. } | Piece::Flat(_) => Err(CommandError::Full),
    }
}

impl WebService {
    /// Sends `piece` after everything given before.
    pub(super) fn send<C: Commands>(&mut self, id: ConnectionId, piece: Piece, context: &mut C) {
        let length = piece.length();
        let Some(connection) = self.connections.get(id) else { return };
        self.figures.bytes_sent += length;
        if length == 0 {
            return;
        }
        if connection.has_output() {
            connection.extra().output.push_back(piece);
            return;
        }
        match try_send(id, &piece, context) {
            Ok(()) => connection.unacknowledged += length,
            Err(CommandError::Full) => {
                connection.extra().output.push_back(piece);
                if matches!(connection.extra().output.front(), Some(Piece::File { .. } | Piece::Flat(_))) {
                    self.pump(id, context);
                }
            }
            Err(_) => self.give_up(id, context),
        }
    }

    /// The stack refused: the connection is past use.
    pub(super) fn give_up<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        self.figures.commands_refused += 1;
        self.abort(id, context);
    }

    pub(super) fn abort<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        if let Some(connection) = self.connections.get(id) {
            connection.phase = Phase::Closing;
            connection.unacknowledged = 0;
            connection.extra = None;
            // Refused only if the connection is gone already: then `Closed` is on its way.
            let _ = context.abort(id);
        }
        self.settle_pieces(id);
    }

    pub(super) fn close<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        let now_ms = milliseconds(context.now());
        if let Some(connection) = self.connections.get(id) {
            connection.phase = Phase::Closing;
            connection.since_ms = now_ms;
            connection.extra = None;
            let _ = context.close(id);
        }
    }

    /// After the last piece of a response: what the connection does next. `linger`: the peer may still be sending what
    /// nobody will read; closing at once would answer that with a reset, which may destroy the response on its way.
    pub(super) fn end_response<C: Commands>(&mut self, id: ConnectionId, keep: bool, linger: bool, context: &mut C) {
        let now_ms = milliseconds(context.now());
        let Some(connection) = self.connections.get(id) else { return };
        if connection.phase == Phase::Closing {
            return;
        }
        connection.since_ms = now_ms;
        connection.blank_bytes = 0;
        if let Some(extra) = &mut connection.extra {
            extra.waits_since = None;
        }
        if connection.has_output() {
            connection.phase = Phase::Output;
            connection.extra().close_after = !keep;
        } else if keep {
            connection.phase = Phase::Idle;
        } else if linger && !connection.peer_closed {
            connection.phase = Phase::Lingering;
            connection.extra = None;
            let _ = context.shutdown(id);
        } else {
            self.close(id, context);
        }
    }

    /// Hands queued pieces over while the stack takes them.
    fn pump<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        let now_ms = milliseconds(context.now());
        // Ends: every round removes a piece, shortens one or returns.
        loop {
            let Some(connection) = self.connections.get(id) else { return };
            let unacknowledged = connection.unacknowledged;
            let Some(extra) = connection.extra.as_mut() else { return };
            if matches!(extra.output.front(), Some(Piece::Flat(_))) {
                if !self.pump_flat(id, context) {
                    return;
                }
                self.pop_output(id);
                continue;
            }
            let Some(piece) = extra.output.front_mut() else { break };
            match piece {
                Piece::File { length: 0, .. } => {}
                Piece::File { file, offset, length, reading } => {
                    let window_bytes = self.windows.window_bytes() as u64;
                    // A window ahead of what is in flight; when windows grow scarce, only as the peer takes them.
                    if *reading || unacknowledged > window_bytes || (self.windows_scarce && unacknowledged > 0) {
                        return;
                    }
                    let window = match self.windows.take(connection.peer.ip().into()) {
                        Ok(window) => window,
                        Err(why) => {
                            self.figures.window_share_waits += u64::from(why == NoWindow::ShareUsed);
                            if !extra.queued_for_window {
                                extra.queued_for_window = true;
                                self.window_queue.push_back(id);
                            }
                            return;
                        }
                    };
                    let answer = self.file_reads.ask(id, file, (*offset, *length), window);
                    *reading = true;
                    match answer {
                        Answer::Here { start, bytes } => {
                            connection.since_ms = now_ms;
                            connection.take_window(start, bytes);
                            continue;
                        }
                        Answer::Awaited => return,
                        Answer::Job(job) => {
                            if !self.submit(job) {
                                self.figures.stream_errors += 1;
                                self.abort(id, context);
                            }
                            return;
                        }
                    }
                }
                other => match try_send(id, other, context) {
                    Ok(()) => connection.unacknowledged += other.length(),
                    Err(CommandError::Full) => return,
                    Err(_) => return self.give_up(id, context),
                },
            }
            extra.output.pop_front();
        }
        let Some(connection) = self.connections.get(id) else { return };
        if connection.phase == Phase::Output {
            connection.phase = Phase::Idle;
            connection.since_ms = now_ms;
            if connection.extra.as_ref().is_some_and(|extra| extra.close_after) {
                self.close(id, context);
            }
        }
    }

    fn pop_output(&mut self, id: ConnectionId) {
        if let Some(extra) = self.connections.get(id).and_then(|connection| connection.extra.as_mut()) {
            extra.output.pop_front();
        }
    }

    /// Goes on with whatever the connection waits for.
    pub(super) fn advance<C: Commands>(&mut self, id: ConnectionId, context: &mut C) {
        self.pump(id, context);
        self.resume(id, context);
        self.settle(id, context);
    }

    pub(super) fn on_acknowledged<C: Commands>(&mut self, id: ConnectionId, bytes: u32, context: &mut C) {
        let now_ms = milliseconds(context.now());
        self.figures.bytes_acknowledged += u64::from(bytes);
        let Some(connection) = self.connections.get(id) else { return };
        connection.acknowledged(bytes);
        // A head under way keeps its own deadline: acknowledging is no excuse for sending slowly.
        if !matches!(connection.phase, Phase::Head | Phase::Lingering) {
            connection.since_ms = now_ms;
        }
        let is_waiting = connection.extra.is_some();
        self.settle_pieces(id);
        if is_waiting {
            self.advance(id, context);
        }
        if !self.window_queue.is_empty() {
            self.serve_window_queue(QUEUED_LOOKED_AT, context);
        }
    }

    /// Whether there is memory for another window or piece.
    fn has_any_window(&self) -> bool {
        match &self.desk {
            Some(desk) => desk.has_any(),
            None => self.windows.in_use() < self.config.windows_max,
        }
    }

    /// Windows may have come home: gives them to those who wait, in order, but for those whose peers hold their share. At most
    /// `most` of them are looked at, because many such may wait.
    pub(super) fn serve_window_queue<C: Commands>(&mut self, most: usize, context: &mut C) {
        let mut index = 0;
        for _ in 0..self.window_queue.len().min(most) {
            if !self.has_any_window() {
                return;
            }
            let Some(id) = self.window_queue.get(index).copied() else { return };
            let waiting = self.connections.get(id).filter(|connection| connection.extra.is_some());
            if let Some(connection) = waiting {
                let peer = connection.peer.ip().into();
                let has_room = match &self.desk {
                    Some(desk) => desk.has_room(peer),
                    None => self.windows.has_room(peer),
                };
                if !has_room {
                    index += 1;
                    continue;
                }
                connection.extra().queued_for_window = false;
            }
            self.window_queue.remove(index);
            self.advance(id, context);
        }
    }

    /// A reader has read a piece of a file.
    pub(super) fn on_read<C: Commands>(&mut self, token: usize, bytes: std::io::Result<Bytes>, context: &mut C) {
        let (seconds, now_ms) = (self.seconds(context.now()), milliseconds(context.now()));
        for Delivery { connection: id, start, bytes } in self.file_reads.done(token, bytes, seconds) {
            let Some(connection) = self.connections.get(id) else { continue };
            match bytes {
                Ok(bytes) => {
                    connection.since_ms = now_ms;
                    connection.take_window(start, bytes);
                    self.advance(id, context);
                }
                // The file shrank or the disk failed: the promised length can't be kept, and a reset is the only way to
                // say so (RFC 9112, 8).
                Err(_) if connection.extra.is_some() => {
                    self.figures.stream_errors += 1;
                    self.abort(id, context);
                }
                Err(_) => {}
            }
        }
    }
}
