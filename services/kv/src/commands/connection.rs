//! What a client says of itself: PING, HELLO, SELECT, CLIENT and their like.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::session::Session;
use crate::engine::session::Silence;
use crate::keyspace::space::DATABASES;
use crate::resp::number::integer;
use crate::resp::request::Args;

commands! { "connection":
    "ping", -1, [FAST CHANNELS], NO_KEYS, "1.0.0", "Returns the server's liveliness response." => ping;
    "echo", 2, [FAST], NO_KEYS, "1.0.0", "Returns the given string." => |call| { call.reply.bulk(call.args.at(1)); Ok(()) };
    "select", 2, [FAST], NO_KEYS, "1.0.0", "Changes the selected database." => select;
    "auth", -2, [FAST], NO_KEYS, "1.0.0", "Authenticates the connection." => auth;
    "hello", -1, [FAST], NO_KEYS, "6.0.0", "Handshakes with the server." => hello;
    "quit", -1, [FAST CHANNELS NO_MULTI], NO_KEYS, "1.0.0", "Closes the connection." => quit;
    "reset", 1, [FAST CHANNELS NO_MULTI], NO_KEYS, "6.2.0", "Resets the connection." => reset;
    "client", -2, [ADMIN], NO_KEYS, "2.4.0", "Tells of clients, and names or ends them." => client;
}

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

const NO_PASSWORD: Fault = Fault::Said(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
);
const NO_USER: Fault = Fault::Said("WRONGPASS invalid username-password pair or user is disabled.");

fn auth(call: &mut Call<'_>) -> Result<(), Fault> {
    match call.args.len() {
        2 => Err(NO_PASSWORD),
        3 if call.args.at(1) == b"default" => {
            call.reply.ok();
            Ok(())
        }
        3 => Err(NO_USER),
        _ => Err(Fault::Syntax),
    }
}

/// A name that a client may have.
fn name_of(text: &[u8]) -> Result<Box<[u8]>, Fault> {
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
    let (mut name, mut index) = (None, 2);
    while index < call.args.len() {
        if call.args.is(index, "AUTH") && index + 2 < call.args.len() {
            if call.args.at(index + 1) != b"default" {
                return Err(NO_USER);
            }
            index += 3;
        } else if call.args.is(index, "SETNAME") && index + 1 < call.args.len() {
            name = Some(name_of(call.args.at(index + 1))?);
            index += 2;
        } else {
            let option = String::from_utf8_lossy(call.args.at(index));
            return Err(Fault::Told(format!("ERR Syntax error in HELLO option '{option}'")));
        }
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
    crate::commands::pubsub::leave(call.state, client);
    crate::engine::observer::leave(call.state, client);
    let Some(session) = call.state.sessions.get_mut(client) else { return Ok(()) };
    session.transaction = None;
    session.silence = Silence::Off;
    let watched = std::mem::take(&mut session.watched);
    (session.database, session.is_three, session.name) = (0, false, Box::default());
    watched.iter().for_each(|(place, _)| call.state.keyspace.watches.unwatch(place));
    call.reply.set_version(false);
    call.reply.simple("RESET");
    Ok(())
}

/// Bytes of a request as it came, if it came as an array.
fn request_bytes(args: &Args<'_>) -> usize {
    let header = |number: usize| 3 + number.to_string().len();
    header(args.len()) + args.from(0).map(|argument| header(argument.len()) + argument.len() + 2).sum::<usize>()
}

/// A line of `CLIENT LIST`; `own`: the request, if it is that of this client. Buffers are those of all clients: none is told as one's own.
fn line((slot, session): (usize, &Session), port: u16, now_ms: i64, own: Option<&Args<'_>>) -> String {
    let (own_bytes, own_arguments) = own.map_or((0, 0), |args| (request_bytes(args), args.bytes()));
    let seconds = |since: i64| (now_ms - since).max(0) / 1_000;
    let queued_bytes = session.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
    let mut flags = String::new();
    if session.is_monitor {
        flags.push('O');
    }
    if session.subscriptions() > 0 {
        flags.push('P');
    }
    if session.transaction.is_some() {
        flags.push('x');
    }
    if session.blocked.is_some() {
        flags.push('b');
    }
    if session.is_ending {
        flags.push('c');
    }
    format!(
        "id={} addr={} laddr=0.0.0.0:{port} fd={slot} name={} age={} idle={} flags={} db={} sub={} psub={} ssub=0 multi={} qbuf={own_bytes} \
         qbuf-free=0 argv-mem={own_arguments} multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem={} events=r cmd={} user=default \
         redir=-1 resp={}\n",
        session.id,
        session.peer,
        String::from_utf8_lossy(&session.name),
        seconds(session.since_ms),
        seconds(session.last_ms),
        if flags.is_empty() { "N" } else { &flags },
        session.database,
        session.channels.len(),
        session.patterns.len(),
        session.transaction.as_ref().map_or(-1, |transaction| transaction.queued.len() as i64),
        queued_bytes,
        queued_bytes + own_arguments,
        session.last_command,
        if session.is_three { 3 } else { 2 },
    )
}

fn client(call: &mut Call<'_>) -> Result<(), Fault> {
    let sub = String::from_utf8_lossy(call.args.at(1)).to_ascii_uppercase();
    let now_ms = call.state.keyspace.now_ms;
    let takes = |least: usize, most: usize| match (least..=most).contains(&call.args.len()) {
        true => Ok(()),
        false => Err(help::arity("client", &sub)),
    };
    match sub.as_str() {
        "ID" => {
            takes(2, 2)?;
            let id = call.session().map_or(0, |session| session.id);
            call.reply.integer(id as i64);
        }
        "GETNAME" => {
            takes(2, 2)?;
            let name = call.session().map(|session| session.name.clone()).filter(|name| !name.is_empty());
            call.reply.optional(name.as_deref());
        }
        "SETNAME" => {
            takes(3, 3)?;
            let name = name_of(call.args.at(2))?;
            call.session().into_iter().for_each(|session| session.name.clone_from(&name));
            call.reply.ok();
        }
        "INFO" => {
            takes(2, 2)?;
            let (slot, port) = (call.client, call.state.settings.port);
            let session = call.state.sessions.get(slot);
            let text = session.map(|session| line((slot, session), port, now_ms, Some(&call.args))).unwrap_or_default();
            call.reply.verbatim(&text);
        }
        "LIST" => list(call, now_ms)?,
        "KILL" => {
            takes(3, usize::MAX)?;
            kill(call)?;
        }
        "REPLY" => {
            takes(3, 3)?;
            reply(call)?;
        }
        "UNBLOCK" => {
            takes(3, 4)?;
            unblock(call)?;
        }
        "HELP" => help::answer(
            call,
            "CLIENT",
            &[
                ("GETNAME", "Return the name of the current connection."),
                ("ID", "Return the ID of the current connection."),
                ("INFO", "Return information about the current client connection."),
                ("KILL <ip:port>", "Kill connection made from <ip:port>."),
                ("KILL <option> <value> [<option> <value> [...]]", "Kill connections: ADDR, ID, SKIPME, MAXAGE, TYPE."),
                ("LIST [TYPE (NORMAL|PUBSUB)] [ID <id> ...]", "Return information about client connections."),
                ("REPLY (ON|OFF|SKIP)", "Control the replies sent to the current connection."),
                ("SETNAME <name>", "Assign the name <name> to the current connection."),
                ("UNBLOCK <clientid> [TIMEOUT|ERROR]", "Unblock the specified blocked client."),
            ],
        ),
        _ => return Err(help::unknown(call, "CLIENT")),
    }
    Ok(())
}

/// Whether the client is to hear answers from now on; only if it is, this is answered.
fn reply(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_on = call.args.is(2, "ON");
    let wanted = match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"ON" => Silence::Off,
        b"OFF" => Silence::On,
        b"SKIP" => Silence::Next,
        _ => return Err(Fault::Syntax),
    };
    if let Some(session) = call.session()
        && !(wanted == Silence::Next && session.silence == Silence::On)
    {
        session.silence = wanted;
    }
    if is_on {
        call.reply.ok();
    }
    Ok(())
}

/// Whether a client is of a type that Redis knows. There are no replicas here.
fn is_of(session: &Session, kind: &[u8]) -> Result<bool, Fault> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(session.subscriptions() == 0),
        b"pubsub" => Ok(session.subscriptions() > 0),
        b"master" | b"replica" | b"slave" => Ok(false),
        _ => Err(Fault::Told(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(kind)))),
    }
}

fn list(call: &mut Call<'_>, now_ms: i64) -> Result<(), Fault> {
    let args = call.args;
    let mut text = String::new();
    let ids: Vec<u64> = match args.len() {
        2 => Vec::new(),
        4 if args.is(2, "TYPE") => Vec::new(),
        4.. if args.is(2, "ID") => {
            let ids = args.from(3).map(|id| integer(id).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0));
            ids.collect::<Option<_>>().ok_or(Fault::Said("ERR Invalid client ID"))?
        }
        _ => return Err(Fault::Syntax),
    };
    let port = call.state.settings.port;
    for (slot, session) in call.state.sessions.iter() {
        let is_wanted = if args.len() > 2 && args.is(2, "TYPE") {
            is_of(session, args.at(3))?
        } else {
            ids.is_empty() || ids.contains(&session.id)
        };
        if is_wanted {
            let own = (slot == call.client).then_some(&args);
            text.push_str(&line((slot, session), port, now_ms, own));
        }
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn kill(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, own) = (call.args, call.client);
    if args.len() == 3 {
        let wanted = String::from_utf8_lossy(args.at(2)).into_owned();
        let found = call.state.sessions.iter_mut().find(|(_, session)| session.peer.to_string() == wanted);
        let (slot, session) = found.ok_or(Fault::Said("ERR No such client"))?;
        if slot == own {
            session.is_ending = true
        } else {
            session.is_killed = true
        }
        call.state.kills = true;
        call.reply.ok();
        return Ok(());
    }
    if !args.len().is_multiple_of(2) {
        return Err(Fault::Syntax);
    }
    let mut skips_own = true;
    for index in (2..args.len()).step_by(2) {
        let value = args.at(index + 1);
        if args.is(index, "ID") {
            integer(value).filter(|id| *id > 0).ok_or(Fault::Said("ERR client-id should be greater than 0"))?;
        } else if args.is(index, "SKIPME") {
            skips_own = match value.to_ascii_lowercase().as_slice() {
                b"yes" => true,
                b"no" => false,
                _ => return Err(Fault::Syntax),
            };
        } else if args.is(index, "TYPE") {
            is_of(&Session::new(0, std::net::SocketAddr::from(([0; 4], 0)), 0), value)?;
        } else if args.is(index, "USER") {
            if value != b"default" {
                return Err(Fault::Told(format!("ERR No such user '{}'", String::from_utf8_lossy(value))));
            }
        } else if !args.is(index, "ADDR") {
            return Err(Fault::Syntax);
        }
    }
    let mut count = 0;
    for (slot, session) in call.state.sessions.iter_mut() {
        let is_meant = (2..args.len()).step_by(2).all(|index| {
            let value = args.at(index + 1);
            match args.at(index).to_ascii_uppercase().as_slice() {
                b"ID" => integer(value) == Some(session.id as i64),
                b"ADDR" => session.peer.to_string().as_bytes() == value,
                b"TYPE" => is_of(session, value).unwrap_or(false),
                _ => true,
            }
        });
        if is_meant && !(skips_own && slot == own) {
            if slot == own {
                session.is_ending = true
            } else {
                session.is_killed = true
            }
            count += 1;
        }
    }
    call.state.kills = true;
    call.reply.integer(count);
    Ok(())
}

fn unblock(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_error = match call.args.len() {
        3 => false,
        _ if call.args.is(3, "TIMEOUT") => false,
        _ if call.args.is(3, "ERROR") => true,
        _ => return Err(Fault::Said("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = call.integer(2)?;
    let found = call.state.sessions.iter().find(|(_, session)| session.id as i64 == id && session.blocked.is_some());
    let Some(slot) = found.map(|(slot, _)| slot) else {
        call.reply.integer(0);
        return Ok(());
    };
    crate::commands::serving::give_up(call.state, slot, is_error);
    call.reply.integer(1);
    Ok(())
}
