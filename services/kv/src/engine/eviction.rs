//! Keys that go because there is too little memory. They are deleted as a client would: the deletion is part of the record of the command
//! that needed the room, so a crash brings back both or none.

use crate::engine::command::{Command, Flags};
use crate::engine::fault::Fault;
use crate::engine::observer;
use crate::engine::operating::Policy;
use crate::engine::state::State;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::space::DATABASES;

/// Keys that go before one command, at most. One that needs more is executed all the same, and the next ones go on.
const KEYS_A_COMMAND: usize = 64;
/// Keys that go at a tick, at most.
const KEYS_A_TICK: usize = 1_024;
/// No more go before one command if the record has so many bytes.
const RECORD_BYTES: usize = 1 << 20;
/// What a deletion needs of the log besides the key, with what its record needs.
const DELETION_BYTES: usize = 16 << 10;
/// Samples at most, whatever the setting.
const SAMPLES_MAX: usize = 1_024;
/// How often samples are taken for one key, if all that was kept is gone meanwhile.
const TRIES: usize = 3;

/// Memory is full, and nothing may go.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Makes room for a command, if it needs any. In a transaction all that is queued needs it; EXEC [asks for itself](has_room).
///
/// # Errors
/// There is none.
pub fn admit(state: &mut State, client: usize, command: &Command) -> Result<(), Fault> {
    if state.settings.operating.memory_max == 0 || state.is_loading {
        return Ok(());
    }
    let is_in_transaction = state.sessions.get(client).is_some_and(|session| session.transaction.is_some());
    let needs_room = command.flags.has(Flags::GROWS) || is_in_transaction && !command.flags.has(Flags::NO_MULTI);
    if needs_room && !has_room(state) { Err(Fault::Said(OUT_OF_MEMORY)) } else { Ok(()) }
}

/// Whether there is room for a command or a transaction, after keys have gone for it.
pub fn has_room(state: &mut State) -> bool {
    state.settings.operating.memory_max == 0 || make_room(state, KEYS_A_COMMAND)
}

/// Goes on between commands, so that a lower limit is reached though nobody writes.
pub fn tick(state: &mut State) {
    if state.settings.operating.memory_max > 0 {
        make_room(state, KEYS_A_TICK);
    }
}

/// The settings were changed.
pub fn configure(state: &mut State) {
    let operating = &state.settings.operating;
    let usage = &mut state.keyspace.usage;
    usage.is_lfu = operating.policy.is_lfu();
    (usage.log_factor, usage.decay_minutes) = (operating.log_factor, operating.decay_minutes);
    state.keyspace.events.want(operating.events);
    state.pool.clear();
    state.observed.slow.trim(operating.slow_entries);
    state.users.log.trim(operating.denials);
}

fn is_over(state: &State) -> bool {
    state.keyspace.memory() as u64 > state.settings.operating.memory_max
}

/// Deletes keys until there is room, or `keys_max` are gone. Whether there is room, or will be when others go on.
fn make_room(state: &mut State, keys_max: usize) -> bool {
    if !is_over(state) {
        return true;
    }
    if state.settings.operating.policy == Policy::NoEviction || state.log.has_failed {
        return false;
    }
    let has_room = observer::timed(state, "eviction-cycle", |state| evict(state, keys_max));
    state.pool.trim();
    has_room
}

fn evict(state: &mut State, keys_max: usize) -> bool {
    for _ in 0..keys_max {
        if !is_over(state) || state.keyspace.record().len() >= RECORD_BYTES {
            return true;
        }
        let Some((database, key)) = choose(state) else { return false };
        let wanted = state.keyspace.record().len() + key.len() + DELETION_BYTES;
        if wanted as u64 > state.log.room_to_shrink {
            return false;
        }
        state.keyspace.change(database, Change::Delete { key: &key });
        state.keyspace.events.note(Kinds::EVICTED, "evicted", database, &key);
        state.pool.evicted += 1;
    }
    true
}

fn choose(state: &mut State) -> Option<(u8, Box<[u8]>)> {
    if matches!(state.settings.operating.policy, Policy::Random(_)) {
        return any(state);
    }
    for _ in 0..TRIES {
        sample(state);
        while let Some((database, key)) = state.pool.take() {
            let entry = state.keyspace.database(database).get(&key);
            let only_volatile = state.settings.operating.policy.is_volatile();
            if entry.is_some_and(|entry| !only_volatile || entry.expires != 0) {
                return Some((database, key));
            }
        }
    }
    None
}

/// How many keys of a database may go.
fn length(state: &State, database: u8) -> usize {
    let all = state.keyspace.database(database);
    if state.settings.operating.policy.is_volatile() { all.volatile_len() } else { all.len() }
}

/// Any key, of one database after the other.
fn any(state: &mut State) -> Option<(u8, Box<[u8]>)> {
    for _ in 0..DATABASES {
        let turn = (state.pool.turn + 1) % DATABASES;
        state.pool.turn = turn;
        let length = length(state, turn);
        if length > 0 {
            let place = state.random.usize(..length);
            let all = state.keyspace.database(turn);
            let key = match state.settings.operating.policy.is_volatile() {
                true => all.volatile_at(place),
                false => all.at(place).map(|(key, _)| key),
            };
            return key.map(|key| (turn, key.into()));
        }
    }
    None
}

/// Looks at some keys of each database.
fn sample(state: &mut State) {
    for number in 0..DATABASES {
        let length = length(state, number);
        let State { keyspace, pool, random, settings, .. } = &mut *state;
        let (all, operating) = (keyspace.database(number), &settings.operating);
        for _ in 0..(operating.samples as usize).min(SAMPLES_MAX).min(length) {
            let place = random.usize(..length);
            let found = match operating.policy.is_volatile() {
                true => all.volatile_at(place).and_then(|key| Some((key, all.get(key)?))),
                false => all.at(place),
            };
            let Some((key, entry)) = found else { continue };
            let score = match operating.policy {
                Policy::Ttl => u64::MAX.wrapping_sub(entry.expires as u64),
                Policy::Lfu(_) => u64::from(u8::MAX - keyspace.usage.frequency(entry.used.get(), keyspace.now_ms)),
                _ => keyspace.usage.idle_ms(entry.used.get(), keyspace.now_ms),
            };
            pool.offer(score, number, key);
        }
    }
}
