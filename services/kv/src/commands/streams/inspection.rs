//! XINFO: what there is of a stream, its groups, and their consumers.

use crate::commands::streams::{answer, find};
use crate::engine::call::Call;
use crate::engine::command::{Keys, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::group::Group;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::progress::lag;
use crate::resp::reply::Reply;

commands! { "stream":
    "xinfo", -2, [READ], Keys::Range(2, 2, 1), "5.0.0", "A container for stream introspection commands" => xinfo;
}

const HELP: [(&str, &str); 3] = [
    ("CONSUMERS <key> <groupname>", "Show consumers of <groupname>."),
    ("GROUPS <key>", "Show the stream consumer groups."),
    ("STREAM <key> [FULL [COUNT <count>]", "Show information about the stream."),
];
/// Redis keeps so many entries in a node of its tree.
const NODE_ENTRIES: usize = 100;
/// So many entries are told in full, unless the client says otherwise.
const FULL_COUNT: usize = 10;

fn xinfo(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    if args.is(1, "HELP") && args.len() == 2 {
        help::answer(call, "XINFO", &HELP);
        return Ok(());
    }
    let name = ["STREAM", "GROUPS", "CONSUMERS"].into_iter().find(|name| args.is(1, name));
    let name = name.ok_or_else(|| help::unknown(call, "XINFO"))?;
    let is_taken = match name {
        "STREAM" => args.len() >= 3,
        "GROUPS" => args.len() == 3,
        _ => args.len() == 4,
    };
    if !is_taken {
        return Err(help::arity("xinfo", name));
    }
    let (key, now_ms) = (args.at(2), call.state.keyspace.now_ms);
    let stream = find::stream(call.state, call.database, key)?.ok_or(Fault::NoKey)?;
    match name {
        "STREAM" => match full(call)? {
            None => short(stream, call.reply),
            Some(count) => in_full(stream, count, call.reply),
        },
        "GROUPS" => groups(stream, call.reply),
        _ => {
            let group = stream.group(args.at(3)).ok_or_else(|| find::no_group(key, args.at(3)))?;
            consumers(group, now_ms, call.reply);
        }
    }
    Ok(())
}

/// How many entries are to be told in full, if it is to be in full.
fn full(call: &Call<'_>) -> Result<Option<usize>, Fault> {
    let args = call.args;
    match args.len() {
        3 => Ok(None),
        4 if args.is(3, "FULL") => Ok(Some(FULL_COUNT)),
        6 if args.is(3, "FULL") && args.is(4, "COUNT") => match usize::try_from(call.integer(5)?) {
            Ok(0) => Ok(Some(usize::MAX)),
            Ok(count) => Ok(Some(count)),
            Err(_) => Ok(Some(FULL_COUNT)),
        },
        _ => Err(Fault::Told(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try XINFO HELP.",
            String::from_utf8_lossy(args.at(1))
        ))),
    }
}

fn number(reply: &mut Reply, name: &str, number: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(number);
}

/// A number that may be unknown.
fn known(reply: &mut Reply, name: &str, found: Option<i64>) {
    match found {
        Some(found) => number(reply, name, found),
        None => {
            reply.bulk(name.as_bytes());
            reply.null();
        }
    }
}

fn id(reply: &mut Reply, name: &str, id: Id) {
    reply.bulk(name.as_bytes());
    answer::id(reply, id);
}

fn marks(stream: &Stream, reply: &mut Reply) {
    let nodes = stream.len().div_ceil(NODE_ENTRIES) as i64;
    number(reply, "length", stream.len() as i64);
    number(reply, "radix-tree-keys", nodes);
    number(reply, "radix-tree-nodes", nodes + 1);
    id(reply, "last-generated-id", stream.last());
    id(reply, "max-deleted-entry-id", stream.removed());
    number(reply, "entries-added", stream.added() as i64);
    id(reply, "recorded-first-entry-id", stream.first());
}

fn short(stream: &Stream, reply: &mut Reply) {
    reply.map(10);
    marks(stream, reply);
    number(reply, "groups", stream.groups().len() as i64);
    let mut all = stream.range(Id::MIN, Id::MAX);
    let first = all.next();
    for (name, found) in [("first-entry", first), ("last-entry", all.next_back().or(first))] {
        reply.bulk(name.as_bytes());
        match found {
            Some((id, packed)) => answer::entry(reply, id, packed),
            None => reply.null(),
        }
    }
}

fn in_full(stream: &Stream, count: usize, reply: &mut Reply) {
    reply.map(9);
    marks(stream, reply);
    reply.bulk(b"entries");
    let found: Vec<(Id, &[u8])> = stream.range(Id::MIN, Id::MAX).take(count).collect();
    answer::entries(reply, &found);
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        id(reply, "last-delivered-id", group.last);
        known(reply, "entries-read", group.read.map(|read| read as i64));
        known(reply, "lag", lag(stream, group));
        number(reply, "pel-count", group.pending().len() as i64);
        reply.bulk(b"pending");
        reply.array(group.pending().len().min(count));
        for (pending_id, pending) in group.pending().iter().take(count) {
            reply.array(4);
            answer::id(reply, *pending_id);
            reply.bulk(&pending.consumer);
            reply.integer(pending.at);
            reply.integer(pending.count as i64);
        }
        consumers_in_full(group, count, reply);
    }
}

fn consumers_in_full(group: &Group, count: usize, reply: &mut Reply) {
    reply.bulk(b"consumers");
    reply.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name);
        number(reply, "seen-time", consumer.seen);
        number(reply, "pel-count", consumer.pending().len() as i64);
        reply.bulk(b"pending");
        let found = || consumer.pending().iter().take(count).filter_map(|id| Some((*id, group.pending().get(id)?)));
        reply.array(found().count());
        for (pending_id, pending) in found() {
            reply.array(3);
            answer::id(reply, pending_id);
            reply.integer(pending.at);
            reply.integer(pending.count as i64);
        }
    }
}

fn groups(stream: &Stream, reply: &mut Reply) {
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        number(reply, "consumers", group.consumers().len() as i64);
        number(reply, "pending", group.pending().len() as i64);
        id(reply, "last-delivered-id", group.last);
        known(reply, "entries-read", group.read.map(|read| read as i64));
        known(reply, "lag", lag(stream, group));
    }
}

fn consumers(group: &Group, now_ms: i64, reply: &mut Reply) {
    reply.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(name);
        number(reply, "pending", consumer.pending().len() as i64);
        number(reply, "idle", now_ms.saturating_sub(consumer.seen).max(0));
    }
}
