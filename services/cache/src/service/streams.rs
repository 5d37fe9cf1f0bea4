//! Connections: bytes in, answers out, and who has to wait.

use super::CacheService;
use super::connection::Connection;
use qanat::{Chunk, CommandError, Commands, ConnectionId, Setting};
use std::time::Duration;

/// A client that does not take its answers is not read from while it is owed more than this, or more than its share if they are many.
const OWED_BYTES_MAX: u64 = 1 << 20;
const OWED_BYTES_MIN: u64 = 64 << 10;
/// The part of the memory that all clients together may be owed, as long as their shares are not smaller than the least.
const OWED_SHARE: u64 = 2;
/// A client that takes nothing, or goes on with nothing, for so long may be closed if its memory is needed.
const STALLED: Duration = Duration::from_secs(1);
/// And one that holds some for so long, and moves less than so much meanwhile: a byte now and then is no progress.
const HOLDING: Duration = Duration::from_secs(10);
const HOLDING_BYTES: u64 = 64 << 10;
/// Steps of one client before others are served: chunks, or parts of a request that takes long.
const STEPS_MAX: usize = 16;
/// The part of the memory that may be on its way before such clients are closed.
const DETACHED_SHARE: u64 = 4;

impl CacheService {
    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id.index()).filter(|connection| connection.id == Some(id))
    }

    pub(super) fn accepted(&mut self, id: ConnectionId, context: &mut impl Commands) {
        let slot = id.index();
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, Connection::default);
        }
        let settings = &self.engine.settings;
        if self.engine.connections.open >= settings.connections_max as u64 {
            self.engine.connections.rejected += 1;
            // A connection that is gone already says so by its last event.
            let _ = context.refuse(id);
            return;
        }
        let is_authenticated = settings.users.is_empty();
        if let Some(place) = self.connections.get_mut(slot) {
            *place = Connection::new(id, is_authenticated, context.now());
        }
        self.engine.connections.open += 1;
        self.engine.connections.total += 1;
        let _ = context.set(id, Setting::NoDelay(true));
    }

    pub(super) fn closed(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection(id) {
            *connection = Connection::default();
            self.engine.connections.open -= 1;
        }
    }

    pub(super) fn data(&mut self, id: ConnectionId, chunk: Chunk, context: &mut impl Commands) {
        self.engine.connections.input_bytes += chunk.len() as u64;
        let now = context.now();
        let Some(connection) = self.connection(id) else { return context.consume(id, chunk) };
        connection.moved_at = now;
        connection.moved_bytes += chunk.len() as u64;
        let waits = !connection.held.is_empty() || connection.session.has_more();
        connection.held.push_back((chunk, 0));
        if !waits {
            self.go_on(id, context);
        }
    }

    /// Executes what is held, for as long as the client takes its answers, or others have waited long enough.
    pub(super) fn go_on(&mut self, id: ConnectionId, context: &mut impl Commands) {
        let share = self.engine.items.bytes_max() / OWED_SHARE / self.engine.connections.open.max(1);
        let owed_max = share.clamp(OWED_BYTES_MIN, OWED_BYTES_MAX);
        for _ in 0..STEPS_MAX {
            let Some(connection) = self.connections.get_mut(id.index()).filter(|it| it.id == Some(id)) else { return };
            if connection.backlog() > owed_max {
                return;
            }
            let (is_done, chunk) = match connection.held.front_mut() {
                Some((chunk, offset)) => {
                    let bytes = chunk.bytes().get(*offset..).unwrap_or_default();
                    let length = bytes.len();
                    let used = connection.session.feed(bytes, &mut self.engine, &mut self.output);
                    *offset += used;
                    (false, if used == length { connection.held.pop_front() } else { None })
                }
                None if connection.session.has_more() => {
                    connection.session.feed(&[], &mut self.engine, &mut self.output);
                    (false, None)
                }
                None => (true, None),
            };
            for piece in self.output.take() {
                connection.queued += piece.len() as u64;
                connection.output.push_back(piece);
            }
            chunk.into_iter().for_each(|(chunk, _)| context.consume(id, chunk));
            self.flush(id, context);
            if is_done {
                return self.settle(id, context);
            }
        }
        if let Some(connection) = self.connection(id).filter(|connection| !connection.is_unfinished) {
            connection.is_unfinished = true;
            self.unfinished.push_back(id);
        }
    }

    /// Those who had to let others go first.
    pub(super) fn resume(&mut self, context: &mut impl Commands) {
        for _ in 0..self.unfinished.len() {
            let Some(id) = self.unfinished.pop_front() else { return };
            self.connection(id).into_iter().for_each(|connection| connection.is_unfinished = false);
            self.go_on(id, context);
        }
    }

    /// Gives the stack what it has room for.
    fn flush(&mut self, id: ConnectionId, context: &mut impl Commands) {
        let Some(connection) = self.connections.get_mut(id.index()).filter(|it| it.id == Some(id)) else { return };
        while let Some(piece) = connection.output.pop_front() {
            let length = piece.len() as u64;
            match context.send(id, piece.clone()) {
                Ok(()) => {
                    connection.queued -= length;
                    connection.unacknowledged += length;
                    self.engine.connections.output_bytes += length;
                }
                // It is tried again when the peer has acknowledged something.
                Err(CommandError::Full) => {
                    connection.output.push_front(piece);
                    return;
                }
                // It is gone, or sends no more: nobody will have it.
                Err(_) => {
                    connection.output.clear();
                    connection.queued = 0;
                }
            }
        }
    }

    pub(super) fn acknowledged(&mut self, id: ConnectionId, bytes: u32, context: &mut impl Commands) {
        let now = context.now();
        let Some(connection) = self.connection(id) else { return };
        connection.moved_at = now;
        connection.moved_bytes += u64::from(bytes);
        connection.unacknowledged = connection.unacknowledged.saturating_sub(u64::from(bytes));
        if !connection.output.is_empty() {
            self.flush(id, context);
        }
        let Some(connection) = self.connection(id) else { return };
        if !connection.held.is_empty() || connection.session.has_more() {
            self.go_on(id, context);
        }
    }

    pub(super) fn peer_closed(&mut self, id: ConnectionId, context: &mut impl Commands) {
        if let Some(connection) = self.connection(id) {
            connection.peer_closed = true;
            self.settle(id, context);
        }
    }

    /// Closes a connection of which nothing more is to come: its session is over, or its peer has said all and has its answers.
    fn settle(&mut self, id: ConnectionId, context: &mut impl Commands) {
        let Some(connection) = self.connection(id) else { return };
        let has_said_all = connection.peer_closed && connection.held.is_empty() && !connection.session.has_more();
        let is_over = (connection.session.is_over() || has_said_all) && connection.output.is_empty();
        if is_over && !connection.is_closing {
            connection.is_closing = true;
            // One that is gone already says so by its last event.
            let _ = context.close(id);
        }
    }

    /// Closes those who say nothing, and those who hold memory that others need.
    pub(super) fn look_after(&mut self, context: &mut impl Commands) {
        let (now, settings) = (context.now(), &self.engine.settings);
        let idle = Duration::from_secs(u64::from(settings.idle_timeout_s));
        let is_scarce = self.engine.items.detached() > self.engine.items.bytes_max() / DETACHED_SHARE;
        if idle.is_zero() && !is_scarce {
            return;
        }
        let quiet = |connection: &Connection| now.since(connection.moved_at);
        if !idle.is_zero() {
            for connection in &self.connections {
                if let (Some(id), true) = (connection.id, quiet(connection) > idle) {
                    self.idle_closed += 1;
                    let _ = context.abort(id);
                }
            }
        }
        if !is_scarce {
            return;
        }
        for connection in &mut self.connections {
            let has_moved = connection.moved_bytes >= HOLDING_BYTES;
            if !connection.holds_memory() {
                connection.holds_since = None;
            } else if connection.holds_since.is_none() || has_moved {
                (connection.holds_since, connection.moved_bytes) = (Some(connection.moved_at), 0);
            }
        }
        let holding = self.connections.iter().filter_map(|it| Some((it.holds_since?, it)));
        let slow = holding.filter(|(since, it)| quiet(it) > STALLED || now.since(*since) > HOLDING);
        if let Some(id) = slow.min_by_key(|(since, _)| *since).and_then(|(_, connection)| connection.id) {
            self.engine.connections.slow += 1;
            let _ = context.abort(id);
        }
    }
}
