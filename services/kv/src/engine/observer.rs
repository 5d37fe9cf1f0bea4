//! What is noted when a command ends: how long it took, and those who watch are told of it.

use crate::engine::access::needs::{number, subcommand_number};
use crate::engine::command::{Command, Flags, NO_KEYS, SECOND, all};
use crate::engine::fault::Fault;
use crate::engine::listening::leaving::close;
use crate::engine::observed::secrets::shown;
use crate::engine::state::{State, Waits};
use crate::engine::subcommands;
use crate::resp::request::Args;
use bytes::Bytes;
use std::fmt::Write;

/// Bytes of a line for those who watch, about. What is longer is cut.
const LINE_BYTES: usize = 64 << 10;

/// The time, if something is measured now.
#[inline]
pub fn begin(state: &State) -> Option<u64> {
    let operating = &state.settings.operating;
    let clock = state.observed.clock.filter(|_| operating.slow_us >= 0 || operating.latency_ms > 0)?;
    Some(clock())
}

/// Nanoseconds since then.
fn since(state: &State, began: Option<u64>) -> Option<u64> {
    began.zip(state.observed.clock).map(|(began, clock)| clock().saturating_sub(began))
}

/// The number by which a command with these arguments is counted: its own, or its subcommand's.
pub fn counted(place: usize, command: &Command, args: &Args<'_>) -> usize {
    // No others have subcommands.
    let sub = match command.keys {
        NO_KEYS | SECOND => subcommands::place(command.name, args.at(1)),
        _ => None,
    };
    sub.map_or(number(place), subcommand_number)
}

/// A command of this place in the table has ended.
pub fn ended(
    state: &mut State,
    client: usize,
    (place, command): (usize, &Command),
    args: &Args<'_>,
    (began, has_failed): (Option<u64>, bool),
) {
    let took = since(state, began);
    if let Some(count) = state.observed.counts.of(counted(place, command, args)) {
        count.calls += 1;
        count.nanoseconds += took.unwrap_or(0);
        took.into_iter().for_each(|took| count.durations.add(took));
        count.failed += u64::from(has_failed);
    }
    if let Some(took_us) = took.map(|took| took / 1_000) {
        let operating = &state.settings.operating;
        // All that EXEC executes is noted by itself.
        if operating.slow_us >= 0 && took_us >= operating.slow_us as u64 && command.name != "exec" {
            note_slow(state, client, args, took_us);
        }
        note_latency(state, if command.flags.has(Flags::FAST) { "fast-command" } else { "command" }, took_us);
    }
    // What EXEC has executed is told before it.
    if command.name == "exec" {
        watched(state, client, command, args);
    }
}

/// A command is going to be executed: those who watch are told, unless it is EXEC.
#[inline]
pub fn begins(state: &mut State, client: usize, command: &Command, args: &Args<'_>) {
    if !state.observed.monitors.is_empty() && command.name != "exec" {
        watched(state, client, command, args);
    }
}

fn watched(state: &mut State, client: usize, command: &Command, args: &Args<'_>) {
    if !state.observed.monitors.is_empty() && !command.flags.has(Flags::ADMIN) {
        tell(state, client, args);
    }
}

fn note_slow(state: &mut State, client: usize, args: &Args<'_>, took_us: u64) {
    let Some(session) = state.sessions.get(client) else { return };
    let (at_s, most) = (state.keyspace.now_ms / 1_000, state.settings.operating.slow_entries);
    state.observed.slow.add((at_s, took_us), args, (session.peer, &session.name), most);
}

/// Something took so long, in microseconds: it is noted if an operator wants to know.
pub fn note_latency(state: &mut State, event: &'static str, took_us: u64) {
    let (threshold, took_ms) = (state.settings.operating.latency_ms, took_us / 1_000);
    if threshold > 0 && took_ms >= threshold {
        state.observed.latency.add(event, state.keyspace.now_ms / 1_000, took_ms);
    }
}

/// Does something, and notes how long it took.
pub fn timed<T>(state: &mut State, event: &'static str, what: impl FnOnce(&mut State) -> T) -> T {
    let began = if state.settings.operating.latency_ms > 0 { begin(state) } else { None };
    let done = what(state);
    if let Some(took) = since(state, began) {
        note_latency(state, event, took / 1_000);
    }
    done
}

/// An error is answered.
pub fn failed(state: &mut State, fault: &Fault) -> String {
    let text = fault.to_string();
    state.statistics.errors += 1;
    state.observed.counts.failed(&text);
    text
}

/// The same, to a client that has waited: its command has failed after all.
pub fn failed_waiting(state: &mut State, client: usize, fault: &Fault) -> String {
    let name = state.sessions.get(client).map_or("", |session| session.last_command);
    let place = all().binary_search_by(|command| command.name.cmp(name)).ok();
    let count = place.and_then(|place| state.observed.counts.of(number(place)));
    count.into_iter().for_each(|count| count.failed += 1);
    failed(state, fault)
}

/// A client watches no more.
pub fn leave(state: &mut State, client: usize) {
    state.observed.monitors.retain(|slot| *slot != client);
    state.sessions.get_mut(client).into_iter().for_each(|session| session.is_monitor = false);
}

/// Tells those who watch of a request.
fn tell(state: &mut State, client: usize, args: &Args<'_>) {
    let Some(session) = state.sessions.get(client) else { return };
    let now = state.keyspace.now_ms;
    let who = if state.is_in_script { "lua".to_owned() } else { session.peer.to_string() };
    let mut line = format!("+{}.{:06} [{} {who}]", now / 1_000, now % 1_000 * 1_000, session.database);
    for index in 0..args.len() {
        let argument = shown(args, index);
        let room = LINE_BYTES.saturating_sub(line.len());
        let (first, rest) = argument.split_at_checked(room).unwrap_or((argument, &[]));
        line.push_str(" \"");
        quote(first, &mut line);
        line.push('"');
        if !rest.is_empty() || room == 0 {
            // Writing to a string does not fail.
            let _ = write!(line, "... ({} more bytes, {} more arguments)", rest.len(), args.len() - index - 1);
            break;
        }
    }
    line.push_str("\r\n");
    let line = Bytes::from(line);
    let State { observed, outbox, .. } = state;
    if outbox.len() + observed.monitors.len() > state.outbox_max {
        observed.monitors.clone().into_iter().for_each(|slot| close(state, slot));
        return;
    }
    outbox.extend(observed.monitors.iter().map(|slot| (*slot, line.clone(), Waits::No)));
}

/// Bytes as Redis shows them between quotes.
fn quote(bytes: &[u8], line: &mut String) {
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => line.push_str(&format!("\\x{byte:02x}")),
        }
    }
}
