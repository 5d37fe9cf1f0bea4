//! A message reaches those who listen.

use crate::engine::listening::channels::Kind;
use crate::engine::listening::leaving::close;
use crate::engine::state::{State, Waits};
use crate::glob::matches;
use crate::resp::reply::Reply;
use bytes::Bytes;

/// A message as a client that speaks this version gets it.
fn message(is_three: bool, word: &str, pattern: Option<&[u8]>, (channel, text): (&[u8], &[u8])) -> Bytes {
    let mut reply = Reply::default();
    reply.set_version(is_three);
    reply.push(3 + usize::from(pattern.is_some()));
    reply.bulk(word.as_bytes());
    pattern.into_iter().for_each(|pattern| reply.bulk(pattern));
    reply.bulk(channel);
    reply.bulk(text);
    reply.take().next().unwrap_or_default()
}

/// Sends a text to all who listen to a channel; how many they are. `waits`: what the message waits for. Those for whom there is no room
/// are closed: a script or a transaction may publish for ever.
pub fn publish(state: &mut State, kind: Kind, channel: &[u8], text: &[u8], waits: Waits) -> i64 {
    let State { channels, sessions, outbox, outbox_max, .. } = state;
    let (mut count, mut missing) = (0, Vec::new());
    let mut give = |listeners: &mut dyn Iterator<Item = usize>, word: &str, pattern: Option<&[u8]>| {
        // It is written once for each version of the protocol.
        let mut written: [Option<Bytes>; 2] = [None, None];
        for client in listeners {
            let Some(session) = sessions.get(client) else { continue };
            if outbox.len() >= *outbox_max {
                missing.push(client);
                continue;
            }
            let [two, three] = &mut written;
            let place = if session.is_three { three } else { two };
            let bytes = place.get_or_insert_with(|| message(session.is_three, word, pattern, (channel, text)));
            outbox.push((client, bytes.clone(), waits));
            count += 1;
        }
    };
    if kind == Kind::Shard {
        give(&mut channels.listeners(kind, channel), "smessage", None);
    } else {
        give(&mut channels.listeners(Kind::Channel, channel), "message", None);
        for (pattern, clients) in channels.patterns().filter(|(pattern, _)| matches(pattern, channel)) {
            give(&mut clients.iter().copied(), "pmessage", Some(pattern));
        }
    }
    missing.into_iter().for_each(|client| close(state, client));
    count
}
