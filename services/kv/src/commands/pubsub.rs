//! Publish and subscribe.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::listening::channels::Kind;
use crate::engine::listening::publishing::publish;
use crate::engine::scan::matches;
use crate::engine::state::Waits;
use crate::resp::reply::Reply;

commands! { "pubsub":
    "subscribe", -2, [CHANNELS], NO_KEYS, "2.0.0", "Listens for messages published to channels." => |call| subscribe(call, Kind::Channel);
    "psubscribe", -2, [CHANNELS], NO_KEYS, "2.0.0", "Listens for messages published to channels that match one or more patterns."
        => |call| subscribe(call, Kind::Pattern);
    "ssubscribe", -2, [CHANNELS], NO_KEYS, "7.0.0", "Listens for messages published to shard channels." => |call| subscribe(call, Kind::Shard);
    "unsubscribe", -1, [CHANNELS], NO_KEYS, "2.0.0", "Stops listening to messages posted to channels."
        => |call| unsubscribe(call, Kind::Channel);
    "punsubscribe", -1, [CHANNELS], NO_KEYS, "2.0.0", "Stops listening to messages published to channels that match one or more patterns."
        => |call| unsubscribe(call, Kind::Pattern);
    "sunsubscribe", -1, [CHANNELS], NO_KEYS, "7.0.0", "Stops listening to messages posted to shard channels."
        => |call| unsubscribe(call, Kind::Shard);
    "publish", 3, [CHANNELS FAST], NO_KEYS, "2.0.0", "Posts a message to a channel." => |call| post(call, Kind::Channel);
    "spublish", 3, [CHANNELS FAST], NO_KEYS, "7.0.0", "Posts a message to a shard channel." => |call| post(call, Kind::Shard);
    "pubsub", -2, [], NO_KEYS, "2.8.0", "Tells of channels and who listens." => pubsub;
}

/// Channels and patterns of one client, and the bytes of their names, at most.
const SUBSCRIPTIONS_MAX: usize = 64 << 10;
const SUBSCRIPTIONS_BYTES_MAX: usize = 16 << 20;

/// How the answers to SUBSCRIBE and UNSUBSCRIBE of a kind begin.
fn words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Channel => ("subscribe", "unsubscribe"),
        Kind::Pattern => ("psubscribe", "punsubscribe"),
        Kind::Shard => ("ssubscribe", "sunsubscribe"),
    }
}

fn subscribe(call: &mut Call<'_>, kind: Kind) -> Result<(), Fault> {
    let client = call.client;
    if kind == Kind::Shard && call.is_queued {
        return Err(Fault::Said("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    for name in call.args.from(1) {
        let Some(session) = call.state.sessions.get_mut(client) else { break };
        let is_new = !session.names(kind).contains(name);
        let bytes = session.listened_bytes + name.len();
        if is_new && (session.subscriptions() >= SUBSCRIPTIONS_MAX || bytes > SUBSCRIPTIONS_BYTES_MAX) {
            return Err(Fault::Said("ERR too many subscriptions of one client"));
        }
        if is_new {
            session.names(kind).insert(name.into());
            session.listened_bytes = bytes;
        }
        let count = session.told(kind);
        call.state.channels.add(kind, name, client);
        tell(call.reply, words(kind).0, Some(name), count);
    }
    Ok(())
}

fn tell(reply: &mut Reply, what: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(what.as_bytes());
    reply.optional(name);
    reply.length(count);
}

fn unsubscribe(call: &mut Call<'_>, kind: Kind) -> Result<(), Fault> {
    let client = call.client;
    let Some(session) = call.state.sessions.get_mut(client) else { return Ok(()) };
    let names: Vec<Box<[u8]>> = match call.args.len() {
        1 => session.names(kind).iter().cloned().collect(),
        _ => call.args.from(1).map(Box::from).collect(),
    };
    if names.is_empty() {
        let count = session.told(kind);
        tell(call.reply, words(kind).1, None, count);
    }
    for name in names {
        let Some(session) = call.state.sessions.get_mut(client) else { break };
        if session.names(kind).remove(&name) {
            session.listened_bytes -= name.len();
        }
        let count = session.told(kind);
        call.state.channels.remove(kind, &name, client);
        tell(call.reply, words(kind).1, Some(&name), count);
    }
    Ok(())
}

fn post(call: &mut Call<'_>, kind: Kind) -> Result<(), Fault> {
    let count = publish(call.state, kind, call.args.at(1), call.args.at(2), Waits::No);
    call.reply.integer(count);
    Ok(())
}

/// Answers the channels of a kind that somebody listens to, all or those that match.
fn names(call: &mut Call<'_>, kind: Kind) {
    let args = call.args;
    let wanted = |name: &&[u8]| args.len() == 2 || matches(args.at(2), name);
    let names: Vec<&[u8]> = call.state.channels.names(kind).filter(wanted).collect();
    call.reply.array(names.len());
    names.into_iter().for_each(|name| call.reply.bulk(name));
}

/// Answers how many listen to each channel.
fn counts(call: &mut Call<'_>, kind: Kind) {
    call.reply.pairs(call.args.len() - 2);
    for name in call.args.from(2) {
        call.reply.bulk(name);
        call.reply.length(call.state.channels.listeners(kind, name).len());
    }
}

const HELP: [(&str, &str); 5] = [
    ("CHANNELS [<pattern>]", "Return the currently active channels matching a <pattern> (default: '*')."),
    ("NUMPAT", "Return number of subscriptions to patterns."),
    (
        "NUMSUB [<channel> ...]",
        "Return the number of subscribers for the specified channels, excluding pattern subscriptions(default: no channels).",
    ),
    (
        "SHARDCHANNELS [<pattern>]",
        "Return the currently active shard level channels matching a <pattern> (default: '*').",
    ),
    ("SHARDNUMSUB [<shardchannel> ...]", "Return the number of subscribers for the specified shard level channel(s)"),
];

fn pubsub(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    if args.is(1, "CHANNELS") && args.len() <= 3 {
        names(call, Kind::Channel);
    } else if args.is(1, "SHARDCHANNELS") && args.len() <= 3 {
        names(call, Kind::Shard);
    } else if args.is(1, "NUMSUB") {
        counts(call, Kind::Channel);
    } else if args.is(1, "SHARDNUMSUB") {
        counts(call, Kind::Shard);
    } else if args.is(1, "NUMPAT") && args.len() == 2 {
        call.reply.length(call.state.channels.patterns().len());
    } else if args.is(1, "HELP") && args.len() == 2 {
        help::answer(call, "PUBSUB", &HELP);
    } else {
        return Err(help::unknown(call, "PUBSUB"));
    }
    Ok(())
}
