//! What changes the entries of a stream: XADD, XDEL, XTRIM, XSETID; and XLEN.

use crate::commands::streams::ids::NewId;
use crate::commands::streams::trimming::Trim;
use crate::commands::streams::{answer, find, ids, trimming};
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::stream::change::StreamChange;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::fields;
use crate::keyspace::stream::id::Id;

commands! { "stream":
    "xadd", -5, [WRITE GROWS FAST], ONE, "5.0.0", "Appends a new entry to a stream" => xadd;
    "xlen", 2, [READ FAST], ONE, "5.0.0", "Return the number of entries in a stream" => xlen;
    "xdel", -3, [WRITE FAST], ONE, "5.0.0", "Removes the specified entries from the stream. Returns the number of items actually deleted, that may be different from the number of IDs passed in case certain IDs do not exist."
        => xdel;
    "xtrim", -4, [WRITE], ONE, "5.0.0", "Trims the stream to (approximately if '~' is passed) a certain size" => xtrim;
    "xsetid", -3, [WRITE GROWS FAST], ONE, "5.0.0", "An internal command for replicating stream values" => xsetid;
}

const TOO_SMALL: Fault =
    Fault::Said("ERR The ID specified in XADD is equal or smaller than the target stream top item");

/// The id of a new entry, as the client wants it.
fn id_of(wanted: NewId, last: Id, now_ms: i64) -> Result<Id, Fault> {
    if last == Id::MAX {
        return Err(Fault::Said("ERR The stream has exhausted the last possible ID, unable to add more items"));
    }
    let found = match wanted {
        NewId::Next => {
            let ms = now_ms.max(0) as u64;
            if ms > last.ms { Some(Id { ms, number: 0 }) } else { last.next() }
        }
        NewId::NextOf(ms) if ms == last.ms => last.number.checked_add(1).map(|number| Id { ms, number }),
        NewId::NextOf(ms) => Some(Id { ms, number: 0 }),
        NewId::This(id) => Some(id),
    };
    found.filter(|id| *id > last).ok_or(TOO_SMALL)
}

fn xadd(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, args) = (call.args.at(1), call.args);
    let options = trimming::parse(&args, true, call.state.keyspace.shapes().stream_entries())?;
    let pieces = args.len().saturating_sub(options.end + 1);
    if pieces < 2 || !pieces.is_multiple_of(2) {
        return Err(Fault::Arity("xadd".to_owned()));
    }
    if options.id == NewId::This(Id::MIN) {
        return Err(Fault::Said("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let stream = find::stream(call.state, call.database, key)?;
    if stream.is_none() && options.makes_none {
        call.reply.null();
        return Ok(());
    }
    let id = id_of(options.id, stream.map_or(Id::MIN, Stream::last), call.state.keyspace.now_ms)?;
    let fields = fields::pack(args.from(options.end + 1));
    call.change(Change::Stream { key, what: StreamChange::Append { id, fields: &fields } });
    call.note(Kinds::STREAM, "xadd", key);
    trim(call, key, options.trim)?;
    answer::id(call.reply, id);
    Ok(())
}

/// Makes a stream shorter, and says by how many entries.
fn trim(call: &mut Call<'_>, key: &[u8], trim: Option<Trim>) -> Result<usize, Fault> {
    let stream = find::stream(call.state, call.database, key)?;
    let Some((through, count)) = trim.zip(stream).and_then(|(trim, stream)| trim.through(stream)) else { return Ok(0) };
    call.change(Change::Stream { key, what: StreamChange::Trim { through } });
    call.note(Kinds::STREAM, "xtrim", key);
    Ok(count)
}

fn xtrim(call: &mut Call<'_>) -> Result<(), Fault> {
    let options = trimming::parse(&call.args, false, call.state.keyspace.shapes().stream_entries())?;
    let count = trim(call, call.args.at(1), options.trim)?;
    call.reply.length(count);
    Ok(())
}

fn xlen(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = find::stream(call.state, call.database, call.args.at(1))?.map_or(0, Stream::len);
    call.reply.length(length);
    Ok(())
}

fn xdel(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let mut count = 0;
    if find::stream(call.state, call.database, key)?.is_some() {
        // All of them are looked at before any entry goes.
        let wanted = call.args.from(2).map(|text| ids::strict(text, 0)).collect::<Result<Vec<Id>, Fault>>()?;
        for id in wanted {
            if find::stream(call.state, call.database, key)?.is_some_and(|stream| stream.get(id).is_some()) {
                call.change(Change::Stream { key, what: StreamChange::Remove { id } });
                count += 1;
            }
        }
    }
    if count > 0 {
        call.note(Kinds::STREAM, "xdel", key);
    }
    call.reply.integer(count);
    Ok(())
}

fn xsetid(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, args) = (call.args.at(1), call.args);
    let last = ids::strict(args.at(2), 0)?;
    let (mut added, mut removed, mut index) = (None, Id::MIN, 3);
    while index < args.len() {
        if index + 1 < args.len() && args.is(index, "ENTRIESADDED") {
            let number = u64::try_from(call.integer(index + 1)?);
            added = Some(number.map_err(|_| Fault::Said("ERR entries_added must be positive"))?);
        } else if index + 1 < args.len() && args.is(index, "MAXDELETEDID") {
            removed = ids::strict(args.at(index + 1), 0)?;
            if last < removed {
                return Err(Fault::Said(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Fault::Syntax);
        }
        index += 2;
    }
    let stream = find::stream(call.state, call.database, key)?.ok_or(Fault::NoKey)?;
    if stream.range(Id::MIN, Id::MAX).next_back().is_some_and(|(top, _)| last < top) {
        return Err(Fault::Said("ERR The ID specified in XSETID is smaller than the target stream top item"));
    }
    if !stream.is_empty() && added.is_some_and(|added| added < stream.len() as u64) {
        return Err(Fault::Said("ERR The entries_added specified in XSETID is smaller than the target stream length"));
    }
    let added = added.unwrap_or_else(|| stream.added());
    let removed = if removed == Id::MIN { stream.removed() } else { removed };
    call.change(Change::Stream { key, what: StreamChange::SetMarks { last, added, removed } });
    call.note(Kinds::STREAM, "xsetid", key);
    call.reply.ok();
    Ok(())
}
