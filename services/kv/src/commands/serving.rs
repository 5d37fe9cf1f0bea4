//! Commands that wait for a list or a sorted set, and how those who wait are served. What they take is part of the record of the push
//! that they waited for.

use crate::commands::lists::{ends, popped, pushed};
use crate::commands::streams::delivery;
use crate::engine::call::Call;
use crate::engine::command::{Keys, NO_KEYS, TWO, commands};
use crate::engine::fault::Fault;
use crate::engine::invalidation;
use crate::engine::listening::notices;
use crate::engine::observer;
use crate::engine::session::Silence;
use crate::engine::session::{Blocked, Wish};
use crate::engine::state::{State, Waits};
use crate::keyspace::change::{Change, End};
use crate::keyspace::events::Kinds;
use crate::keyspace::value::Value;
use crate::keyspace::watch::Place;
use crate::resp::reply::Reply;
use bytes::Bytes;
use indexmap::{Equivalent, IndexSet};

commands! { "list":
    "blpop", -3, [WRITE BLOCKING], Keys::Range(1, -2, 1), "2.0.0", "Removes and returns the first element in a list. Blocks until an element is available otherwise."
        => |call| pop(call, Wish::Pop(End::Front));
    "brpop", -3, [WRITE BLOCKING], Keys::Range(1, -2, 1), "2.0.0", "Removes and returns the last element in a list. Blocks until an element is available otherwise."
        => |call| pop(call, Wish::Pop(End::Back));
    "bzpopmin", -3, [WRITE BLOCKING FAST], Keys::Range(1, -2, 1), "5.0.0", "Removes and returns the member with the lowest score. Blocks until one is available otherwise."
        => |call| pop(call, Wish::PopScore { is_max: false });
    "bzpopmax", -3, [WRITE BLOCKING FAST], Keys::Range(1, -2, 1), "5.0.0", "Removes and returns the member with the highest score. Blocks until one is available otherwise."
        => |call| pop(call, Wish::PopScore { is_max: true });
    "lmpop", -4, [WRITE], Keys::Counted(1), "7.0.0", "Returns multiple elements from a list after removing them." => |call| many(call, 1, false);
    "blmpop", -5, [WRITE BLOCKING], Keys::Counted(2), "7.0.0", "Pops elements from one of multiple lists. Blocks until one is available otherwise."
        => |call| many(call, 2, false);
    "zmpop", -4, [WRITE], Keys::Counted(1), "7.0.0", "Returns the highest- or lowest-scoring members from sorted sets after removing them."
        => |call| many(call, 1, true);
    "bzmpop", -5, [WRITE BLOCKING], Keys::Counted(2), "7.0.0", "Removes and returns members by score. Blocks until one is available otherwise."
        => |call| many(call, 2, true);
    "lmove", 5, [WRITE GROWS], TWO, "6.2.0", "Returns an element after popping it from one list and pushing it to another."
        => |call| move_element(call, Some((3, 4)), None);
    "rpoplpush", 3, [WRITE GROWS], TWO, "1.2.0", "Returns the last element of a list after removing and pushing it to another list."
        => |call| move_element(call, None, None);
    "blmove", 6, [WRITE GROWS BLOCKING], TWO, "6.2.0", "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available otherwise."
        => |call| move_element(call, Some((3, 4)), Some(5));
    "brpoplpush", 4, [WRITE GROWS BLOCKING], TWO, "2.2.0", "Pops an element from a list, pushes it to another list and returns it. Block until an element is available otherwise."
        => |call| move_element(call, None, Some(3));
    "wait", 3, [], NO_KEYS, "3.0.0", "Returns how many replicas have acknowledged: there are none." => |call| {
        call.positive(1)?;
        call.positive(2)?;
        call.reply.integer(0);
        Ok(())
    };
}

const UNBLOCKED: Fault = Fault::Said("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// What a wish finds at a key.
enum Found {
    Nothing,
    /// The key has another kind of value.
    Other,
    Served,
}

fn keys_of(call: &Call<'_>, places: std::ops::Range<usize>) -> Vec<Box<[u8]>> {
    places.map(|place| call.args.at(place).into()).collect()
}

/// Takes from the first of `keys` that has something; whether there was one.
fn take_first(call: &mut Call<'_>, keys: &[Box<[u8]>], wish: &Wish) -> Result<bool, Fault> {
    for key in keys {
        match take(call.state, call.database, key, wish, call.reply) {
            Found::Nothing => {}
            Found::Other => return Err(Fault::WrongType),
            Found::Served => return Ok(true),
        }
    }
    Ok(false)
}

fn pop(call: &mut Call<'_>, wish: Wish) -> Result<(), Fault> {
    let last = call.args.len() - 1;
    let timeout = call.timeout(last)?;
    let keys = keys_of(call, 1..last);
    if !take_first(call, &keys, &wish)? {
        call.block(keys, wish, timeout);
    }
    Ok(())
}

/// LMPOP and its like: `index` is where the number of keys is; the argument before it is how long to wait, if it is no first one.
fn many(call: &mut Call<'_>, index: usize, is_sorted: bool) -> Result<(), Fault> {
    let args = call.args;
    let timeout = if index > 1 { Some(call.timeout(index - 1)?) } else { None };
    let count = call.integer(index).ok().filter(|count| *count > 0);
    let count = count.ok_or(Fault::Said("ERR numkeys should be greater than 0"))?;
    let keys_end = usize::try_from(count).ok().and_then(|count| count.checked_add(index + 1));
    let end = keys_end.filter(|end| *end < args.len()).ok_or(Fault::Syntax)?;
    let mut most = 1;
    match args.len() - end {
        1 => {}
        3 if args.is(end + 1, "COUNT") => {
            let count = call.integer(end + 2).ok().filter(|count| *count > 0);
            most = count.ok_or(Fault::Said("ERR count should be greater than 0"))? as usize;
        }
        _ => return Err(Fault::Syntax),
    }
    let wish = match (is_sorted, args.at(end).to_ascii_uppercase().as_slice()) {
        (false, b"LEFT") => Wish::PopMany(End::Front, most),
        (false, b"RIGHT") => Wish::PopMany(End::Back, most),
        (true, b"MIN") => Wish::PopScores { is_max: false, count: most },
        (true, b"MAX") => Wish::PopScores { is_max: true, count: most },
        _ => return Err(Fault::Syntax),
    };
    let keys = keys_of(call, index + 1..end);
    match (take_first(call, &keys, &wish)?, timeout) {
        (true, _) => {}
        (false, None) => call.reply.null_array(),
        (false, Some(timeout)) => call.block(keys, wish, timeout),
    }
    Ok(())
}

fn end_of(text: &[u8]) -> Result<End, Fault> {
    match text.to_ascii_uppercase().as_slice() {
        b"LEFT" => Ok(End::Front),
        b"RIGHT" => Ok(End::Back),
        _ => Err(Fault::Syntax),
    }
}

fn move_element(call: &mut Call<'_>, ends: Option<(usize, usize)>, wait: Option<usize>) -> Result<(), Fault> {
    let (from, to) = match ends {
        Some((from, to)) => (end_of(call.args.at(from))?, end_of(call.args.at(to))?),
        None => (End::Back, End::Front),
    };
    let timeout = wait.map(|index| call.timeout(index)).transpose()?;
    let (source, target) = (call.args.at(1), call.args.at(2));
    let wish = Wish::Move { from, to, target: target.into() };
    match (take_first(call, &[source.into()], &wish)?, timeout) {
        (true, _) => {}
        (false, None) => call.reply.null(),
        (false, Some(timeout)) => call.block(vec![source.into()], wish, timeout),
    }
    Ok(())
}

/// Takes what is wished from a key, if it has it.
fn take(state: &mut State, database: u8, key: &[u8], wish: &Wish, reply: &mut Reply) -> Found {
    let keyspace = &mut state.keyspace;
    let Some(entry) = keyspace.find(database, key) else { return Found::Nothing };
    match (&entry.value, wish) {
        (Value::List(list), Wish::Pop(end)) => {
            let element = list.end(*end).cloned().unwrap_or_default();
            keyspace.change(database, Change::Pop { key, end: *end, count: 1 });
            keyspace.note_taken((Kinds::LIST, popped(*end)), database, key);
            reply.array(2);
            reply.bulk(key);
            reply.value(&element);
        }
        (Value::List(list), Wish::PopMany(end, count)) => {
            let elements = ends(list, *end, *count);
            keyspace.change(database, Change::Pop { key, end: *end, count: elements.len() as u64 });
            keyspace.note_taken((Kinds::LIST, popped(*end)), database, key);
            reply.array(2);
            reply.bulk(key);
            reply.array(elements.len());
            elements.iter().for_each(|element| reply.value(element));
        }
        (Value::List(list), Wish::Move { from, to, target }) => {
            if keyspace.find(database, target).is_some_and(|entry| !matches!(entry.value, Value::List(_))) {
                return Found::Other;
            }
            let element = list.end(*from).cloned().unwrap_or_default();
            keyspace.change(database, Change::Pop { key, end: *from, count: 1 });
            // A list whose only element is moved around is there all the time.
            keyspace.events.is_replacing = key == target.as_ref();
            keyspace.change(database, Change::Push { key: target, end: *to, element: &element });
            keyspace.events.is_replacing = false;
            keyspace.events.note(Kinds::LIST, pushed(*to), database, target);
            keyspace.note_taken((Kinds::LIST, popped(*from)), database, key);
            reply.value(&element);
        }
        (Value::Sorted(sorted), Wish::PopScore { is_max } | Wish::PopScores { is_max, .. }) => {
            let count = if let Wish::PopScores { count, .. } = wish { *count } else { 1 };
            let order = sorted.order();
            let members: Vec<(f64, Box<[u8]>)> = match is_max {
                false => order.from(0).take(count).map(|(score, member)| (score, member.into())).collect(),
                true => {
                    order.down_from(usize::MAX - 1).take(count).map(|(score, member)| (score, member.into())).collect()
                }
            };
            members.iter().for_each(|(_, member)| keyspace.change(database, Change::RemoveScore { key, member }));
            let name = if *is_max { "zpopmax" } else { "zpopmin" };
            keyspace.note_taken((Kinds::SORTED, name), database, key);
            answer_members(reply, key, &members, wish);
        }
        _ => return Found::Other,
    }
    Found::Served
}

fn answer_members(reply: &mut Reply, key: &[u8], members: &[(f64, Box<[u8]>)], wish: &Wish) {
    let is_one = matches!(wish, Wish::PopScore { .. });
    reply.array(if is_one { 3 } else { 2 });
    reply.bulk(key);
    if !is_one {
        reply.array(members.len());
    }
    for (score, member) in members {
        if !is_one {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(*score);
    }
}

/// Serves those who wait for what was pushed, who waits longest first. Serving one may push for another.
pub fn serve(state: &mut State) {
    while !state.keyspace.pushed.is_empty() {
        // Keys are served in the order of their first pushes; what is pushed meanwhile comes behind all of these.
        let pushed: IndexSet<Place> = std::mem::take(&mut state.keyspace.pushed).into_iter().collect();
        // Those for whom there is nothing, or whose wish is of another kind, go on waiting.
        for (place, _, slot) in waiting(state, &pushed) {
            if let Some((database, key)) = pushed.get_index(place) {
                serve_one(state, slot, *database, key);
            }
        }
    }
    invalidation::tell(state, None);
    notices::tell(state);
}

/// A key as it is looked up: by the same hash as a [`Place`].
#[derive(Hash)]
struct Wanted<'a>(u8, &'a [u8]);

impl Equivalent<Place> for Wanted<'_> {
    fn equivalent(&self, (database, key): &Place) -> bool {
        self.0 == *database && self.1 == key.as_ref()
    }
}

/// Who waits for which of these keys: its index, the client's turn, and its slot, in order. All who wait are looked at once, however many keys
/// there are: SWAPDB gives all that they wait for.
fn waiting(state: &State, pushed: &IndexSet<Place>) -> Vec<(usize, u64, usize)> {
    let mut found = Vec::new();
    let blocked = state.sessions.iter().filter_map(|(slot, session)| Some((slot, session.blocked.as_deref()?)));
    for (slot, Blocked { database, keys, turn, .. }) in blocked {
        let places = keys.iter().filter_map(|key| pushed.get_index_of(&Wanted(*database, key)));
        found.extend(places.map(|place| (place, *turn, slot)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn serve_one(state: &mut State, slot: usize, database: u8, key: &[u8]) {
    let Some(session) = state.sessions.get(slot) else { return };
    let Some(blocked) = session.blocked.clone() else { return };
    let mut reply = Reply::default();
    reply.set_version(session.is_three);
    let found = match &blocked.wish {
        Wish::Read(reading) => match delivery::serve(state, (database, key), &blocked.keys, reading, &mut reply) {
            None => Found::Nothing,
            Some(Ok(())) => Found::Served,
            Some(Err(fault)) => {
                reply.error(&observer::failed_waiting(state, slot, &fault));
                Found::Served
            }
        },
        wish => take(state, database, key, wish, &mut reply),
    };
    match found {
        Found::Served => {}
        // Where it is to be put there is another kind of value.
        Found::Other if matches!(blocked.wish, Wish::Move { .. }) && is_list(state, database, key) => {
            reply.error(&observer::failed_waiting(state, slot, &Fault::WrongType));
        }
        Found::Other | Found::Nothing => return,
    }
    unblock(state, slot);
    tell(state, slot, reply, true);
}

/// Sends a client that waited its answer, if it wants to hear it.
fn tell(state: &mut State, slot: usize, mut reply: Reply, is_caused: bool) {
    if state.sessions.get(slot).is_some_and(|session| session.silence == Silence::On) {
        reply.take().for_each(drop);
    }
    let pieces: Vec<Bytes> = reply.take().collect();
    let waits = if is_caused { Waits::Answer } else { Waits::No };
    state.outbox.extend(pieces.into_iter().map(|bytes| (slot, bytes, waits)));
}

fn is_list(state: &State, database: u8, key: &[u8]) -> bool {
    state.keyspace.find(database, key).is_some_and(|entry| matches!(entry.value, Value::List(_)))
}

/// A client waits no more.
pub fn unblock(state: &mut State, slot: usize) -> Option<Box<Blocked>> {
    let gone = state.sessions.get_mut(slot)?.blocked.take();
    state.blocked -= usize::from(gone.is_some());
    state.keyspace.notes_pushes = state.blocked > 0;
    gone
}

/// A client has waited long enough, or is told to stop.
pub fn give_up(state: &mut State, slot: usize, is_error: bool) {
    let Some(blocked) = unblock(state, slot) else { return };
    let mut reply = Reply::default();
    reply.set_version(state.sessions.get(slot).is_some_and(|session| session.is_three));
    match (is_error, blocked.wish) {
        (true, _) => reply.error(&observer::failed_waiting(state, slot, &UNBLOCKED)),
        (false, Wish::Move { .. }) => reply.null(),
        (false, _) => reply.null_array(),
    }
    tell(state, slot, reply, false);
}

/// Clients that have waited long enough give up.
pub fn expire(state: &mut State) {
    if state.blocked == 0 {
        return;
    }
    let now = state.keyspace.now_ms;
    let is_over = |blocked: &Blocked| blocked.until_ms != 0 && blocked.until_ms <= now;
    let over = state.sessions.iter().filter(|(_, session)| session.blocked.as_deref().is_some_and(is_over));
    let over: Vec<usize> = over.map(|(slot, _)| slot).collect();
    over.into_iter().for_each(|slot| give_up(state, slot, false));
}
