//! Telling clients that keys have changed that they have read (`CLIENT TRACKING`).
//!
//! Messages do not wait for the disk: they tell of no value, and who reads again waits for it. So they leave before the change can be
//! read. A client's own messages are behind the answer to the command that caused them, and so behind what it has read before.

use crate::engine::command::{Command, Flags};
use crate::engine::session::Session;
use crate::engine::state::{State, Waits};
use crate::engine::tracking::table::Reader;
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The channel at which clients of version 2 are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// A longer key is not noted.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Bytes of keys that are noted for one client, at most.
const CLIENT_BYTES_MAX: usize = 64 << 20;
/// Keys that are forgotten at once, at most, if there are too many.
const SURPLUS_AT_ONCE: usize = 1_024;
/// What a deletion needs of the log besides the key, with what its record needs.
const DELETION_BYTES: usize = 16 << 10;

/// What is told: keys, or that all are gone. It is written once for each version of the protocol.
struct Message<'a> {
    keys: Option<&'a [&'a [u8]]>,
    written: [Option<Bytes>; 2],
}

impl Message<'_> {
    fn of<'a>(keys: Option<&'a [&'a [u8]]>) -> Message<'a> {
        Message { keys, written: [None, None] }
    }

    fn bytes(&mut self, is_three: bool) -> Bytes {
        let [two, three] = &mut self.written;
        let keys = self.keys;
        let place = if is_three { three } else { two };
        place.get_or_insert_with(|| write(is_three, keys)).clone()
    }
}

fn write(is_three: bool, keys: Option<&[&[u8]]>) -> Bytes {
    let mut reply = Reply::default();
    reply.set_version(is_three);
    if is_three {
        reply.push(2);
        reply.bulk(b"invalidate");
    } else {
        reply.push(3);
        reply.bulk(b"message");
        reply.bulk(CHANNEL);
    }
    match keys {
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        None => reply.null(),
    }
    reply.take().next().unwrap_or_default()
}

/// The keys of a prefix that have changed, and the clients that want to know.
type ChangedOf<'a> = (BTreeSet<&'a [u8]>, Vec<usize>);

/// Telling clients, at the end of a command or of a tick.
struct Telling<'a> {
    state: &'a mut State,
    /// Whose command it was, and its answers.
    own: Option<(usize, &'a mut Reply)>,
}

impl Telling<'_> {
    /// Whether a client is not to be told of a change: it made it, and does not want to know.
    fn is_passed_over(&self, client: usize) -> bool {
        let tracker = self.state.sessions.get(client).and_then(|session| session.tracker.as_ref());
        self.own.as_ref().is_some_and(|(slot, _)| *slot == client) && tracker.is_some_and(|tracker| tracker.skips_own)
    }

    /// Sends a message to a client that tracks, or to whom it wants to be told instead.
    fn send(&mut self, client: usize, message: &mut Message<'_>) {
        let Some(session) = self.state.sessions.get(client) else { return };
        let Some(tracker) = &session.tracker else { return };
        let (redirect, slot, is_three) = (tracker.redirect, tracker.redirect_slot, session.is_three);
        if redirect == 0 {
            // Version 2 has no messages that were not asked for.
            if is_three {
                self.hand_over(client, message.bytes(true));
            }
            return;
        }
        let is_there = |other: &&Session| other.id == redirect && !other.is_ending && !other.is_killed;
        match self.state.sessions.get(slot).filter(is_there) {
            Some(other) if other.is_three => self.hand_over(slot, message.bytes(true)),
            Some(other) if other.subscriptions() > 0 => self.hand_over(slot, message.bytes(false)),
            Some(_) => {}
            None => self.broken(client, redirect, is_three),
        }
    }

    fn hand_over(&mut self, slot: usize, bytes: Bytes) {
        match &mut self.own {
            Some((own, reply)) if *own == slot => reply.raw(&bytes),
            _ => self.state.outbox.push((slot, bytes, Waits::No)),
        }
    }

    /// The client to whom another one wanted to be told instead is gone.
    fn broken(&mut self, client: usize, redirect: u64, is_three: bool) {
        let tracker = self.state.sessions.get_mut(client).and_then(|session| session.tracker.as_mut());
        tracker.into_iter().for_each(|tracker| tracker.is_broken = true);
        if is_three {
            let mut reply = Reply::default();
            reply.set_version(true);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(redirect as i64);
            self.hand_over(client, reply.take().next().unwrap_or_default());
        }
    }

    /// A key is noted for these no more: they are told.
    fn send_to_readers(&mut self, key: &[u8], readers: Vec<Reader>, is_change: bool) {
        let keys = [key];
        let mut message = Message::of(Some(&keys));
        for (slot, id) in readers {
            let session = self.state.sessions.get_mut(slot).filter(|session| session.id == id);
            let Some(tracker) = session.and_then(|session| session.tracker.as_mut()) else { continue };
            tracker.keys = tracker.keys.saturating_sub(1);
            tracker.key_bytes = tracker.key_bytes.saturating_sub(key.len());
            let is_broadcast = tracker.is_broadcast;
            let is_spared = is_broadcast || is_change && self.is_passed_over(slot);
            if !is_spared {
                self.send(slot, &mut message);
            }
        }
    }

    /// All keys of a database are gone: all are told, whatever they have read.
    fn flushed(&mut self) {
        self.state.tracking.table.clear();
        let mut message = Message::of(None);
        let sessions = self.state.sessions.iter();
        let all = sessions.filter(|(_, session)| session.tracker.is_some()).map(|(slot, _)| slot);
        for slot in all.collect::<Vec<_>>() {
            let tracker = self.state.sessions.get_mut(slot).and_then(|session| session.tracker.as_mut());
            tracker.into_iter().for_each(|tracker| (tracker.keys, tracker.key_bytes) = (0, 0));
            self.send(slot, &mut message);
        }
    }

    /// Tells those who want to know of all keys with some prefix: of each prefix at once.
    fn broadcast(&mut self, keys: &[Box<[u8]>]) {
        let mut by_prefix: BTreeMap<Box<[u8]>, ChangedOf<'_>> = BTreeMap::new();
        for key in keys {
            for (prefix, clients) in self.state.tracking.prefixes.of(key) {
                let entry = by_prefix.entry(prefix.into());
                entry.or_insert_with(|| (BTreeSet::new(), clients.iter().copied().collect())).0.insert(key);
            }
        }
        for (keys, clients) in by_prefix.into_values() {
            let keys: Vec<&[u8]> = keys.into_iter().collect();
            let mut message = Message::of(Some(&keys));
            for slot in clients {
                if !self.is_passed_over(slot) {
                    self.send(slot, &mut message);
                }
            }
        }
    }

    /// What was read and could not be noted: its reader may not keep it.
    fn unnoted(&mut self) {
        let unnoted = std::mem::take(&mut self.state.tracking.unnoted);
        let Some(client) = self.own.as_ref().map(|(slot, _)| *slot) else { return };
        for key in &unnoted.keys {
            self.send(client, &mut Message::of(Some(&[key])));
        }
        if unnoted.is_more {
            self.send(client, &mut Message::of(None));
        }
    }

    /// Forgets keys if there are too many, and tells those who have read them.
    fn forget_surplus(&mut self) {
        let keys_max = self.state.settings.operating.tracked_keys;
        for _ in 0..SURPLUS_AT_ONCE {
            let State { tracking, random, .. } = &mut *self.state;
            let Some((key, readers)) = tracking.table.take_surplus(keys_max, random) else { return };
            tracking.evicted += 1;
            self.send_to_readers(&key, readers, false);
        }
    }
}

/// Tells all who want to know what has changed. `own`: whose command it was, and its answers.
pub fn tell(state: &mut State, own: Option<(usize, &mut Reply)>) {
    if state.tracking.clients == 0 {
        return;
    }
    let keys = std::mem::take(&mut state.keyspace.touched.keys);
    let is_flushed = std::mem::take(&mut state.keyspace.touched.is_flushed);
    let mut telling = Telling { state, own };
    if is_flushed {
        telling.flushed();
    }
    for key in &keys {
        if let Some(readers) = telling.state.tracking.table.take(key) {
            telling.send_to_readers(key, readers, true);
        }
    }
    if !keys.is_empty() && !telling.state.tracking.prefixes.is_empty() {
        telling.broadcast(&keys);
    }
    telling.unnoted();
    telling.forget_surplus();
}

/// All that clients have is to be read again: messages may have been lost with the answers among which they were.
pub fn forget_all(state: &mut State) {
    if state.tracking.clients > 0 {
        Telling { state, own: None }.flushed();
    }
}

/// A client is going to read: what has expired is deleted, so that those who want to know are told before anybody sees that it is gone.
pub fn before_read(state: &mut State, database: u8, command: &Command, args: &Args<'_>) {
    if command.group == "scripting" {
        state.tracking.has_read = false;
    }
    if !command.flags.has(Flags::READ) {
        return;
    }
    for place in command.keys.places(args) {
        let (key, keyspace) = (args.at(place), &mut state.keyspace);
        if !keyspace.database(database).get(key).is_some_and(|entry| keyspace.is_over(entry)) {
            continue;
        }
        let wanted = keyspace.record().len() + key.len() + DELETION_BYTES;
        let may_write = !state.log.has_failed && !state.pause.is_on(keyspace.now_ms);
        match may_write && wanted as u64 <= state.log.room_to_shrink {
            true => keyspace.expire_if_over(database, key),
            false if keyspace.touched.is_wanted => keyspace.touched.note_key(key),
            false => {}
        }
    }
}

/// A client has executed a command: what it has read is noted.
pub fn after_read(state: &mut State, client: usize, command: &Command, args: &Args<'_>) {
    // A script's own reads are noted, and if there are any, the keys that it was given: clients may know its answer by these.
    let is_script = command.group == "scripting";
    let reads = if is_script { std::mem::take(&mut state.tracking.has_read) } else { command.flags.has(Flags::READ) };
    if !reads {
        return;
    }
    state.tracking.has_read |= !is_script;
    let State { sessions, tracking, settings, .. } = state;
    let Some(session) = sessions.get_mut(client) else { return };
    let id = session.id;
    let Some(tracker) = session.tracker.as_mut().filter(|tracker| tracker.notes()) else { return };
    let keys_max = settings.operating.tracked_keys;
    // One client can't have all others' keys forgotten.
    let share = if keys_max == 0 { usize::MAX } else { (keys_max / 2).max(1) };
    for key in command.keys.places(args).map(|place| args.at(place)) {
        let has_room = tracker.keys < share && tracker.key_bytes + key.len() <= CLIENT_BYTES_MAX;
        if key.len() > KEY_BYTES_MAX || !has_room && !tracking.table.is_reader(key, (client, id)) {
            // It may not keep what it has just read.
            tracking.refused += 1;
            tracking.unnoted.add(key);
        } else if tracking.table.add(key, (client, id)) {
            tracker.keys += 1;
            tracker.key_bytes += key.len();
        }
    }
}

/// A request of a client has ended: all who want to know are told of what it changed, and what `CLIENT CACHING` said is over.
pub fn ended(state: &mut State, client: usize, args: &Args<'_>, reply: &mut Reply) {
    if let Some(session) = state.sessions.get_mut(client)
        && session.transaction.is_none()
        && let Some(tracker) = session.tracker.as_mut()
        && !args.is(0, "CLIENT")
    {
        tracker.is_chosen = false;
    }
    tell(state, Some((client, reply)));
}

/// A client begins to track.
pub fn begin(state: &mut State) {
    state.tracking.clients += 1;
    state.keyspace.touched.is_wanted = true;
}

/// A client tracks no more: it goes, or said so.
pub fn leave(state: &mut State, client: usize) {
    let tracker = state.sessions.get_mut(client).and_then(|session| session.tracker.take());
    let Some(tracker) = tracker else { return };
    tracker.prefixes.iter().for_each(|prefix| state.tracking.prefixes.remove(prefix, client));
    state.tracking.clients -= 1;
    let is_wanted = state.tracking.clients > 0;
    state.keyspace.touched.is_wanted = is_wanted;
    if !is_wanted {
        // What was noted was for those who are gone.
        state.tracking.table.clear();
        state.keyspace.touched.clear();
    }
}
