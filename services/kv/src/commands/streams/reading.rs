//! XREAD and XREADGROUP: what they ask for, and what there is of it at once.

use crate::commands::streams::{answer, delivery, find, ids};
use crate::engine::call::Call;
use crate::engine::command::{Keys, commands};
use crate::engine::fault::Fault;
use crate::engine::reading::{Reader, Reading};
use crate::engine::session::Wish;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::id::Id;
use crate::resp::number::integer;

commands! { "stream":
    "xread", -4, [READ BLOCKING], Keys::Streams(1), "5.0.0", "Return never seen elements in multiple streams, with IDs greater than the ones reported by the caller for each stream. Can block."
        => |call| read(call, false);
    "xreadgroup", -7, [WRITE GROWS BLOCKING], Keys::Streams(4), "5.0.0", "Return new entries from a stream using a consumer group, or access the history of the pending entries for a given consumer. Can block."
        => |call| read(call, true);
}

/// What was asked for, before the streams are looked at.
struct Asked {
    /// How long it may wait (ms), if it may.
    timeout: Option<i64>,
    count: usize,
    reader: Option<Reader>,
    /// Where the keys begin.
    keys: usize,
}

fn timeout(text: &[u8]) -> Result<i64, Fault> {
    let ms = integer(text).ok_or(Fault::Said("ERR timeout is not an integer or out of range"))?;
    match ms {
        ..0 => Err(Fault::Said("ERR timeout is negative")),
        _ if ms > i64::MAX / 2 => Err(Fault::Said("ERR timeout is out of range")),
        _ => Ok(ms),
    }
}

fn parse(call: &Call<'_>, is_group: bool) -> Result<Asked, Fault> {
    let args = call.args;
    let mut asked = Asked { timeout: None, count: usize::MAX, reader: None, keys: 0 };
    let (mut needs_no_acknowledgement, mut index) = (false, 1);
    while index < args.len() {
        let more = args.len() - index - 1;
        if args.is(index, "BLOCK") && more > 0 {
            index += 1;
            asked.timeout = Some(timeout(args.at(index))?);
        } else if args.is(index, "COUNT") && more > 0 {
            index += 1;
            // Zero and less mean all.
            asked.count = usize::try_from(call.integer(index)?).ok().filter(|count| *count > 0).unwrap_or(usize::MAX);
        } else if args.is(index, "STREAMS") && more > 0 {
            asked.keys = index + 1;
            break;
        } else if args.is(index, "GROUP") && more > 1 {
            if !is_group {
                return Err(Fault::Said(
                    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                ));
            }
            let (group, consumer) = (args.at(index + 1).into(), args.at(index + 2).into());
            asked.reader = Some(Reader { group, consumer, needs_no_acknowledgement });
            index += 2;
        } else if args.is(index, "NOACK") {
            if !is_group {
                return Err(Fault::Said(
                    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                ));
            }
            needs_no_acknowledgement = true;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    if asked.keys != 0 && !(args.len() - asked.keys).is_multiple_of(2) {
        return Err(Fault::Said(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
        ));
    }
    if asked.keys == 0 {
        return Err(Fault::Syntax);
    }
    if is_group && asked.reader.is_none() {
        return Err(Fault::Said("ERR Missing GROUP option for XREADGROUP"));
    }
    asked.reader.iter_mut().for_each(|reader| reader.needs_no_acknowledgement = needs_no_acknowledgement);
    Ok(asked)
}

/// From which entry on a stream is to be read.
fn after(call: &Call<'_>, key: &[u8], text: &[u8], reader: Option<&Reader>) -> Result<Id, Fault> {
    let stream = find::stream(call.state, call.database, key)?;
    if let Some(reader) = reader {
        find::group(call.state, call.database, (key, &reader.group), " in XREADGROUP with GROUP option")?;
    }
    match (text, reader) {
        (b"$", None) => Ok(stream.map_or(Id::MIN, Stream::last)),
        (b"$", Some(_)) => Err(Fault::Said(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        )),
        (b">", None) => Err(Fault::Said(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        (b">", Some(_)) => Ok(Id::MAX),
        _ => ids::strict(text, 0),
    }
}

/// Whether a stream has something for a reading. A consumer's history is always told, even if it is empty.
fn has_some(call: &Call<'_>, key: &[u8], after: Id, reader: Option<&Reader>) -> Result<bool, Fault> {
    let Some(stream) = find::stream(call.state, call.database, key)? else { return Ok(false) };
    let from = match reader {
        Some(_) if after != Id::MAX => return Ok(true),
        Some(reader) => stream.group(&reader.group).map_or(Id::MAX, |group| group.last),
        None => after,
    };
    Ok(stream.after(from).next().is_some())
}

fn read(call: &mut Call<'_>, is_group: bool) -> Result<(), Fault> {
    let asked = parse(call, is_group)?;
    let (database, args) = (call.database, call.args);
    let keys: Vec<&[u8]> = args.from(asked.keys).take((args.len() - asked.keys) / 2).collect();
    let mut reading = Reading { after: Vec::with_capacity(keys.len()), count: asked.count, reader: asked.reader };
    let reader = reading.reader.clone();
    for (key, text) in keys.iter().zip(args.from(asked.keys + keys.len())) {
        reading.after.push(after(call, key, text, reader.as_ref())?);
    }
    let mut found = Vec::new();
    for (key, after) in keys.iter().zip(&reading.after) {
        if has_some(call, key, *after, reader.as_ref())? {
            // A consumer is made when there is something for it.
            reader.iter().for_each(|reader| delivery::see(call.state, (database, key), reader));
            found.push((*key, *after));
        }
    }
    if found.is_empty() {
        let keys = keys.into_iter().map(Into::into).collect();
        match asked.timeout {
            None => call.reply.null_array(),
            Some(timeout) => call.block(keys, Wish::Read(reading), timeout),
        }
        return Ok(());
    }
    answer::streams(call.reply, found.len());
    for (key, after) in found {
        answer::stream(call.reply, key);
        match &reader {
            None => delivery::plain(call.state, (database, key), after, asked.count, call.reply),
            Some(reader) if after == Id::MAX => {
                delivery::new(call.state, (database, key), reader, asked.count, call.reply);
            }
            Some(reader) => delivery::again(call.state, (database, key), reader, after, asked.count, call.reply),
        }
    }
    Ok(())
}
