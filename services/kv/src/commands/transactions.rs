//! MULTI, EXEC, DISCARD, WATCH. All changes of a transaction are one record: after a crash all of them are there, or none.

use crate::engine::call::Call;
use crate::engine::command::{ALL, NO_KEYS, commands, find_place};
use crate::engine::eviction;
use crate::engine::execute;
use crate::engine::fault::Fault;
use crate::engine::guard::{self, When};
use crate::engine::observer;
use crate::engine::state::State;
use crate::engine::watching::unwatch;
use crate::keyspace::watch::Place;
use crate::resp::request::Args;

commands! { "transactions":
    "multi", 1, [FAST NO_MULTI], NO_KEYS, "1.2.0", "Starts a transaction." => multi;
    "exec", 1, [NO_MULTI], NO_KEYS, "1.2.0", "Executes all commands in a transaction." => exec;
    "discard", 1, [FAST NO_MULTI], NO_KEYS, "2.0.0", "Discards a transaction." => discard;
    "watch", -2, [FAST NO_MULTI], ALL, "2.2.0", "Monitors changes to keys to determine the execution of a transaction." => watch;
    "unwatch", 1, [FAST], NO_KEYS, "2.2.0", "Forgets about watched keys of a transaction." => |call| {
        unwatch(call.state, call.client);
        call.reply.ok();
        Ok(())
    };
}

/// Keys that one client watches, and the bytes of their names, at most.
const WATCHED_MAX: usize = 64 << 10;
const WATCHED_BYTES_MAX: usize = 16 << 20;

fn multi(call: &mut Call<'_>) -> Result<(), Fault> {
    let Some(session) = call.session() else { return Ok(()) };
    if session.transaction.is_some() {
        return Err(Fault::Said("ERR MULTI calls can not be nested"));
    }
    session.transaction = Some(Box::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_>) -> Result<(), Fault> {
    let begun = call.session().and_then(|session| session.transaction.take());
    begun.ok_or(Fault::Said("ERR DISCARD without MULTI"))?;
    unwatch(call.state, call.client);
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut Call<'_>) -> Result<(), Fault> {
    let database = call.database;
    let Some(session) = call.state.sessions.get_mut(call.client) else { return Ok(()) };
    if session.transaction.is_some() {
        return Err(Fault::Said("ERR WATCH inside MULTI is not allowed"));
    }
    for key in call.args.from(1) {
        let place: Place = (database, key.into());
        if session.watched.contains_key(&place) {
            continue;
        }
        session.watched_bytes += key.len();
        if session.watched.len() >= WATCHED_MAX || session.watched_bytes > WATCHED_BYTES_MAX {
            session.watched_bytes -= key.len();
            return Err(Fault::Said("ERR too many keys are watched by one client"));
        }
        // What has expired already is not there, and does not go a second time.
        call.state.keyspace.expire_if_over(database, key);
        let version = call.state.keyspace.watches.watch(&place);
        session.watched.insert(place, version);
    }
    call.reply.ok();
    Ok(())
}

/// Whether something that a client watches has changed, or expired.
fn is_stale(state: &mut State, client: usize) -> bool {
    let Some(session) = state.sessions.get(client) else { return false };
    session.watched.iter().any(|((database, key), version)| {
        let keyspace = &state.keyspace;
        let is_over = keyspace.database(*database).get(key).is_some_and(|entry| keyspace.is_over(entry));
        is_over || !keyspace.watches.is_same(&(*database, key.clone()), *version)
    })
}

fn exec(call: &mut Call<'_>) -> Result<(), Fault> {
    let begun = call.session().and_then(|session| session.transaction.take());
    let transaction = begun.ok_or(Fault::Said("ERR EXEC without MULTI"))?;
    let has_room = !transaction.grows || eviction::has_room(call.state);
    let is_stale = is_stale(call.state, call.client);
    unwatch(call.state, call.client);
    if transaction.is_spoiled {
        return Err(Fault::Said("EXECABORT Transaction discarded because of previous errors."));
    }
    if !has_room {
        return Err(Fault::Told(format!("EXECABORT Transaction discarded because of: {}", eviction::OUT_OF_MEMORY)));
    }
    if is_stale {
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(transaction.queued.len());
    for queued in &transaction.queued {
        let args = Args::new(&queued.text, &queued.ranges);
        let Some(found) = find_place(args.at(0)) else { continue };
        let allowed = match call.state.users.judges {
            true => guard::admit(call.state, call.client, found, &args, When::AtExec),
            false => Ok(()),
        };
        let outcome = allowed
            .and_then(|()| execute::admit_queued(call.state, call.client, found.1, &args))
            .and_then(|()| execute::run(call.state, call.client, found, args, call.reply, true));
        if let Err(fault) = outcome {
            call.reply.error(&observer::failed(call.state, &fault));
        }
    }
    Ok(())
}
