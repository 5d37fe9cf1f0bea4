//! Whether a client may do what it asks for: who it is, what its user may do, and what is noted if something is refused.

use crate::engine::access::judge::{self, judge, may_listen};
use crate::engine::access::needs;
use crate::engine::command::{Command, find_place};
use crate::engine::description;
use crate::engine::fault::Fault;
use crate::engine::state::State;
use crate::engine::users::digest::Digest;
use crate::engine::users::log::{Context, Reason};
use crate::engine::users::user::User;
use crate::resp::request::Args;

/// A client that has said so many wrong passwords is closed.
const GUESSES_MAX: u32 = 64;

/// When it is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// It has come.
    Now,
    /// It was queued by MULTI, and is executed by EXEC.
    AtExec,
    /// A script calls it.
    InScript,
}

/// What is said of a refusal.
fn fault(reason: Reason, name: &str, when: When) -> Fault {
    const CHANGED: &str = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                           This command is no longer allowed for the following reason: ";
    let at_exec = |why: &str| Fault::Told(format!("{CHANGED}{why}"));
    match (when, reason) {
        (When::Now, Reason::Command) => {
            Fault::Told(format!("NOPERM this user has no permissions to run the '{name}' command"))
        }
        (When::Now, Reason::Channel) => {
            Fault::Said("NOPERM this user has no permissions to access one of the channels used as arguments")
        }
        (When::Now, _) => {
            Fault::Said("NOPERM this user has no permissions to access one of the keys used as arguments")
        }
        (When::AtExec, Reason::Command) => at_exec("no permission to execute the command or subcommand"),
        (When::AtExec, Reason::Channel) => {
            at_exec("no permission to access one of the channels used as arguments to the command")
        }
        (When::AtExec, _) => at_exec("no permission to touch the specified keys"),
        (When::InScript, Reason::Command) => {
            Fault::Said("ERR The user executing the script can't run this command or subcommand")
        }
        (When::InScript, Reason::Channel) => {
            Fault::Said("ERR The user executing the script can't publish to the channel mentioned in the command")
        }
        (When::InScript, _) => Fault::Said(
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
        ),
    }
}

/// Judges a command of a client, which is in this place of the table. Nobody calls this while [nothing is
/// judged](crate::engine::users::roster::Users::judges).
///
/// # Errors
/// `NOAUTH`, `NOPERM`.
pub fn admit(
    state: &mut State,
    client: usize,
    (place, command): (usize, &Command),
    args: &Args<'_>,
    when: When,
) -> Result<(), Fault> {
    let Some(session) = state.sessions.get(client) else { return Ok(()) };
    if !session.is_authenticated && !state.users.lets_in() {
        return match needs::is_everybodys(command) {
            true => Ok(()),
            false => Err(Fault::Said("NOAUTH Authentication required.")),
        };
    }
    let is_in_transaction = when == When::AtExec || session.transaction.is_some();
    // A place without a user is one whose clients are closed already.
    let refused = match state.users.get(session.user) {
        Some(user) => judge(user, place, command, args),
        None => Some((Reason::Command, 0)),
    };
    let Some((reason, argument)) = refused else { return Ok(()) };
    let name = needs::whole_name(command, args);
    let object = if reason == Reason::Command { name.as_bytes() } else { args.at(argument) };
    let context = match when {
        When::InScript => Context::Script,
        _ if is_in_transaction => Context::Multi,
        _ => Context::TopLevel,
    };
    let user: Box<[u8]> = state.users.name(session.user).into();
    note(state, client, (reason, context), (object, &user));
    Err(fault(reason, name, when))
}

/// Whether a command that a client executes may read any key, for keys that are named by what it finds.
pub fn reads_all_keys(state: &State, client: usize, args: &Args<'_>) -> bool {
    if !state.users.judges {
        return true;
    }
    let user = state.sessions.get(client).and_then(|session| state.users.get(session.user));
    let found = find_place(args.at(0));
    user.zip(found).is_some_and(|(user, (place, command))| judge::reads_all_keys(user, place, command, args))
}

/// Notes that something was refused to a user.
fn note(state: &mut State, client: usize, why: (Reason, Context), what: (&[u8], &[u8])) {
    let session = state.sessions.get(client);
    let line = session.map(|session| description::line(state, (client, session), None)).unwrap_or_default();
    let when = (state.keyspace.now_ms, state.settings.operating.denials);
    state.users.log.add(why, what, line.trim_end().to_owned(), when);
}

/// A client says who it is, by a command that it wrote so: a user and a password.
///
/// # Errors
/// `WRONGPASS`.
pub fn authenticate(
    state: &mut State,
    client: usize,
    command: &[u8],
    (name, password): (&[u8], &[u8]),
) -> Result<(), Fault> {
    let found = state.users.authenticate(name, password);
    let Some(session) = state.sessions.get_mut(client) else { return Ok(()) };
    if let Some(user) = found {
        (session.user, session.is_authenticated, session.guesses) = (user, true, 0);
        return Ok(());
    }
    session.guesses += 1;
    session.is_ending |= session.guesses >= GUESSES_MAX;
    let context = if session.transaction.is_some() { Context::Multi } else { Context::TopLevel };
    note(state, client, (Reason::Password, context), (command, name));
    Err(Fault::Said("WRONGPASS invalid username-password pair or user is disabled."))
}

/// A client is whoever says no name again.
pub fn forget(state: &mut State, client: usize) {
    let lets_in = state.users.lets_in();
    if let Some(session) = state.sessions.get_mut(client) {
        (session.user, session.is_authenticated) = (0, lets_in);
    }
}

/// Whether a client has to say who it is before anything else.
pub fn is_stranger(state: &State, client: usize) -> bool {
    state.users.judges
        && !state.users.lets_in()
        && state.sessions.get(client).is_some_and(|session| !session.is_authenticated)
}

/// A user is this from now on; whether there was room. Its clients are judged by it from their next command on. Those that listen to what
/// it may not listen to any more, or wait for what it may not have, are closed.
pub fn put_user(state: &mut State, user: User) -> bool {
    let Some(place) = state.users.put(user) else { return false };
    state.sessions.are_asked = !state.users.lets_in();
    let State { users, sessions, .. } = state;
    let Some(user) = users.get(place) else { return true };
    for (_, session) in sessions.iter_mut().filter(|(_, session)| session.user == place) {
        let listens = session.channels.iter().all(|name| may_listen(user, name, false))
            && session.shards.iter().all(|name| may_listen(user, name, false))
            && session.patterns.iter().all(|name| may_listen(user, name, true));
        let waits =
            session.blocked.as_deref().is_none_or(|blocked| may_wait(user, session.last_command, &blocked.keys));
        session.is_killed |= !listens || !waits;
    }
    state.kills = true;
    true
}

/// Who says no name has this password from now on, and no other; if it is empty, it needs none.
pub fn set_password(state: &mut State, password: &[u8]) {
    let Some(mut user) = state.users.get(0).cloned() else { return };
    user.passwords.clear();
    user.needs_no_password = password.is_empty();
    if !password.is_empty() {
        user.add_password(Digest::of(password));
    }
    // It is there already, so there is room.
    put_user(state, user);
}

/// Whether a user may execute a command that waits for these keys.
fn may_wait(user: &User, name: &str, keys: &[Box<[u8]>]) -> bool {
    let name = needs::command_name(name);
    let Some((place, command)) = find_place(name.as_bytes()) else { return false };
    let access = needs::access(command, &Args::new(&[], &[]), true);
    let (number, is_allowed) = (needs::number(place), |key: &[u8], user: &User| {
        user.all_selectors().any(|selector| selector.has_key(key, access))
    });
    user.all_selectors().any(|selector| selector.has_number(number)) && keys.iter().all(|key| is_allowed(key, user))
}

/// A user is gone; whether there was one. Its clients are closed; `own`, who asked for it, when it has its answer.
pub fn remove_user(state: &mut State, name: &[u8], own: Option<usize>) -> bool {
    let Some(place) = state.users.remove(name) else { return false };
    state.sessions.are_asked = !state.users.lets_in();
    for (slot, session) in state.sessions.iter_mut().filter(|(_, session)| session.user == place) {
        (session.user, session.is_authenticated) = (0, false);
        if own == Some(slot) {
            session.is_ending = true;
        } else {
            session.is_killed = true;
        }
    }
    state.kills = true;
    true
}
