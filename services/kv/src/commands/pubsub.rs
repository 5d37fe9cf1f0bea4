//! Publish and subscribe.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::scan::matches;
use crate::engine::state::State;
use crate::resp::reply::Reply;
use bytes::Bytes;

commands! { "pubsub":
    "subscribe", -2, [CHANNELS], NO_KEYS, "2.0.0", "Listens for messages published to channels." => |call| subscribe(call, false);
    "psubscribe", -2, [CHANNELS], NO_KEYS, "2.0.0", "Listens for messages published to channels that match one or more patterns."
        => |call| subscribe(call, true);
    "unsubscribe", -1, [CHANNELS], NO_KEYS, "2.0.0", "Stops listening to messages posted to channels."
        => |call| unsubscribe(call, false);
    "punsubscribe", -1, [CHANNELS], NO_KEYS, "2.0.0", "Stops listening to messages published to channels that match one or more patterns."
        => |call| unsubscribe(call, true);
    "publish", 3, [CHANNELS FAST], NO_KEYS, "2.0.0", "Posts a message to a channel." => publish;
    "pubsub", -2, [], NO_KEYS, "2.8.0", "Tells of channels and who listens." => pubsub;
}

/// Channels and patterns of one client, at most.
const SUBSCRIPTIONS_MAX: usize = 64 << 10;

fn subscribe(call: &mut Call<'_>, is_pattern: bool) -> Result<(), Fault> {
    let client = call.client;
    for name in call.args.from(1) {
        let Some(session) = call.state.sessions.get_mut(client) else { break };
        if session.subscriptions() >= SUBSCRIPTIONS_MAX {
            return Err(Fault::Said("ERR too many subscriptions of one client"));
        }
        let names = if is_pattern { &mut session.patterns } else { &mut session.channels };
        names.insert(name.into());
        let count = session.subscriptions();
        call.state.channels.add(is_pattern, name, client);
        tell(call.reply, if is_pattern { "psubscribe" } else { "subscribe" }, Some(name), count);
    }
    Ok(())
}

fn tell(reply: &mut Reply, what: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(what.as_bytes());
    reply.optional(name);
    reply.length(count);
}

fn unsubscribe(call: &mut Call<'_>, is_pattern: bool) -> Result<(), Fault> {
    let what = if is_pattern { "punsubscribe" } else { "unsubscribe" };
    let client = call.client;
    let Some(session) = call.state.sessions.get_mut(client) else { return Ok(()) };
    let own = if is_pattern { &session.patterns } else { &session.channels };
    let names: Vec<Box<[u8]>> = match call.args.len() {
        1 => own.iter().cloned().collect(),
        _ => call.args.from(1).map(Box::from).collect(),
    };
    if names.is_empty() {
        let count = session.subscriptions();
        tell(call.reply, what, None, count);
    }
    for name in names {
        let Some(session) = call.state.sessions.get_mut(client) else { break };
        let own = if is_pattern { &mut session.patterns } else { &mut session.channels };
        own.remove(&name);
        let count = session.subscriptions();
        call.state.channels.remove(is_pattern, &name, client);
        tell(call.reply, what, Some(&name), count);
    }
    Ok(())
}

/// A client listens to nothing any more: it goes, or is reset.
pub fn leave(state: &mut State, client: usize) {
    let Some(session) = state.sessions.get_mut(client) else { return };
    for name in std::mem::take(&mut session.channels) {
        state.channels.remove(false, &name, client);
    }
    for name in std::mem::take(&mut session.patterns) {
        state.channels.remove(true, &name, client);
    }
}

/// A message as a client that speaks this version gets it.
fn message(is_three: bool, pattern: Option<&[u8]>, channel: &[u8], text: &[u8]) -> Bytes {
    let mut reply = Reply::default();
    reply.set_version(is_three);
    reply.push(3 + usize::from(pattern.is_some()));
    reply.bulk(if pattern.is_some() { b"pmessage" } else { b"message" });
    pattern.into_iter().for_each(|pattern| reply.bulk(pattern));
    reply.bulk(channel);
    reply.bulk(text);
    reply.take().next().unwrap_or_default()
}

fn publish(call: &mut Call<'_>) -> Result<(), Fault> {
    let (channel, text) = (call.args.at(1), call.args.at(2));
    let State { channels, sessions, outbox, .. } = &mut *call.state;
    let mut count = 0;
    let mut give = |listeners: &mut dyn Iterator<Item = usize>, pattern: Option<&[u8]>| {
        // It is written once for each version of the protocol.
        let mut written: [Option<Bytes>; 2] = [None, None];
        for client in listeners {
            let Some(session) = sessions.get(client) else { continue };
            let [two, three] = &mut written;
            let place = if session.is_three { three } else { two };
            let bytes = place.get_or_insert_with(|| message(session.is_three, pattern, channel, text));
            outbox.push((client, bytes.clone(), false));
            count += 1;
        }
    };
    give(&mut channels.listeners(channel), None);
    for (pattern, clients) in channels.patterns().filter(|(pattern, _)| matches(pattern, channel)) {
        give(&mut clients.iter().copied(), Some(pattern));
    }
    call.reply.integer(count);
    Ok(())
}

fn pubsub(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    let channels = &call.state.channels;
    if args.is(1, "CHANNELS") && args.len() <= 3 {
        let wanted = |name: &&[u8]| args.len() == 2 || matches(args.at(2), name);
        let names: Vec<&[u8]> = channels.names().filter(wanted).collect();
        call.reply.array(names.len());
        names.into_iter().for_each(|name| call.reply.bulk(name));
    } else if args.is(1, "NUMSUB") {
        call.reply.pairs(args.len() - 2);
        for name in args.from(2) {
            call.reply.bulk(name);
            call.reply.length(channels.listeners(name).len());
        }
    } else if args.is(1, "NUMPAT") && args.len() == 2 {
        call.reply.length(channels.patterns().len());
    } else if args.is(1, "HELP") && args.len() == 2 {
        let lines = [
            ("CHANNELS [<pattern>]", "Return the currently active channels matching a <pattern> (default: '*')."),
            ("NUMPAT", "Return number of subscriptions to patterns."),
            (
                "NUMSUB [<channel> ...]",
                "Return the number of subscribers for the specified channels, excluding pattern subscriptions.",
            ),
        ];
        help::answer(call, "PUBSUB", &lines);
    } else {
        return Err(help::unknown(call, "PUBSUB"));
    }
    Ok(())
}
