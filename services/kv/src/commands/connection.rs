//! What a client says of itself: PING, AUTH, HELLO, SELECT and their like.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::guard;
use crate::engine::listening::leaving;
use crate::engine::session::Silence;
use crate::engine::users::roster::DEFAULT;
use crate::engine::watching::unwatch;
use crate::keyspace::space::DATABASES;
use crate::resp::number::integer;

commands! { "connection":
    "ping", -1, [FAST CHANNELS], NO_KEYS, "1.0.0", "Returns the server's liveliness response." => ping;
    "echo", 2, [FAST], NO_KEYS, "1.0.0", "Returns the given string." => |call| { call.reply.bulk(call.args.at(1)); Ok(()) };
    "select", 2, [FAST], NO_KEYS, "1.0.0", "Changes the selected database." => select;
    "auth", -2, [FAST], NO_KEYS, "1.0.0", "Authenticates the connection." => auth;
    "hello", -1, [FAST], NO_KEYS, "6.0.0", "Handshakes with the server." => hello;
    "quit", -1, [FAST CHANNELS NO_MULTI], NO_KEYS, "1.0.0", "Closes the connection." => quit;
    "reset", 1, [FAST CHANNELS NO_MULTI], NO_KEYS, "6.2.0", "Resets the connection." => reset;
}

/// Bytes of a client's name. CLIENT LIST tells them of all clients.
const NAME_BYTES_MAX: usize = 1_024;

fn ping(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.args.len() > 2 {
        return Err(Fault::Arity("ping".to_owned()));
    }
    let listens = call.session().is_some_and(|session| session.subscriptions() > 0 && !session.is_three);
    let text = call.args.at(1);
    match (listens, call.args.len()) {
        (true, _) => {
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(text);
        }
        (false, 1) => call.reply.simple("PONG"),
        (false, _) => call.reply.bulk(text),
    }
    Ok(())
}

fn select(call: &mut Call<'_>) -> Result<(), Fault> {
    let number = u8::try_from(call.integer(1)?).ok().filter(|number| *number < DATABASES);
    let database = number.ok_or(Fault::Said("ERR DB index is out of range"))?;
    if let Some(session) = call.session() {
        session.database = database;
    }
    call.reply.ok();
    Ok(())
}

const STRANGER: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
const NO_PASSWORD: Fault = Fault::Said(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
);

fn auth(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, client) = (call.args, call.client);
    let (name, password) = match args.len() {
        2 if call.state.users.get(0).is_none_or(|user| user.needs_no_password) => return Err(NO_PASSWORD),
        2 => (DEFAULT, args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(Fault::Syntax),
    };
    guard::authenticate(call.state, client, args.at(0), (name, password))?;
    call.reply.ok();
    Ok(())
}

/// A name that a client may have.
///
/// # Errors
/// It is none.
pub fn name_of(text: &[u8]) -> Result<Box<[u8]>, Fault> {
    if text.len() > NAME_BYTES_MAX {
        return Err(Fault::Said("ERR Client names cannot be longer than 1024 bytes."));
    }
    match text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(text.into()),
        false => Err(Fault::Said("ERR Client names cannot contain spaces, newlines or special characters.")),
    }
}

fn hello(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut version = None;
    if call.args.len() > 1 {
        let number = integer(call.args.at(1));
        let number = number.ok_or(Fault::Said("ERR Protocol version is not an integer or out of range"))?;
        if !matches!(number, 2 | 3) {
            return Err(Fault::Said("NOPROTO unsupported protocol version"));
        }
        version = Some(number == 3);
    }
    let (mut name, mut user, mut index) = (None, None, 2);
    while index < call.args.len() {
        if call.args.is(index, "AUTH") && index + 2 < call.args.len() {
            user = Some((call.args.at(index + 1), call.args.at(index + 2)));
            index += 3;
        } else if call.args.is(index, "SETNAME") && index + 1 < call.args.len() {
            name = Some(name_of(call.args.at(index + 1))?);
            index += 2;
        } else {
            let option = String::from_utf8_lossy(call.args.at(index));
            return Err(Fault::Told(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    let client = call.client;
    if let Some((user, password)) = user {
        guard::authenticate(call.state, client, call.args.at(0), (user, password))?;
    }
    if guard::is_stranger(call.state, client) {
        return Err(Fault::Said(STRANGER));
    }
    let Some(session) = call.session() else { return Ok(()) };
    session.name = name.unwrap_or(std::mem::take(&mut session.name));
    session.is_three = version.unwrap_or(session.is_three);
    let (id, is_three) = (session.id, session.is_three);
    let reply = &mut *call.reply;
    reply.set_version(is_three);
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", crate::limits::REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if is_three { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id as i64);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn quit(call: &mut Call<'_>) -> Result<(), Fault> {
    if let Some(session) = call.session() {
        session.is_ending = true;
    }
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Result<(), Fault> {
    let client = call.client;
    leaving::leave(call.state, client);
    crate::engine::observer::leave(call.state, client);
    crate::engine::invalidation::leave(call.state, client);
    guard::forget(call.state, client);
    let Some(session) = call.state.sessions.get_mut(client) else { return Ok(()) };
    session.transaction = None;
    session.silence = Silence::Off;
    (session.database, session.is_three, session.name) = (0, false, Box::default());
    unwatch(call.state, client);
    call.reply.set_version(false);
    call.reply.simple("RESET");
    Ok(())
}
