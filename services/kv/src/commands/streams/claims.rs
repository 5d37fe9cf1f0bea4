//! XCLAIM and XAUTOCLAIM: what is pending for one consumer becomes another's.

use crate::commands::streams::{answer, delivery, find, ids};
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::engine::reading::Reader;
use crate::keyspace::change::Change;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::id::Id;
use crate::keyspace::stream::items::{Delivery, put_delivery, put_id};
use crate::resp::number::integer;
use crate::resp::reply::Reply;
use std::ops::Bound;

commands! { "stream":
    "xclaim", -6, [WRITE GROWS FAST], ONE, "5.0.0", "Changes (or acquires) ownership of a message in a consumer group, as if the message was delivered to the specified consumer."
        => xclaim;
    "xautoclaim", -6, [WRITE GROWS FAST], ONE, "6.2.0", "Changes (or acquires) ownership of messages in a consumer group, as if the messages were delivered to the specified consumer."
        => xautoclaim;
}

/// Unless the client says otherwise, XAUTOCLAIM claims so many.
const COUNT: usize = 100;
/// It looks at so many times more.
const ATTEMPTS: usize = 10;

/// What a command claims, and what it finds to be gone.
#[derive(Default)]
struct Claimed {
    ids: Vec<Id>,
    deliveries: Vec<u8>,
    gone: Vec<Id>,
}

impl Claimed {
    fn claim(&mut self, delivery: Delivery) {
        self.ids.push(delivery.id);
        put_delivery(&mut self.deliveries, delivery);
    }

    /// Makes the changes.
    fn change(&self, call: &mut Call<'_>) {
        let (key, group, consumer) = (call.args.at(1), call.args.at(2), call.args.at(3));
        let mut ids = Vec::new();
        self.gone.iter().for_each(|id| put_id(&mut ids, *id));
        if !ids.is_empty() {
            call.change(Change::Stream { key, what: StreamChange::DropPending { group, ids: &ids } });
        }
        if !self.deliveries.is_empty() {
            // A consumer is made when it gets something.
            let reader = Reader { group: group.into(), consumer: consumer.into(), needs_no_acknowledgement: false };
            delivery::see(call.state, (call.database, key), &reader);
            let what = StreamChange::SetPending { group, consumer, deliveries: &self.deliveries };
            call.change(Change::Stream { key, what });
        }
    }

    fn answer(&self, stream: &Stream, is_short: bool, reply: &mut Reply) {
        reply.array(self.ids.len());
        for id in &self.ids {
            match stream.get(*id).filter(|_| !is_short) {
                Some(packed) => answer::entry(reply, *id, packed),
                None => answer::id(reply, *id),
            }
        }
    }
}

/// A number as XCLAIM and its like word it if it is none.
fn number(text: &[u8], name: &str) -> Result<i64, Fault> {
    integer(text).ok_or_else(|| Fault::Told(format!("ERR Invalid {name}")))
}

/// The options of XCLAIM.
struct Options {
    /// When it counts as delivered, if that was said.
    at: Option<i64>,
    retries: Option<u64>,
    forces: bool,
    is_short: bool,
    last: Id,
}

fn parse(call: &Call<'_>, first: usize) -> Result<Options, Fault> {
    let (args, now) = (call.args, call.state.keyspace.now_ms);
    let mut options = Options { at: None, retries: None, forces: false, is_short: false, last: Id::MIN };
    let mut index = first;
    while index < args.len() {
        let has_value = index + 1 < args.len();
        let value = args.at(index + 1);
        if args.is(index, "FORCE") {
            options.forces = true;
        } else if args.is(index, "JUSTID") {
            options.is_short = true;
        } else if args.is(index, "IDLE") && has_value {
            options.at = Some(now.saturating_sub(number(value, "IDLE option argument for XCLAIM")?));
            index += 1;
        } else if args.is(index, "TIME") && has_value {
            options.at = Some(number(value, "TIME option argument for XCLAIM")?);
            index += 1;
        } else if args.is(index, "RETRYCOUNT") && has_value {
            options.retries = u64::try_from(number(value, "RETRYCOUNT option argument for XCLAIM")?).ok();
            index += 1;
        } else if args.is(index, "LASTID") && has_value {
            options.last = ids::strict(value, 0)?;
            index += 1;
        } else {
            let said = String::from_utf8_lossy(args.at(index)).into_owned();
            return Err(Fault::Told(format!("ERR Unrecognized XCLAIM option '{said}'")));
        }
        index += 1;
    }
    Ok(options)
}

fn xclaim(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, database, now) = (call.args, call.database, call.state.keyspace.now_ms);
    let (key, name) = (args.at(1), args.at(2));
    find::group(call.state, database, (key, name), "")?;
    let idle_ms = number(args.at(4), "min-idle-time argument for XCLAIM")?.max(0);
    // What is no id begins the options.
    let wanted: Vec<Id> = args.from(5).map_while(|text| ids::strict(text, 0).ok()).collect();
    let options = parse(call, 5 + wanted.len())?;
    // A time that can't be is now.
    let at = options.at.filter(|at| (0..=now).contains(at)).unwrap_or(now);
    let (stream, group) = find::group(call.state, database, (key, name), "")?;
    let (last, read) = (group.last, group.read);
    let mut claimed = Claimed::default();
    for id in wanted {
        let before = group.pending().get(&id);
        if stream.get(id).is_none() {
            claimed.gone.extend(before.map(|_| id));
            continue;
        }
        let is_idle = before.is_none_or(|before| idle_ms == 0 || now.saturating_sub(before.at) >= idle_ms);
        if !is_idle || before.is_none() && !options.forces {
            continue;
        }
        let count = before.map_or(1, |before| before.count);
        let more = count.saturating_add(u64::from(!options.is_short));
        claimed.claim(Delivery { id, at, count: options.retries.unwrap_or(more) });
    }
    claimed.answer(stream, options.is_short, call.reply);
    if options.last > last {
        let what = StreamChange::SetGroup { group: name, last: options.last, read };
        call.change(Change::Stream { key, what });
    }
    claimed.change(call);
    Ok(())
}

fn xautoclaim(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, database, now) = (call.args, call.database, call.state.keyspace.now_ms);
    let (key, name) = (args.at(1), args.at(2));
    let idle_ms = number(args.at(4), "min-idle-time argument for XAUTOCLAIM")?.max(0);
    let start = ids::start(args.at(5))?;
    let (mut count, mut is_short, mut index) = (COUNT, false, 6);
    while index < args.len() {
        if args.is(index, "COUNT") && index + 1 < args.len() {
            index += 1;
            let said = integer(args.at(index)).and_then(|count| usize::try_from(count).ok());
            let said = said.filter(|count| (1..=i64::MAX as usize / 16).contains(count));
            count = said.ok_or(Fault::Said("ERR COUNT must be > 0"))?;
        } else if args.is(index, "JUSTID") {
            is_short = true;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    let most = count.min(find::room(call.state, args.bytes()));
    let (stream, group) = find::group(call.state, database, (key, name), "")?;
    let mut claimed = Claimed::default();
    let mut left = group.pending().range((Bound::Included(start), Bound::Unbounded));
    for _ in 0..count.saturating_mul(ATTEMPTS) {
        if claimed.ids.len() + claimed.gone.len() >= most {
            break;
        }
        let Some((id, before)) = left.next() else { break };
        if stream.get(*id).is_none() {
            claimed.gone.push(*id);
        } else if idle_ms == 0 || now.saturating_sub(before.at) >= idle_ms {
            let count = before.count.saturating_add(u64::from(!is_short));
            claimed.claim(Delivery { id: *id, at: now, count });
        }
    }
    call.reply.array(3);
    answer::id(call.reply, left.next().map_or(Id::MIN, |(id, _)| *id));
    claimed.answer(stream, is_short, call.reply);
    call.reply.array(claimed.gone.len());
    claimed.gone.iter().for_each(|id| answer::id(call.reply, *id));
    claimed.change(call);
    Ok(())
}
