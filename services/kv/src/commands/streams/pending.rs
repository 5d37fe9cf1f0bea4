//! XPENDING: what a group has delivered, and nobody has acknowledged.

use crate::commands::streams::{answer, find, ids};
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::stream::group::{Group, Pending};
use crate::keyspace::stream::id::Id;
use crate::resp::reply::Reply;

commands! { "stream":
    "xpending", -3, [READ], ONE, "5.0.0", "Return information and entries from a stream consumer group pending entries list, that are messages fetched but never acknowledged."
        => xpending;
}

fn xpending(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    if args.len() != 3 && !(6..=9).contains(&args.len()) {
        return Err(Fault::Syntax);
    }
    let wanted = if args.len() > 3 { Some(Wanted::parse(call)?) } else { None };
    let (_, group) = find::group(call.state, call.database, (args.at(1), args.at(2)), "")?;
    match wanted {
        None => summary(group, call.reply),
        Some(wanted) => wanted.answer(group, call.state.keyspace.now_ms, call.reply),
    }
    Ok(())
}

fn summary(group: &Group, reply: &mut Reply) {
    let pending = group.pending();
    reply.array(4);
    reply.length(pending.len());
    let (Some((first, _)), Some((last, _))) = (pending.first_key_value(), pending.last_key_value()) else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    answer::id(reply, *first);
    answer::id(reply, *last);
    let having = || group.consumers().filter(|(_, consumer)| !consumer.pending().is_empty());
    reply.array(having().count());
    for (name, consumer) in having() {
        reply.array(2);
        reply.bulk(name);
        reply.bulk(itoa::Buffer::new().format(consumer.pending().len()).as_bytes());
    }
}

/// Which of them are wanted.
struct Wanted<'a> {
    start: Id,
    end: Id,
    count: usize,
    idle_ms: i64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    fn parse(call: &Call<'a>) -> Result<Wanted<'a>, Fault> {
        let (args, mut first, mut idle_ms) = (call.args, 3, 0);
        if args.is(3, "IDLE") {
            idle_ms = call.integer(4)?;
            if args.len() < 8 {
                return Err(Fault::Syntax);
            }
            first = 5;
        }
        let count = usize::try_from(call.integer(first + 2)?).unwrap_or(0);
        let (start, end) = (ids::start(args.at(first))?, ids::end(args.at(first + 1))?);
        let consumer = (args.len() > first + 3).then(|| args.at(first + 3));
        Ok(Wanted { start, end, count, idle_ms, consumer })
    }

    fn answer(&self, group: &Group, now_ms: i64, reply: &mut Reply) {
        let is_idle = |pending: &Pending| self.idle_ms == 0 || now_ms.saturating_sub(pending.at) >= self.idle_ms;
        let found: Vec<(Id, &Pending)> = if self.start > self.end {
            Vec::new()
        } else if let Some(name) = self.consumer {
            let own = group.consumer(name).into_iter().flat_map(|it| it.pending().range(self.start..=self.end));
            let own = own.filter_map(|id| Some((*id, group.pending().get(id)?)));
            own.filter(|(_, pending)| is_idle(pending)).take(self.count).collect()
        } else {
            let all = group.pending().range(self.start..=self.end).map(|(id, pending)| (*id, pending));
            all.filter(|(_, pending)| is_idle(pending)).take(self.count).collect()
        };
        reply.array(found.len());
        for (id, pending) in found {
            reply.array(4);
            answer::id(reply, id);
            reply.bulk(&pending.consumer);
            reply.integer(now_ms.saturating_sub(pending.at).max(0));
            reply.integer(pending.count as i64);
        }
    }
}
