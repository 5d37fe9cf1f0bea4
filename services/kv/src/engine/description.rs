//! A line of `CLIENT LIST`: what is told of a client.

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::resp::request::Args;

/// Bytes of a request as it came, if it came as an array.
fn request_bytes(args: &Args<'_>) -> usize {
    let header = |number: usize| 3 + number.to_string().len();
    header(args.len()) + args.from(0).map(|argument| header(argument.len()) + argument.len() + 2).sum::<usize>()
}

fn flags(session: &Session) -> String {
    let tracker = session.tracker.as_deref();
    let flags: String = [
        (session.is_monitor, 'O'),
        (session.subscriptions() > 0, 'P'),
        (session.transaction.is_some(), 'x'),
        (session.blocked.is_some(), 'b'),
        (tracker.is_some(), 't'),
        (tracker.is_some_and(|tracker| tracker.is_broken), 'R'),
        (tracker.is_some_and(|tracker| tracker.is_broadcast), 'B'),
        (session.is_ending, 'c'),
        (session.is_kept, 'e'),
    ]
    .into_iter()
    .filter(|(is_so, _)| *is_so)
    .map(|(_, flag)| flag)
    .collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

/// A line; `own`: the request, if it is that of this client. Buffers are those of all clients: none is told as one's own.
pub fn line(state: &State, (slot, session): (usize, &Session), own: Option<&Args<'_>>) -> String {
    let (own_bytes, own_arguments) = own.map_or((0, 0), |args| (request_bytes(args), args.bytes()));
    let now_ms = state.keyspace.now_ms;
    let seconds = |since: i64| (now_ms - since).max(0) / 1_000;
    let queued_bytes = session.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
    format!(
        "id={} addr={} laddr=0.0.0.0:{} fd={slot} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={own_bytes} \
         qbuf-free=0 argv-mem={own_arguments} multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem={} events=r cmd={} user={} \
         redir={} resp={}\n",
        session.id,
        session.peer,
        state.settings.port,
        String::from_utf8_lossy(&session.name),
        seconds(session.since_ms),
        seconds(session.last_ms),
        flags(session),
        session.database,
        session.channels.len(),
        session.patterns.len(),
        session.shards.len(),
        session.transaction.as_ref().map_or(-1, |transaction| transaction.queued.len() as i64),
        queued_bytes,
        queued_bytes + own_arguments,
        session.last_command,
        String::from_utf8_lossy(state.users.name(session.user)),
        session.tracker.as_ref().map_or(-1, |tracker| tracker.redirect as i64),
        if session.is_three { 3 } else { 2 },
    )
}
