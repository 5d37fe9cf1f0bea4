//! [`State`]: all that commands work on.

use crate::engine::listening::channels::Channels;
use crate::engine::observed::Observed;
use crate::engine::pause::Pause;
use crate::engine::pool::Pool;
use crate::engine::session::Sessions;
use crate::engine::settings::{Settings, Statistics};
use crate::engine::tracking::Tracking;
use crate::engine::users::roster::Users;
use crate::keyspace::space::Keyspace;
use crate::scripts::store::Scripts;
use bytes::Bytes;

/// See [`State::outbox_max`].
const OUTBOX_MAX: usize = 8 << 20;

/// What the log says of itself, for those who ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogState {
    /// Bytes of the log: those in use, and all.
    pub bytes: (u64, u64),
    /// A checkpoint is under way, or is to begin.
    pub is_checkpointing: bool,
    /// A client wants one: it begins when the turn ends.
    pub is_checkpoint_wanted: bool,
    /// Checkpoints made since the start.
    pub checkpoints: u64,
    /// When the last of them was complete, Unix time.
    pub checkpointed_ms: Option<i64>,
    /// Whether the last one that was tried is there.
    pub checkpoint_failed: bool,
    /// Nothing more is acknowledged.
    pub has_failed: bool,
    /// Bytes that writes may take of it now.
    pub room: u64,
    /// The same, for those that make no key larger.
    pub room_to_shrink: u64,
    /// Writes that were refused: there was no room.
    pub refused: u64,
    /// Batches made durable.
    pub batches: u64,
}

impl LogState {
    /// Of a store that keeps nothing: writes have all the room that there is.
    pub fn none() -> LogState {
        LogState { room: u64::MAX, room_to_shrink: u64::MAX, ..LogState::default() }
    }
}

/// What something that is sent to another client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// It leaves at once.
    No,
    /// It is the answer to a request, and was caused by a change: it waits for that.
    Answer,
    /// The same, and nobody has asked for it.
    Message,
}

/// All that commands work on. One thread's.
#[derive(Debug)]
pub struct State {
    /// Keys and values.
    pub keyspace: Keyspace,
    /// Clients.
    pub sessions: Sessions,
    /// Who listens.
    pub channels: Channels,
    /// Who may do what.
    pub users: Users,
    /// Which client has read which key, and wants to know when it changes.
    pub tracking: Tracking,
    /// Whether clients have to wait.
    pub pause: Pause,
    /// Scripts that are remembered.
    pub scripts: Scripts,
    /// Settings.
    pub settings: Settings,
    /// Counters.
    pub statistics: Statistics,
    /// What is noted of commands.
    pub observed: Observed,
    /// Keys that may be the next to go if there is too little memory.
    pub pool: Pool,
    /// The log, as of this turn.
    pub log: LogState,
    /// What others are to be sent: the client's slot, and replies.
    pub outbox: Vec<(usize, Bytes, Waits)>,
    /// So many of them wait at most, until the command or the script that causes them has ended.
    pub outbox_max: usize,
    /// When it started (Unix, ms).
    pub started_ms: i64,
    /// Chance.
    pub random: fastrand::Rng,
    /// Clients that have been blocked so far.
    pub turns: u64,
    /// Clients that wait for a key.
    pub blocked: usize,
    /// This client asked for a flush now (WAITAOF).
    pub waits_for_log: bool,
    /// The log is being recovered: there are no keys yet.
    pub is_loading: bool,
    /// A script executes the command that is executed.
    pub is_in_script: bool,
    /// Some clients are to be closed at once.
    pub kills: bool,
}

impl State {
    /// With no keys and no clients; `seed`: chance.
    pub fn new(settings: Settings, seed: u64) -> State {
        State {
            keyspace: Keyspace::default(),
            sessions: Sessions::default(),
            channels: Channels::default(),
            users: Users::default(),
            tracking: Tracking::default(),
            pause: Pause::default(),
            scripts: Scripts::default(),
            settings,
            statistics: Statistics::default(),
            observed: Observed::default(),
            pool: Pool::default(),
            log: LogState::default(),
            outbox: Vec::new(),
            outbox_max: OUTBOX_MAX,
            started_ms: 0,
            random: fastrand::Rng::with_seed(seed),
            turns: 0,
            blocked: 0,
            waits_for_log: false,
            is_loading: false,
            is_in_script: false,
            kills: false,
        }
    }
}
