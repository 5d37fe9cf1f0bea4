//! From received chunks to executed requests: in place if a request came in one chunk, gathered otherwise.

use super::KvService;
use crate::commands::serving;
use crate::engine::execute::{execute, is_held};
use crate::engine::guard;
use crate::journal::News;
use crate::keyspace::text::TEXT_BYTES_MAX;
use crate::resp::request::{Args, Request, Step};
use qanat::{Chunk, Commands, ConnectionId, StorageCommands};

/// A client that does not take its answers is not read from while it is owed more than this.
const OWED_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a request that has come in part, at most, and of those of all clients together.
const GATHERED_BYTES_MAX: usize = 128 << 20;
const GATHERED_BYTES_OF_ALL_MAX: usize = 1 << 30;
/// More than this is not kept for the next request.
const GATHERED_BYTES_KEPT: usize = 64 << 10;

/// What was executed of some input.
#[derive(Default)]
struct Done {
    /// Bytes of it that were used.
    used: usize,
    answers: u32,
    has_failed: bool,
}

impl KvService {
    pub(super) fn data<C: Commands + StorageCommands>(&mut self, id: ConnectionId, chunk: Chunk, context: &mut C) {
        self.state.statistics.input_bytes += chunk.len() as u64;
        let slot = id.index();
        let is_paused = self.state.sessions.get(slot).is_some_and(|session| session.is_paused);
        match self.connection(id) {
            None => context.consume(id, chunk),
            Some(connection) if is_paused || !connection.held.is_empty() => connection.held.push_back((chunk, 0)),
            Some(_) => {
                self.feed(id, chunk, 0, context);
                self.settle(slot, context);
            }
        }
    }

    /// Goes on with chunks that were held, while the client may go on.
    pub(super) fn resume<C: Commands + StorageCommands>(&mut self, slot: usize, context: &mut C) {
        while self.goes_on(slot)
            && let Some(connection) = self.connections.get_mut(slot)
            && let Some(id) = connection.id
        {
            // What was gathered may have whole requests that were not executed yet.
            if !connection.gathered.is_empty() {
                self.gather(slot, &[], context);
                if !self.goes_on(slot) {
                    break;
                }
            }
            let Some((chunk, offset)) = self.connections.get_mut(slot).and_then(|it| it.held.pop_front()) else {
                break;
            };
            self.feed(id, chunk, offset, context);
        }
        self.settle(slot, context);
    }

    /// Whether requests of a client are executed now.
    fn goes_on(&mut self, slot: usize) -> bool {
        let is_free = self.state.sessions.get(slot).is_some_and(|session| {
            session.blocked.is_none() && !session.is_ending && !session.is_killed && !session.is_paused
        });
        let owes = self.connections.get(slot).is_some_and(|connection| connection.backlog() > OWED_BYTES_MAX);
        let is_busy = self.journal.as_ref().is_some_and(crate::journal::Journal::is_busy);
        if is_free && !owes && is_busy && !self.stalled.contains(&slot) {
            self.stalled.push(slot);
        }
        is_free && !owes && !is_busy
    }

    fn feed<C: Commands + StorageCommands>(&mut self, id: ConnectionId, chunk: Chunk, offset: usize, context: &mut C) {
        let slot = id.index();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let bytes = chunk.bytes().get(offset..).unwrap_or_default();
        let used = match connection.gathered.is_empty() {
            false => {
                self.gather(slot, bytes, context);
                bytes.len()
            }
            true => {
                let mut request = std::mem::take(&mut connection.request);
                let done = self.requests(slot, &mut request, bytes, context);
                let rest = bytes.get(done.used..).unwrap_or_default();
                let waits = !rest.is_empty() && !self.goes_on(slot);
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.request = request;
                    if !waits && !rest.is_empty() {
                        connection.gathered.extend_from_slice(rest);
                        self.gathered_bytes += rest.len();
                    }
                }
                self.finish(slot, done.answers, done.has_failed, context);
                if waits { done.used } else { bytes.len() }
            }
        };
        if used < bytes.len() {
            // It is the first again: what came later is behind it.
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.held.push_front((chunk, offset + used));
            }
            return;
        }
        context.consume(id, chunk);
    }

    /// Adds to what was gathered, and executes what is whole of it.
    fn gather<C: Commands + StorageCommands>(&mut self, slot: usize, bytes: &[u8], context: &mut C) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.gathered.extend_from_slice(bytes);
        self.gathered_bytes += bytes.len();
        let is_too_much =
            connection.gathered.len() > GATHERED_BYTES_MAX || self.gathered_bytes > GATHERED_BYTES_OF_ALL_MAX;
        if is_too_much {
            self.state.statistics.refused += 1;
            self.state.sessions.get_mut(slot).into_iter().for_each(|session| session.is_killed = true);
            self.state.kills = true;
            return;
        }
        if connection.gathered.len() < connection.request.wanted() {
            return;
        }
        let (mut gathered, mut request) =
            (std::mem::take(&mut connection.gathered), std::mem::take(&mut connection.request));
        let done = self.requests(slot, &mut request, &gathered, context);
        gathered.drain(..done.used);
        if gathered.is_empty() {
            gathered.shrink_to(GATHERED_BYTES_KEPT);
        }
        self.gathered_bytes -= done.used;
        if let Some(connection) = self.connections.get_mut(slot) {
            (connection.gathered, connection.request) = (gathered, request);
        }
        self.finish(slot, done.answers, done.has_failed, context);
    }

    /// Executes the requests that are whole in `input`, as long as the client may go on.
    fn requests<C: Commands + StorageCommands>(
        &mut self,
        slot: usize,
        request: &mut Request,
        input: &[u8],
        context: &mut C,
    ) -> Done {
        let mut done = Done::default();
        // Each round uses bytes of the input, or ends it.
        while self.goes_on(slot) {
            let rest = input.get(done.used..).unwrap_or_default();
            request.set_stranger(guard::is_stranger(&self.state, slot));
            match request.advance(rest, TEXT_BYTES_MAX) {
                Ok(Step::Incomplete) => break,
                Ok(Step::Complete(used)) => {
                    let args = request.args(rest);
                    if is_held(&self.state, slot, &args) {
                        // It is looked at again when clients go on.
                        request.clear();
                        self.pause(slot);
                        break;
                    }
                    if !args.is_empty() {
                        done.answers += 1;
                        done.has_failed |= self.execute(slot, args, context);
                    }
                    done.used += used;
                    request.clear();
                }
                Err(error) => {
                    self.reply.error(&format!("ERR Protocol error: {error}"));
                    done.answers += 1;
                    done.used = input.len();
                    request.clear();
                    self.end(slot);
                }
            }
        }
        done
    }

    /// A client waits until clients go on.
    fn pause(&mut self, slot: usize) {
        self.state.sessions.get_mut(slot).into_iter().for_each(|session| session.is_paused = true);
        self.paused.push(slot);
    }

    /// Those who had to wait go on, if they may.
    pub(super) fn unpause(&mut self) {
        if self.paused.is_empty() || self.state.pause.is_on(self.state.keyspace.now_ms) {
            return;
        }
        for slot in std::mem::take(&mut self.paused) {
            self.state.sessions.get_mut(slot).into_iter().for_each(|session| session.is_paused = false);
            self.woken.push_back(slot);
        }
    }

    /// Executes a request; whether its changes could not be written down.
    fn execute<C: Commands + StorageCommands>(&mut self, slot: usize, args: Args<'_>, context: &mut C) -> bool {
        let now_ms = self.state.keyspace.now_ms;
        self.state.sessions.get_mut(slot).into_iter().for_each(|session| session.last_ms = now_ms);
        execute(&mut self.state, slot, args, &mut self.reply);
        serving::serve(&mut self.state);
        self.commit_wanted |= self.state.waits_for_log;
        let had_failed = self.state.log.has_failed;
        self.record(context);
        self.deliver(context);
        !had_failed && self.state.log.has_failed
    }

    /// Writes down what has changed.
    pub(super) fn record<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        if self.state.keyspace.record().is_empty() {
            return;
        }
        let Some(journal) = &mut self.journal else { return self.state.keyspace.clear_record() };
        let news = journal.append(&mut self.state.keyspace, context);
        journal.tell(&self.state.keyspace, &mut self.state.log);
        if let Some(News::Failed(error)) = news {
            self.failed(&error, context);
        }
    }
}
