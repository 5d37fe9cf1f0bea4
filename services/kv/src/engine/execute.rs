//! Executing a request: what is looked at before a command runs, as Redis does it.

use crate::engine::call::Call;
use crate::engine::command::{Command, Flags, Found, find, find_place};
use crate::engine::eviction;
use crate::engine::fault::Fault;
use crate::engine::guard::{self, When};
use crate::engine::invalidation;
use crate::engine::listening::{misses, notices};
use crate::engine::observer;
use crate::engine::session::Queued;
use crate::engine::silence;
use crate::engine::state::State;
use crate::engine::subcommands;
use crate::engine::watching::unwatch;
use crate::keyspace::events::Kinds;
use crate::resp::reply::Reply;
use crate::resp::request::Args;

/// Bytes of arguments that an error repeats.
const REPEATED_BYTES: usize = 128;
/// Bytes that the commands of a transaction may have.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// What a record needs besides its bytes: it may begin another unit of the log.
const RECORD_OVERHEAD: u64 = 8 << 10;

fn unknown(args: &Args<'_>) -> Fault {
    let cut = |text: &[u8], most: usize| {
        String::from_utf8_lossy(text.get(..text.len().min(most)).unwrap_or_default()).into_owned()
    };
    let mut repeated = String::new();
    for argument in args.from(1) {
        if repeated.len() >= REPEATED_BYTES {
            break;
        }
        repeated.push_str(&format!("'{}' ", cut(argument, REPEATED_BYTES - repeated.len())));
    }
    Fault::Told(format!(
        "ERR unknown command '{}', with args beginning with: {repeated}",
        cut(args.at(0), REPEATED_BYTES)
    ))
}

/// What a write may take of the log, about.
fn estimate(state: &State, database: u8, command: &Command, args: &Args<'_>) -> u64 {
    let own = (args.bytes() + 16 * args.len()) as u64 + RECORD_OVERHEAD;
    if !command.flags.has(Flags::COPIES) {
        return own;
    }
    let of_keys = command.keys.places(args).filter_map(|place| state.keyspace.find(database, args.at(place)));
    own + of_keys.map(|entry| 2 * entry.value.bytes() as u64).sum::<u64>()
}

/// Whether a write can be taken.
fn admit(state: &mut State, database: u8, command: &Command, args: &Args<'_>) -> Result<(), Fault> {
    let wanted = estimate(state, database, command, args);
    admit_bytes(state, wanted, command.flags.has(Flags::GROWS))
}

/// Whether a change of so many bytes can be taken. `grows`: it makes the keyspace larger.
///
/// # Errors
/// As a write's.
pub fn admit_bytes(state: &mut State, wanted: u64, grows: bool) -> Result<(), Fault> {
    if state.log.has_failed {
        return Err(Fault::Said(crate::limits::MISCONF));
    }
    let wanted = wanted + state.keyspace.record().len() as u64;
    if wanted > crate::limits::RECORD_BYTES_MAX as u64 {
        return Err(Fault::Said("ERR the change is too long for one record of the log"));
    }
    let room = if grows { state.log.room } else { state.log.room_to_shrink };
    if wanted > room {
        state.log.refused += 1;
        return Err(Fault::Said(crate::limits::NO_ROOM));
    }
    Ok(())
}

fn check(state: &mut State, client: usize, args: &Args<'_>) -> Result<Found, Fault> {
    let found = find_place(args.at(0)).ok_or_else(|| unknown(args))?;
    let checked = check_found(state, client, found, args);
    if checked.is_err() {
        let number = observer::counted(found.0, found.1, args);
        state.observed.counts.of(number).into_iter().for_each(|count| count.rejected += 1);
    }
    checked.map(|()| found)
}

fn check_found(state: &mut State, client: usize, found: Found, args: &Args<'_>) -> Result<(), Fault> {
    let command = found.1;
    if !command.takes(args.len()) {
        return Err(Fault::Arity(command.name.to_owned()));
    }
    let Some(session) = state.sessions.get_mut(client) else { return Ok(()) };
    session.last_command = match command.group {
        // Only commands of these groups have subcommands.
        "connection" | "generic" | "pubsub" | "scripting" | "server" | "stream" => {
            subcommands::find(command.name, args.at(1)).unwrap_or(command.name)
        }
        _ => command.name,
    };
    if state.users.judges {
        guard::admit(state, client, found, args, When::Now)?;
    }
    let Some(session) = state.sessions.get_mut(client) else { return Ok(()) };
    if session.transaction.is_some() && command.flags.has(Flags::ALONE) {
        return Err(Fault::Said("ERR Command not allowed inside a transaction"));
    }
    if session.subscriptions() > 0 && !session.is_three && !command.flags.has(Flags::CHANNELS) {
        return Err(Fault::Told(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            command.name
        )));
    }
    let accesses_keys = command.flags.has(Flags::READ) || command.flags.has(Flags::WRITE);
    if session.is_monitor && accesses_keys {
        return Err(Fault::Said("ERR Replica can't interact with the keyspace"));
    }
    let database = session.database;
    let needs_keys = command.name == "ping" || !matches!(command.group, "connection" | "server");
    if state.is_loading && (needs_keys || command.flags.has(Flags::WRITE)) {
        return Err(Fault::Said("LOADING Redis is loading the dataset in memory"));
    }
    eviction::admit(state, client, command)?;
    if command.flags.has(Flags::WRITE) {
        admit(state, database, command, args)?;
    }
    Ok(())
}

/// Executes a request of a client, and answers it, unless the client does not want that.
pub fn execute(state: &mut State, client: usize, args: Args<'_>, reply: &mut Reply) {
    if silence::begins(state, client) {
        let mut unheard = Reply::default();
        answer(state, client, args, &mut unheard);
        silence::ends(state, client, args.at(0), unheard, reply);
    } else {
        answer(state, client, args, reply);
    }
    if state.tracking.clients > 0 {
        invalidation::ended(state, client, &args, reply);
    }
}

fn answer(state: &mut State, client: usize, args: Args<'_>, reply: &mut Reply) {
    let is_in_transaction = state.sessions.get(client).is_some_and(|session| session.transaction.is_some());
    let outcome = match check(state, client, &args) {
        Ok((_, command)) if is_in_transaction && !command.flags.has(Flags::NO_MULTI) => {
            queue(state, client, command, &args, reply)
        }
        Ok(found) => run(state, client, found, args, reply, false),
        // A transaction that can't be executed is over.
        Err(fault) if args.is(0, "EXEC") => {
            let session = state.sessions.get_mut(client);
            session.into_iter().for_each(|session| session.transaction = None);
            unwatch(state, client);
            let why = fault.to_string();
            let why = why.strip_prefix("ERR ").unwrap_or(&why);
            Err(Fault::Told(format!("EXECABORT Transaction discarded because of: {why}")))
        }
        Err(fault) => {
            spoil(state, client);
            Err(fault)
        }
    };
    if let Err(fault) = outcome {
        reply.error(&observer::failed(state, &fault));
    }
}

/// Whether a command may change keys, or tell others something: scripts, and messages.
fn may_write(command: &Command) -> bool {
    command.flags.has(Flags::WRITE)
        || matches!(command.name, "eval" | "evalsha" | "fcall" | "function" | "pfcount" | "publish" | "spublish")
}

/// Whether a request has to wait until clients go on (`CLIENT PAUSE`).
pub fn is_held(state: &State, client: usize, args: &Args<'_>) -> bool {
    let now_ms = state.keyspace.now_ms;
    if !state.pause.is_on(now_ms) {
        return false;
    }
    let transaction = || state.sessions.get(client).and_then(|session| session.transaction.as_deref());
    let writes = find(args.at(0)).is_some_and(|command| {
        may_write(command) || command.name == "exec" && transaction().is_some_and(|transaction| transaction.writes)
    });
    state.pause.holds(now_ms, writes)
}

fn spoil(state: &mut State, client: usize) {
    let session = state.sessions.get_mut(client);
    let transaction = session.and_then(|session| session.transaction.as_mut());
    transaction.into_iter().for_each(|transaction| transaction.is_spoiled = true);
}

fn queue(state: &mut State, client: usize, command: &Command, args: &Args<'_>, reply: &mut Reply) -> Result<(), Fault> {
    let Some(transaction) = state.sessions.get_mut(client).and_then(|session| session.transaction.as_mut()) else {
        return Ok(());
    };
    let mut queued = Queued::default();
    for argument in args.from(0) {
        let start = queued.text.len();
        queued.text.extend_from_slice(argument);
        queued.ranges.push(start..queued.text.len());
    }
    transaction.bytes += queued.text.len() + 16 * queued.ranges.len();
    if transaction.bytes > QUEUED_BYTES_MAX {
        transaction.is_spoiled = true;
        transaction.queued.clear();
        return Err(Fault::Said("ERR the commands of the transaction are too long together"));
    }
    transaction.writes |= may_write(command);
    transaction.grows |= command.flags.has(Flags::GROWS);
    transaction.queued.push(queued);
    reply.simple("QUEUED");
    Ok(())
}

/// Runs a command that was checked. `is_queued`: it is part of a transaction.
///
/// # Errors
/// What it can't do. It has answered nothing then.
pub fn run(
    state: &mut State,
    client: usize,
    (place, command): Found,
    args: Args<'_>,
    reply: &mut Reply,
    is_queued: bool,
) -> Result<(), Fault> {
    let Some((database, is_three)) = state.sessions.get(client).map(|session| (session.database, session.is_three))
    else {
        return Ok(());
    };
    reply.set_version(is_three);
    state.statistics.commands += 1;
    if command.flags.has(Flags::WRITE) {
        // What has expired is gone before it is written to; reads only pass it over.
        for place in command.keys.places(&args) {
            state.keyspace.expire_if_over(database, args.at(place));
        }
    }
    if state.tracking.clients > 0 || state.keyspace.events.wants(Kinds::EXPIRED) {
        invalidation::before_read(state, database, command, &args);
    }
    if state.keyspace.events.wants(Kinds::MISS) {
        misses::note(state, database, command, &args);
    }
    observer::begins(state, client, command, &args);
    let began = observer::begin(state);
    let outcome = (command.run)(&mut Call { state, client, database, args, reply, is_queued });
    observer::ended(state, client, (place, command), &args, (began, outcome.is_err()));
    if state.tracking.clients > 0 {
        invalidation::after_read(state, client, command, &args);
    }
    if let Err(fault) = &outcome
        && state.keyspace.events.wants(Kinds::MISS)
    {
        misses::failed(state, fault);
    }
    notices::tell(state);
    outcome
}

/// Whether a queued write can still be taken, when its transaction is executed.
///
/// # Errors
/// As when it comes.
pub fn admit_queued(state: &mut State, client: usize, command: &Command, args: &Args<'_>) -> Result<(), Fault> {
    let database = state.sessions.get(client).map_or(0, |session| session.database);
    if command.flags.has(Flags::WRITE) { admit(state, database, command, args) } else { Ok(()) }
}
