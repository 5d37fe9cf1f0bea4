//! XGROUP: groups and their consumers; and XACK.

use crate::commands::streams::delivery::CONSUMER_MADE;
use crate::commands::streams::{find, ids};
use crate::engine::call::Call;
use crate::engine::command::{Keys, ONE, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items::put_id;

commands! { "stream":
    "xgroup", -2, [WRITE], Keys::Range(2, 2, 1), "5.0.0", "A container for consumer groups commands" => xgroup;
    "xack", -4, [WRITE FAST], ONE, "5.0.0", "Marks a pending message as correctly processed, effectively removing it from the pending entries list of the consumer group. Return value of the command is the number of messages successfully acknowledged, that is, the IDs we were actually able to resolve in the PEL."
        => xack;
}

const NO_STREAM: Fault = Fault::Said(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);
const HELP: [(&str, &str); 7] = [
    ("CREATE <key> <groupname> <id|$> [option]", "Create a new consumer group. Options are:"),
    ("    * MKSTREAM", "  Create the empty stream if it does not exist."),
    ("    * ENTRIESREAD entries_read", "  Set the group's entries_read counter (internal use)."),
    ("CREATECONSUMER <key> <groupname> <consumer>", "Create a new consumer in the specified group."),
    ("DELCONSUMER <key> <groupname> <consumer>", "Remove the specified consumer."),
    ("DESTROY <key> <groupname>", "Remove the specified group."),
    ("SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]", "Set the current group ID and entries_read counter."),
];

/// The subcommands: name, the least and the greatest number of arguments.
const SUBCOMMANDS: [(&str, usize, usize); 5] =
    [("CREATE", 5, 8), ("SETID", 5, 7), ("DESTROY", 4, 4), ("CREATECONSUMER", 5, 5), ("DELCONSUMER", 5, 5)];

fn xgroup(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    if args.is(1, "HELP") && args.len() == 2 {
        help::answer(call, "XGROUP", &HELP);
        return Ok(());
    }
    let known = SUBCOMMANDS.iter().find(|(name, ..)| args.is(1, name));
    let (name, least, most) = *known.ok_or_else(|| help::unknown(call, "XGROUP"))?;
    let is_open = matches!(name, "CREATE" | "SETID");
    if args.len() < least || !is_open && args.len() > most {
        return Err(help::arity("xgroup", name));
    }
    let options = if is_open { parse(call, name == "CREATE")? } else { Options::default() };
    let (key, group) = (args.at(2), args.at(3));
    let stream = find::stream(call.state, call.database, key)?;
    if !options.makes {
        let found = stream.ok_or(NO_STREAM)?.group(group);
        if found.is_none() && !matches!(name, "CREATE" | "DESTROY") {
            return Err(find::no_group(key, group));
        }
    }
    if args.len() > most {
        return Err(wrong(call));
    }
    match name {
        "CREATE" => create(call, options),
        "SETID" => {
            let last = match args.at(4) {
                b"$" => stream.map_or(Id::MIN, Stream::last),
                text => ids::or_edge(text, 0)?,
            };
            call.change(Change::Stream { key, what: StreamChange::SetGroup { group, last, read: options.read } });
            call.note(Kinds::STREAM, "xgroup-setid", key);
            call.reply.ok();
            Ok(())
        }
        "DESTROY" => {
            let is_there = stream.is_some_and(|stream| stream.group(group).is_some());
            if is_there {
                call.change(Change::Stream { key, what: StreamChange::DropGroup { group } });
                call.note(Kinds::STREAM, "xgroup-destroy", key);
            }
            call.reply.integer(i64::from(is_there));
            Ok(())
        }
        "CREATECONSUMER" => create_consumer(call),
        _ => delete_consumer(call),
    }
}

/// It has arguments that it does not take.
fn wrong(call: &Call<'_>) -> Fault {
    let said = call.args.at(1);
    let said = String::from_utf8_lossy(said.get(..said.len().min(128)).unwrap_or_default()).into_owned();
    Fault::Told(format!("ERR unknown subcommand or wrong number of arguments for '{said}'. Try XGROUP HELP."))
}

#[derive(Default)]
struct Options {
    /// MKSTREAM: a stream is made.
    makes: bool,
    /// Entries read so far.
    read: Option<u64>,
}

fn parse(call: &Call<'_>, creates: bool) -> Result<Options, Fault> {
    let (mut options, mut index) = (Options::default(), 5);
    while index < call.args.len() {
        if creates && call.args.is(index, "MKSTREAM") {
            options.makes = true;
        } else if call.args.is(index, "ENTRIESREAD") && index + 1 < call.args.len() {
            index += 1;
            options.read = match call.integer(index)? {
                -1 => None,
                read => Some(
                    u64::try_from(read).map_err(|_| Fault::Said("ERR value for ENTRIESREAD must be positive or -1"))?,
                ),
            };
        } else {
            return Err(wrong(call));
        }
        index += 1;
    }
    Ok(options)
}

/// XGROUP is no command that grows, since most of it does not. So what does is looked at here.
fn admit(call: &Call<'_>) -> Result<(), Fault> {
    match find::room(call.state, call.args.bytes()) {
        0 => Err(Fault::Said(
            "OOM command not allowed: the log has no room for it; delete keys, wait for the checkpoint, or use a larger disk",
        )),
        _ => Ok(()),
    }
}

fn create(call: &mut Call<'_>, options: Options) -> Result<(), Fault> {
    let (key, group) = (call.args.at(2), call.args.at(3));
    let stream = find::stream(call.state, call.database, key)?;
    let last = match call.args.at(4) {
        b"$" => stream.map_or(Id::MIN, Stream::last),
        text => ids::strict(text, 0)?,
    };
    let (is_new, is_taken) = (stream.is_none(), stream.is_some_and(|stream| stream.group(group).is_some()));
    if is_taken {
        return Err(Fault::Said("BUSYGROUP Consumer Group name already exists"));
    }
    admit(call)?;
    if is_new {
        let what = StreamChange::SetMarks { last: Id::MIN, added: 0, removed: Id::MIN };
        call.change(Change::Stream { key, what });
    }
    call.change(Change::Stream { key, what: StreamChange::SetGroup { group, last, read: options.read } });
    call.note(Kinds::STREAM, "xgroup-create", key);
    call.reply.ok();
    Ok(())
}

fn create_consumer(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, group, consumer) = (call.args.at(2), call.args.at(3), call.args.at(4));
    let (_, found) = find::group(call.state, call.database, (key, group), "")?;
    let is_new = found.consumer(consumer).is_none();
    if is_new {
        admit(call)?;
        let seen = call.state.keyspace.now_ms;
        call.change(Change::Stream { key, what: StreamChange::SetConsumer { group, consumer, seen } });
        call.note(Kinds::STREAM, CONSUMER_MADE, key);
    }
    call.reply.integer(i64::from(is_new));
    Ok(())
}

fn delete_consumer(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, group, consumer) = (call.args.at(2), call.args.at(3), call.args.at(4));
    let (_, found) = find::group(call.state, call.database, (key, group), "")?;
    let pending = found.consumer(consumer).map(|found| found.pending().len());
    if pending.is_some() {
        call.change(Change::Stream { key, what: StreamChange::DropConsumer { group, consumer } });
        call.note(Kinds::STREAM, "xgroup-delconsumer", key);
    }
    call.reply.length(pending.unwrap_or(0));
    Ok(())
}

fn xack(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, group) = (call.args.at(1), call.args.at(2));
    let stream = find::stream(call.state, call.database, key)?;
    let Some(found) = stream.and_then(|stream| stream.group(group)) else {
        call.reply.integer(0);
        return Ok(());
    };
    let wanted = call.args.from(3).map(|text| ids::strict(text, 0)).collect::<Result<Vec<Id>, Fault>>()?;
    let there: std::collections::BTreeSet<Id> =
        wanted.into_iter().filter(|id| found.pending().contains_key(id)).collect();
    let mut ids = Vec::new();
    there.iter().for_each(|id| put_id(&mut ids, *id));
    if !ids.is_empty() {
        call.change(Change::Stream { key, what: StreamChange::DropPending { group, ids: &ids } });
    }
    call.reply.length(there.len());
    Ok(())
}
