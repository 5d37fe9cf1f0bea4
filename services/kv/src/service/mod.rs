//! [`KvService`]: connections, requests, and which answer waits for which record.

mod connection;
mod input;
mod output;
mod questions;
pub mod users_file;

use crate::commands::serving;
use crate::engine::listening::leaving;
use crate::engine::settings::{Durability, Settings};
use crate::engine::state::{LogState, State};
use crate::engine::users::digest::Digest;
use crate::engine::users::roster::Chance;
use crate::engine::users::user::User;
use crate::engine::watching::unwatch;
use crate::engine::{eviction, guard, invalidation, observer};
use crate::export::keys::KvDesk;
use crate::figures::Figures;
use crate::journal::{Journal, News};
use crate::resp::reply::Reply;
use crate::table::table;
use connection::Connection;
use qanat::{
    AreaId, Commands, ConnectionId, Context, Doorbell, Event, ListenOptions, ListenerId, Service, Setting, StartError,
    StorageCommands, Time,
};
use questions::Questions;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often keys expire, and those who wait are looked at.
const TICK: Duration = Duration::from_millis(100);
/// The same, if somebody waits.
const TICK_WAITING: Duration = Duration::from_millis(10);
/// How often the progress of recovery is told.
const PROGRESS: Duration = Duration::from_secs(1);
const TICK_TOKEN: u64 = 1;

/// What a store is made of.
#[derive(Clone, Debug)]
pub struct KvConfig {
    /// The area that its log is on, if its settings want one.
    pub area: AreaId,
    /// Also at IPv6 addresses.
    pub serves_six: bool,
    /// Settings to begin with.
    pub settings: Settings,
    /// 16 random bytes: what a log is known by, if it is made now.
    pub identity: [u8; 16],
    /// Chance.
    pub seed: u64,
    /// The password of who says no name; `None`: there is none.
    pub password: Option<Digest>,
    /// Users that there are besides, or in place of who says no name: [`users_of`](crate::users_of) reads them.
    pub users: Vec<User>,
    /// The file that they are from: `ACL LOAD` reads it, and `ACL SAVE` replaces it.
    pub users_file: Option<PathBuf>,
}

/// A store.
#[derive(Debug)]
pub struct KvService {
    config: KvConfig,
    state: State,
    /// `None`: it has not started, or keeps nothing.
    journal: Option<Journal>,
    /// Where answers are written, of one connection after the other.
    reply: Reply,
    connections: Vec<Connection>,
    /// Connections with answers that wait for the log.
    gated: Vec<usize>,
    /// Connections that may go on: the log is not busy any more, or what they waited for has come.
    woken: VecDeque<usize>,
    /// Connections that wait until the log is not busy.
    stalled: Vec<usize>,
    /// Connections that wait until clients go on (`CLIENT PAUSE`).
    paused: Vec<usize>,
    /// Bytes of requests that have come in part, of all connections.
    gathered_bytes: usize,
    /// Somebody asked for a flush.
    commit_wanted: bool,
    /// The time of the loop, and the time of day then (Unix, ms).
    wall: (Time, i64),
    listeners: Vec<ListenerId>,
    notes: Vec<String>,
    noted_at: Time,
    idle_looked_ms: i64,
    is_stopping: bool,
    is_sealed: bool,
    /// Of an export.
    questions: Option<Questions>,
}

fn time_of_day_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Nanoseconds since the first call.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Who may do what, from the beginning on.
fn put_users(state: &mut State, config: &KvConfig) {
    for user in &config.users {
        // There are no more than a file may have.
        guard::put_user(state, user.clone());
    }
    if let (Some(password), Some(user)) = (config.password, state.users.get(0)) {
        let mut user = User { needs_no_password: false, ..user.clone() };
        user.add_password(password);
        guard::put_user(state, user);
    }
    state.users.file = config.users_file.as_deref().map(users_file::open);
    // Without it no passwords are made.
    state.users.chance = qanat::entropy().ok().map(Chance::new);
    state.kills = false;
}

impl KvService {
    /// A store that opens its log when it starts.
    pub fn new(config: KvConfig) -> KvService {
        table();
        let mut state = State::new(config.settings.clone(), config.seed);
        state.is_loading = config.settings.has_log;
        if !config.settings.has_log {
            state.log = LogState::none();
        }
        state.observed.clock = Some(now_ns);
        eviction::configure(&mut state);
        put_users(&mut state, &config);
        KvService {
            config,
            state,
            journal: None,
            reply: Reply::default(),
            connections: Vec::new(),
            gated: Vec::new(),
            woken: VecDeque::new(),
            stalled: Vec::new(),
            paused: Vec::new(),
            gathered_bytes: 0,
            commit_wanted: false,
            wall: (Time::ZERO, 0),
            listeners: Vec::new(),
            notes: Vec::new(),
            noted_at: Time::ZERO,
            idle_looked_ms: 0,
            is_stopping: false,
            is_sealed: false,
            questions: None,
        }
    }

    /// The same, and it answers what is asked at this desk when the doorbell was rung.
    #[must_use]
    pub fn with_desk(self, desk: KvDesk, doorbell: Doorbell) -> KvService {
        KvService { questions: Some(Questions::new(desk, doorbell)), ..self }
    }

    /// What wakes it besides packets.
    pub fn desk_bell(&self) -> Option<&Doorbell> {
        self.questions.as_ref().map(Questions::doorbell)
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        let (statistics, log) = (&self.state.statistics, &self.state.log);
        Figures {
            commands: statistics.commands,
            errors: statistics.errors,
            connections: statistics.connections,
            connections_open: self.state.sessions.len() as u64,
            refused: statistics.refused,
            input_bytes: statistics.input_bytes,
            output_bytes: statistics.output_bytes,
            keys: self.state.keyspace.len() as u64,
            data_bytes: self.state.keyspace.bytes() as u64,
            log_bytes: log.bytes.0,
            batches: log.batches,
            checkpoints: log.checkpoints,
            memory_bytes: self.state.keyspace.memory() as u64,
            evicted: self.state.pool.evicted,
            writes_refused: log.refused,
            log_failed: log.has_failed,
        }
    }

    /// News for the operator since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id.index()).filter(|connection| connection.id == Some(id))
    }

    /// The time of day, as of this turn.
    fn set_time(&mut self, now: Time) {
        let (at, ms) = self.wall;
        self.state.keyspace.now_ms = ms + now.since(at).as_millis() as i64;
    }

    fn accepted<C: Commands + StorageCommands>(&mut self, id: ConnectionId, peer: SocketAddr, context: &mut C) {
        let slot = id.index();
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, Connection::default);
        }
        if let Some(place) = self.connections.get_mut(slot) {
            *place = Connection::new(id);
        }
        self.state.sessions.insert(slot, peer, self.state.keyspace.now_ms);
        // A connection that is gone already says so by its last event.
        let _ = context.set(id, Setting::NoDelay(true));
        if self.state.sessions.len() > self.state.settings.clients_max {
            self.state.statistics.refused += 1;
            self.reply.error("ERR max number of clients reached");
            self.end(slot);
            self.finish(slot, 1, false, context);
            return;
        }
        self.state.statistics.connections += 1;
    }

    /// A client is closed when it has what it is owed.
    fn end(&mut self, slot: usize) {
        self.state.sessions.get_mut(slot).into_iter().for_each(|session| session.is_ending = true);
    }

    fn closed(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection(id) {
            let gathered = connection.gathered.len();
            *connection = Connection::default();
            self.gathered_bytes -= gathered;
            let slot = id.index();
            self.depart(slot);
            self.state.sessions.remove(slot);
        }
    }

    /// A client is told nothing more, and keeps nothing: it is gone, or has what it was owed. Its peer may not close for long.
    fn depart(&mut self, slot: usize) {
        leaving::leave(&mut self.state, slot);
        observer::leave(&mut self.state, slot);
        invalidation::leave(&mut self.state, slot);
        self.paused.retain(|paused| *paused != slot);
        unwatch(&mut self.state, slot);
        serving::unblock(&mut self.state, slot);
    }

    /// Hears what the log has to say.
    fn hear<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        loop {
            let Some(journal) = &mut self.journal else { return };
            match journal.next(&mut self.state.keyspace, context) {
                None => return,
                Some(News::Recovered(recovered)) => {
                    self.state.is_loading = false;
                    let keys = self.state.keyspace.len();
                    let torn = if recovered.was_torn { "; its end was torn by a crash and cut off" } else { "" };
                    self.notes.push(match recovered.is_new {
                        true => "a new store was made".to_owned(),
                        false => format!("{keys} keys are there, from {} records{torn}", recovered.records),
                    });
                }
                Some(News::Durable) => self.durable(context),
                Some(News::Failed(error)) => self.failed(&error, context),
            }
        }
    }

    fn durable<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        let flushed = self.journal.as_mut().and_then(|journal| journal.take_flushed(context.now()));
        if let Some(took) = flushed.filter(|_| self.state.settings.durability == Durability::Always) {
            observer::note_latency(&mut self.state, "aof-fsync-always", took.as_micros() as u64);
        }
        for slot in std::mem::take(&mut self.gated) {
            self.connections.get_mut(slot).into_iter().for_each(|connection| connection.is_gated = false);
            self.flush(slot, context);
        }
        self.release();
        if self.journal.as_ref().is_some_and(|journal| !journal.is_busy()) {
            self.woken.extend(self.stalled.drain(..));
        }
    }

    fn failed<C: Commands + StorageCommands>(&mut self, error: &qanat_store::StoreError, context: &mut C) {
        self.notes.push(format!("the log has failed, and no write is acknowledged any more: {error}"));
        self.state.log.has_failed = true;
        self.state.is_loading = false;
        self.questions.iter_mut().for_each(Questions::disappoint);
        // Messages of changes that are in memory lay among the answers that are not sent now.
        invalidation::forget_all(&mut self.state);
        self.woken.extend(self.stalled.drain(..));
        for slot in std::mem::take(&mut self.gated) {
            self.connections.get_mut(slot).into_iter().for_each(|connection| connection.is_gated = false);
            self.disappoint(slot);
            self.flush(slot, context);
        }
    }

    fn tick<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        let now = context.now();
        self.wall = (now, time_of_day_ms());
        self.set_time(now);
        serving::expire(&mut self.state);
        let is_ready = self.journal.as_ref().is_none_or(Journal::is_ready);
        let is_paused = self.state.pause.is_on(self.state.keyspace.now_ms);
        if is_ready && !is_paused && self.state.log.room_to_shrink > 0 {
            observer::timed(&mut self.state, "expire-cycle", |State { keyspace, random, .. }| {
                keyspace.expire_some(random)
            });
            eviction::tick(&mut self.state);
            serving::serve(&mut self.state);
        }
        let observed = &mut self.state.observed;
        observed.memory_peak = observed.memory_peak.max(self.state.keyspace.memory());
        self.record(context);
        self.deliver(context);
        self.close_idle(context);
        if self.state.is_loading && now.since(self.noted_at) >= PROGRESS {
            self.noted_at = now;
            let progress = self.journal.as_ref().map_or(0, Journal::progress) >> 20;
            self.notes.push(format!("recovering: {progress} MiB of the log, {} keys", self.state.keyspace.len()));
        }
        self.arm(context);
    }

    fn arm<C: Commands>(&mut self, context: &mut C) {
        let after = if self.state.blocked > 0 || !self.paused.is_empty() { TICK_WAITING } else { TICK };
        // A stack without timers left has more than this one to wait for; the next connection tries again.
        let _ = context.set_timer(after, TICK_TOKEN);
    }

    fn close_idle<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        let (now, timeout) = (self.state.keyspace.now_ms, i64::from(self.state.settings.timeout_s) * 1_000);
        if timeout == 0 || now - self.idle_looked_ms < 1_000 {
            return;
        }
        self.idle_looked_ms = now;
        for (_, session) in self.state.sessions.iter_mut() {
            let is_idle = now - session.last_ms > timeout
                && session.subscriptions() == 0
                && session.blocked.is_none()
                && !session.is_paused;
            session.is_killed |= is_idle;
        }
        self.state.kills = true;
        self.kill(context);
    }

    /// Resets those who are to be closed at once.
    fn kill<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        if !std::mem::take(&mut self.state.kills) {
            return;
        }
        let killed = self.state.sessions.iter().filter(|(_, session)| session.is_killed);
        for slot in killed.map(|(slot, _)| slot).collect::<Vec<_>>() {
            if let Some(id) = self.connections.get(slot).and_then(|connection| connection.id) {
                // One that is gone already says so by its last event.
                let _ = context.abort(id);
            }
        }
    }

    fn on<C: Commands + StorageCommands>(&mut self, event: Event, context: &mut C) {
        self.set_time(context.now());
        let others = match &mut self.journal {
            Some(journal) => journal.handle(event, context),
            None => Some(event),
        };
        let Some(event) = others else { return self.hear(context) };
        match event {
            Event::Accepted { connection, peer, .. } => self.accepted(connection, peer, context),
            Event::Data { connection, chunk } => self.data(connection, chunk, context),
            Event::Acked { connection, bytes } => self.acked(connection, bytes, context),
            Event::PeerClosed { connection } => {
                self.connection(connection).into_iter().for_each(|connection| connection.peer_closed = true);
                self.settle(connection.index(), context);
            }
            Event::Closed { connection, .. } => self.closed(connection),
            Event::Timer { token: TICK_TOKEN, .. } => self.tick(context),
            _ => {}
        }
    }

    fn turn<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        self.unpause();
        while let Some(slot) = self.woken.pop_front() {
            self.resume(slot, context);
        }
        self.kill(context);
        let how = (self.state.settings.durability, std::mem::take(&mut self.commit_wanted), context.now());
        let State { keyspace, log, observed, .. } = &mut self.state;
        observed.buffers = self.gathered_bytes as u64 + self.journal.as_ref().map_or(0, Journal::waiting_bytes);
        if let Some(journal) = &mut self.journal {
            if std::mem::take(&mut log.is_checkpoint_wanted) {
                journal.want_checkpoint();
            }
            let news = journal.turn_ended(keyspace, how, context);
            journal.tell(keyspace, log);
            if let Some(News::Failed(error)) = news {
                self.failed(&error, context);
            }
        }
        if self.is_stopping {
            self.seal(context);
        }
        self.hear(context);
    }

    /// What was acknowledged is durable, and so is what was not waited for.
    fn seal<C: Commands + StorageCommands>(&mut self, context: &mut C) {
        let Some(journal) = &mut self.journal else {
            self.is_sealed = true;
            return;
        };
        if !self.is_sealed {
            let was_idle = journal.is_idle();
            journal.seal(context);
            self.is_sealed = was_idle;
        }
    }
}

impl Service for KvService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        self.wall = (context.now(), time_of_day_ms());
        self.noted_at = context.now();
        self.set_time(context.now());
        self.state.started_ms = self.state.keyspace.now_ms;
        if self.config.settings.has_log {
            let opened = Journal::open(self.config.area, self.config.identity, context);
            self.journal = Some(opened.map_err(StartError::of)?);
        }
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        addresses.extend(self.config.serves_six.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
        for address in addresses {
            let local = SocketAddr::new(address, self.state.settings.port);
            self.listeners.push(context.listen(local, ListenOptions::default()).map_err(StartError::at(local))?);
        }
        self.arm(context);
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.on(event, context);
    }

    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.turn(context);
    }

    fn doorbell(&mut self, _token: u64, context: &mut Context<'_>) {
        self.set_time(context.now());
        let gate = self.gate();
        self.questions.iter_mut().for_each(|questions| questions.hear(&self.state, gate));
        self.release();
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        self.is_stopping = true;
        for listener in std::mem::take(&mut self.listeners) {
            // It is there, or the card is gone.
            let _ = context.close_listener(listener);
        }
        self.seal(context);
        self.hear(context);
    }

    fn is_finished(&self) -> bool {
        self.is_sealed && self.journal.as_ref().is_none_or(Journal::is_idle)
            || self.journal.as_ref().is_some_and(|journal| !journal.is_ready())
    }
}
