//! CLIENT: what is known of clients, and what they want.

mod kill;
mod kinds;
mod pausing;
mod tracking;

use crate::commands::connection::name_of;
use crate::commands::serving;
use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::description::line;
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::session::Silence;
use crate::resp::number::integer;
use kinds::is_of;

commands! { "connection":
    "client", -2, [ADMIN], NO_KEYS, "2.4.0", "Tells of clients, and names, ends or pauses them." => client;
}

const HELP: &[(&str, &str)] = &[
    ("CACHING (YES|NO)", "Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes."),
    ("GETREDIR", "Return the client ID we are redirecting to when tracking is enabled."),
    ("GETNAME", "Return the name of the current connection."),
    ("ID", "Return the ID of the current connection."),
    ("INFO", "Return information about the current client connection."),
    ("KILL <ip:port>", "Kill connection made from <ip:port>."),
    ("KILL <option> <value> [<option> <value> [...]]", "Kill connections: ADDR, LADDR, ID, USER, SKIPME, TYPE."),
    ("LIST [TYPE (NORMAL|PUBSUB)] [ID <id> ...]", "Return information about client connections."),
    ("UNPAUSE", "Stop the current client pause, resuming traffic."),
    ("PAUSE <timeout> [WRITE|ALL]", "Suspend all, or just write, clients for <timeout> milliseconds."),
    ("REPLY (ON|OFF|SKIP)", "Control the replies sent to the current connection."),
    ("SETNAME <name>", "Assign the name <name> to the current connection."),
    ("UNBLOCK <clientid> [TIMEOUT|ERROR]", "Unblock the specified blocked client."),
    (
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
        "Control server assisted client side caching.",
    ),
    ("TRACKINGINFO", "Report tracking status for the current connection."),
    ("NO-EVICT (ON|OFF)", "Protect current client connection from eviction: none is evicted here."),
];

/// A subcommand: its name, how many arguments it takes at least and at most, those before it included, and what it does.
type Subcommand = (&'static str, usize, usize, fn(&mut Call<'_>) -> Result<(), Fault>);

const SUBCOMMANDS: &[Subcommand] = &[
    ("caching", 3, 3, tracking::caching),
    ("getname", 2, 2, name),
    ("getredir", 2, 2, tracking::redirection),
    ("help", 2, 2, |call| {
        help::answer(call, "CLIENT", HELP);
        Ok(())
    }),
    ("id", 2, 2, |call| {
        let id = call.session().map_or(0, |session| session.id);
        call.reply.integer(id as i64);
        Ok(())
    }),
    ("info", 2, 2, info),
    ("kill", 3, usize::MAX, kill::kill),
    ("list", 2, usize::MAX, list),
    ("no-evict", 3, 3, keep),
    ("pause", 3, 4, pausing::pause),
    ("reply", 3, 3, reply),
    ("setname", 3, 3, set_name),
    ("tracking", 3, usize::MAX, tracking::tracking),
    ("trackinginfo", 2, 2, tracking::information),
    ("unblock", 3, 4, unblock),
    ("unpause", 2, 2, pausing::unpause),
];

fn client(call: &mut Call<'_>) -> Result<(), Fault> {
    let sub = call.args.at(1);
    let found = SUBCOMMANDS.iter().find(|(name, ..)| name.as_bytes().eq_ignore_ascii_case(sub));
    let (name, least, most, run) = found.ok_or_else(|| help::unknown(call, "CLIENT"))?;
    match (*least..=*most).contains(&call.args.len()) {
        true => run(call),
        false => Err(help::arity("client", name)),
    }
}

fn name(call: &mut Call<'_>) -> Result<(), Fault> {
    let name = call.session().map(|session| session.name.clone()).filter(|name| !name.is_empty());
    call.reply.optional(name.as_deref());
    Ok(())
}

fn set_name(call: &mut Call<'_>) -> Result<(), Fault> {
    let name = name_of(call.args.at(2))?;
    call.session().into_iter().for_each(|session| session.name.clone_from(&name));
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<(), Fault> {
    let slot = call.client;
    let session = call.state.sessions.get(slot);
    let text = session.map(|session| line(call.state, (slot, session), Some(&call.args))).unwrap_or_default();
    call.reply.verbatim(&text);
    Ok(())
}

/// Whether a client is kept when there is too little memory: it is always.
fn keep(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_kept = match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"ON" => true,
        b"OFF" => false,
        _ => return Err(Fault::Syntax),
    };
    call.session().into_iter().for_each(|session| session.is_kept = is_kept);
    call.reply.ok();
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

fn list(call: &mut Call<'_>) -> Result<(), Fault> {
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
    for (slot, session) in call.state.sessions.iter() {
        let is_wanted = if args.len() > 2 && args.is(2, "TYPE") {
            is_of(session, args.at(3))?
        } else {
            ids.is_empty() || ids.contains(&session.id)
        };
        if is_wanted {
            let own = (slot == call.client).then_some(&args);
            text.push_str(&line(call.state, (slot, session), own));
        }
    }
    call.reply.verbatim(&text);
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
    serving::give_up(call.state, slot, is_error);
    call.reply.integer(1);
    Ok(())
}
