//! Lists.

use crate::engine::call::{Call, range};
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::{Change, End};
use crate::keyspace::events::Kinds;
use crate::keyspace::list::List;
use bytes::Bytes;

commands! { "list":
    "lpush", -3, [WRITE GROWS FAST], ONE, "1.0.0", "Prepends one or more elements to a list." => |call| push(call, End::Front, false);
    "rpush", -3, [WRITE GROWS FAST], ONE, "1.0.0", "Appends one or more elements to a list." => |call| push(call, End::Back, false);
    "lpushx", -3, [WRITE GROWS FAST], ONE, "2.2.0", "Prepends one or more elements to a list only when the list exists."
        => |call| push(call, End::Front, true);
    "rpushx", -3, [WRITE GROWS FAST], ONE, "2.2.0", "Appends an element to a list only when the list exists."
        => |call| push(call, End::Back, true);
    "lpop", -2, [WRITE FAST], ONE, "1.0.0", "Returns the first elements in a list after removing it." => |call| pop(call, End::Front);
    "rpop", -2, [WRITE FAST], ONE, "1.0.0", "Returns and removes the last elements of a list." => |call| pop(call, End::Back);
    "llen", 2, [READ FAST], ONE, "1.0.0", "Returns the length of a list." => llen;
    "lindex", 3, [READ], ONE, "1.0.0", "Returns an element from a list by its index." => lindex;
    "lset", 4, [WRITE GROWS], ONE, "1.0.0", "Sets the value of an element in a list by its index." => lset;
    "lrange", 4, [READ], ONE, "1.0.0", "Returns a range of elements from a list." => lrange;
    "ltrim", 4, [WRITE], ONE, "1.0.0", "Removes elements from both ends a list." => ltrim;
    "linsert", 5, [WRITE GROWS], ONE, "2.2.0", "Inserts an element before or after another element in a list." => linsert;
    "lrem", 4, [WRITE], ONE, "1.0.0", "Removes elements from a list." => lrem;
    "lpos", -3, [READ], ONE, "6.0.6", "Returns the index of matching elements in a list." => lpos;
}

fn push(call: &mut Call<'_>, end: End, only_there: bool) -> Result<(), Fault> {
    let key = call.args.at(1);
    let length = call.list(key)?.map_or(0, List::len);
    if only_there && length == 0 {
        call.reply.integer(0);
        return Ok(());
    }
    for element in call.args.from(2) {
        call.change(Change::Push { key, end, element });
    }
    call.note(Kinds::LIST, pushed(end), key);
    call.reply.length(length + call.args.len() - 2);
    Ok(())
}

/// The event of a push.
pub fn pushed(end: End) -> &'static str {
    if end == End::Front { "lpush" } else { "rpush" }
}

/// The event of a pop.
pub fn popped(end: End) -> &'static str {
    if end == End::Front { "lpop" } else { "rpop" }
}

/// The first so many elements of an end, in the order in which they are popped.
pub fn ends(list: &List, end: End, count: usize) -> Vec<Bytes> {
    match end {
        End::Front => list.iter().take(count).cloned().collect(),
        End::Back => list.iter().rev().take(count).cloned().collect(),
    }
}

fn pop(call: &mut Call<'_>, end: End) -> Result<(), Fault> {
    let key = call.args.at(1);
    if call.args.len() > 3 {
        return Err(Fault::Arity(popped(end).to_owned()));
    }
    let count = if call.args.len() == 3 { Some(call.positive(2)?) } else { None };
    let found = call.list(key)?.map(|list| ends(list, end, count.unwrap_or(1)));
    let taken = found.as_ref().map_or(0, Vec::len);
    if taken > 0 {
        call.change(Change::Pop { key, end, count: taken as u64 });
        call.note_taken(Kinds::LIST, popped(end), key);
    }
    match (found, count) {
        (None, None) => call.reply.null(),
        (None, Some(_)) => call.reply.null_array(),
        (Some(found), None) => found.iter().for_each(|element| call.reply.value(element)),
        (Some(found), Some(_)) => {
            call.reply.array(found.len());
            found.iter().for_each(|element| call.reply.value(element));
        }
    }
    Ok(())
}

fn llen(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = call.list(call.args.at(1))?.map_or(0, List::len);
    call.reply.length(length);
    Ok(())
}

/// The place of an index, which counts from the end if it is negative.
fn place(index: i64, length: usize) -> Option<usize> {
    let place = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(place).ok().filter(|place| *place < length)
}

fn lindex(call: &mut Call<'_>) -> Result<(), Fault> {
    let list = call.list(call.args.at(1))?;
    let index = call.integer(2)?;
    let element = list.and_then(|list| list.get(place(index, list.len())?)).cloned();
    match element {
        Some(element) => call.reply.value(&element),
        None => call.reply.null(),
    }
    Ok(())
}

fn lset(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let length = call.list(key)?.ok_or(Fault::NoKey)?.len();
    let place = place(call.integer(2)?, length).ok_or(Fault::Index)?;
    call.change(Change::Replace { key, index: place as u64, element: call.args.at(3) });
    call.note(Kinds::LIST, "lset", key);
    call.reply.ok();
    Ok(())
}

fn lrange(call: &mut Call<'_>) -> Result<(), Fault> {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let found: Vec<Bytes> = match call.list(call.args.at(1))? {
        Some(list) => {
            let (start, end) = range(start, stop, list.len());
            list.range(start, end).cloned().collect()
        }
        None => Vec::new(),
    };
    call.reply.array(found.len());
    found.iter().for_each(|element| call.reply.value(element));
    Ok(())
}

fn ltrim(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let length = call.list(key)?.map_or(0, List::len);
    let (start, end) = range(start, stop, length);
    // If nothing is left, the first one removes all.
    for (end, count) in [(End::Back, length - end), (End::Front, start)] {
        if count > 0 {
            call.change(Change::Pop { key, end, count: count as u64 });
        }
    }
    if length > 0 {
        call.note_taken(Kinds::LIST, "ltrim", key);
    }
    call.reply.ok();
    Ok(())
}

fn linsert(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, pivot, element) = (call.args.at(1), call.args.at(3), call.args.at(4));
    let is_after = match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"BEFORE" => false,
        b"AFTER" => true,
        _ => return Err(Fault::Syntax),
    };
    let found = call.list(key)?.map(|list| (list.len(), list.iter().position(|element| element == pivot)));
    let answer = match found {
        None => 0,
        Some((_, None)) => -1,
        Some((length, Some(place))) => {
            call.change(Change::Insert { key, index: (place + usize::from(is_after)) as u64, element });
            call.note(Kinds::LIST, "linsert", key);
            length as i64 + 1
        }
    };
    call.reply.integer(answer);
    Ok(())
}

/// Places of what equals an element, in the order of a search: from the front, or from the back.
fn places(list: &List, element: &[u8], from_back: bool) -> Vec<usize> {
    let equal = |(place, found): (usize, &Bytes)| (found == element).then_some(place);
    let mut places: Vec<usize> = list.iter().enumerate().filter_map(equal).collect();
    if from_back {
        places.reverse();
    }
    places
}

fn lrem(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, element) = (call.args.at(1), call.args.at(3));
    let count = call.integer(2)?;
    let mut gone = call.list(key)?.map(|list| places(list, element, count < 0)).unwrap_or_default();
    if count != 0 {
        gone.truncate(usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX));
    }
    // From the last one to the first, so that places stay what they are.
    gone.sort_unstable_by(|one, other| other.cmp(one));
    for place in &gone {
        call.change(Change::Remove { key, index: *place as u64 });
    }
    if !gone.is_empty() {
        call.note_taken(Kinds::LIST, "lrem", key);
    }
    call.reply.length(gone.len());
    Ok(())
}

fn lpos(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, element, args) = (call.args.at(1), call.args.at(2), call.args);
    let (mut rank, mut count, mut compares) = (1, None, 0);
    for index in (3..args.len()).step_by(2) {
        if index + 1 >= args.len() {
            return Err(Fault::Syntax);
        }
        let value = call.integer(index + 1)?;
        if args.is(index, "RANK") {
            if value == 0 {
                return Err(Fault::Said(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                ));
            }
            if value == i64::MIN {
                return Err(Fault::Said(
                    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                ));
            }
            rank = value;
        } else if args.is(index, "COUNT") {
            count = Some(usize::try_from(value).map_err(|_| Fault::Said("ERR COUNT can't be negative"))?);
        } else if args.is(index, "MAXLEN") {
            compares = usize::try_from(value).map_err(|_| Fault::Said("ERR MAXLEN can't be negative"))?;
        } else {
            return Err(Fault::Syntax);
        }
    }
    let found = call.list(key)?.map(|list| {
        let (length, from_back) = (list.len(), rank < 0);
        let is_near = |place: &usize| {
            let distance = if from_back { length - 1 - place } else { *place };
            compares == 0 || distance < compares
        };
        let places = places(list, element, from_back).into_iter().filter(is_near);
        let most = match count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        places.skip(rank.unsigned_abs() as usize - 1).take(most).collect::<Vec<_>>()
    });
    let found = found.unwrap_or_default();
    match (count, found.first()) {
        (None, Some(place)) => call.reply.length(*place),
        (None, None) => call.reply.null(),
        (Some(_), _) => {
            call.reply.array(found.len());
            found.into_iter().for_each(|place| call.reply.length(place));
        }
    }
    Ok(())
}
