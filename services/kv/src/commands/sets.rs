//! Sets.

use crate::commands::scanning::cursor;
use crate::engine::call::Call;
use crate::engine::command::{ALL, Keys, ONE, TWO, commands};
use crate::engine::fault::Fault;
use crate::engine::sampler;
use crate::engine::scan::Scan;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::set::Set;
use indexmap::IndexSet;

commands! { "set":
    "sadd", -3, [WRITE GROWS FAST], ONE, "1.0.0", "Adds one or more members to a set." => sadd;
    "srem", -3, [WRITE FAST], ONE, "1.0.0", "Removes one or more members from a set." => srem;
    "sismember", 3, [READ FAST], ONE, "1.0.0", "Determines whether a member belongs to a set." => sismember;
    "smismember", -3, [READ FAST], ONE, "6.2.0", "Determines whether multiple members belong to a set." => smismember;
    "scard", 2, [READ FAST], ONE, "1.0.0", "Returns the number of members in a set." => scard;
    "smembers", 2, [READ], ONE, "1.0.0", "Returns all members of a set." => |call| {
        let found = union(call, 1..2)?;
        answer(call, &found);
        Ok(())
    };
    "spop", -2, [WRITE FAST], ONE, "1.0.0", "Returns one or more random members from a set after removing them." => spop;
    "srandmember", -2, [READ], ONE, "1.0.0", "Get one or multiple random members from a set." => random;
    "smove", 4, [WRITE GROWS FAST], TWO, "1.0.0", "Moves a member from one set to another." => smove;
    "sunion", -2, [READ], ALL, "1.0.0", "Returns the union of multiple sets." => |call| combine(call, union);
    "sinter", -2, [READ], ALL, "1.0.0", "Returns the intersect of multiple sets." => |call| combine(call, intersection);
    "sdiff", -2, [READ], ALL, "1.0.0", "Returns the difference of multiple sets." => |call| combine(call, difference);
    "sunionstore", -3, [WRITE GROWS COPIES], ALL, "1.0.0", "Stores the union of multiple sets in a key." => |call| store(call, union, "sunionstore");
    "sinterstore", -3, [WRITE GROWS COPIES], ALL, "1.0.0", "Stores the intersect of multiple sets in a key." => |call| store(call, intersection, "sinterstore");
    "sdiffstore", -3, [WRITE GROWS COPIES], ALL, "1.0.0", "Stores the difference of multiple sets in a key." => |call| store(call, difference, "sdiffstore");
    "sintercard", -3, [READ], Keys::Counted(1), "7.0.0", "Returns the number of members of the intersect of multiple sets." => intercard;
    "sscan", -3, [READ], ONE, "2.8.0", "Iterates over members of a set." => scan;
}

/// Members that are in no set yet.
type Members = IndexSet<Box<[u8]>>;

fn sadd(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let mut count = 0;
    for member in call.args.from(2) {
        if call.set(key)?.is_none_or(|set| !set.contains(member)) {
            call.change(Change::AddMember { key, member });
            count += 1;
        }
    }
    if count > 0 {
        call.note(Kinds::SET, "sadd", key);
    }
    call.reply.integer(count);
    Ok(())
}

fn srem(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let mut count = 0;
    for member in call.args.from(2) {
        if call.set(key)?.is_some_and(|set| set.contains(member)) {
            call.change(Change::RemoveMember { key, member });
            count += 1;
        }
    }
    if count > 0 {
        call.note_taken(Kinds::SET, "srem", key);
    }
    call.reply.integer(count);
    Ok(())
}

fn sismember(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_in = call.set(call.args.at(1))?.is_some_and(|set| set.contains(call.args.at(2)));
    call.reply.integer(i64::from(is_in));
    Ok(())
}

fn smismember(call: &mut Call<'_>) -> Result<(), Fault> {
    let set = call.set(call.args.at(1))?;
    let found: Vec<bool> = call.args.from(2).map(|member| set.is_some_and(|set| set.contains(member))).collect();
    call.reply.array(found.len());
    found.into_iter().for_each(|is_in| call.reply.integer(i64::from(is_in)));
    Ok(())
}

fn scard(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = call.set(call.args.at(1))?.map_or(0, Set::len);
    call.reply.length(length);
    Ok(())
}

fn spop(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    if call.args.len() > 3 {
        return Err(Fault::Syntax);
    }
    let count = if call.args.len() == 3 { Some(call.positive(2)?) } else { None };
    let length = call.set(key)?.map_or(0, Set::len);
    let wanted = i64::try_from(count.unwrap_or(1)).unwrap_or(i64::MAX);
    let places = sampler::places(wanted, length, &mut call.state.random);
    let set = call.set(key)?;
    let popped: Vec<Box<[u8]>> = places.into_iter().filter_map(|place| set?.at(place).map(Box::from)).collect();
    popped.iter().for_each(|member| call.change(Change::RemoveMember { key, member }));
    if !popped.is_empty() {
        call.note_taken(Kinds::SET, "spop", key);
    }
    match count {
        None => call.reply.optional(popped.first().map(AsRef::as_ref)),
        Some(_) => {
            call.reply.set(popped.len());
            popped.iter().for_each(|member| call.reply.bulk(member));
        }
    }
    Ok(())
}

fn random(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    if call.args.len() > 3 {
        return Err(Fault::Syntax);
    }
    let count = if call.args.len() == 3 { Some(call.integer(2)?) } else { None };
    if count.is_some_and(|count| count < -i64::MAX) {
        return Err(Fault::Said(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let length = call.set(key)?.map_or(0, Set::len);
    let places = sampler::places(count.unwrap_or(1), length, &mut call.state.random);
    let set = call.set(key)?;
    let found: Vec<Box<[u8]>> = places.into_iter().filter_map(|place| set?.at(place).map(Box::from)).collect();
    match count {
        None => call.reply.optional(found.first().map(AsRef::as_ref)),
        Some(_) => {
            call.reply.array(found.len());
            found.iter().for_each(|member| call.reply.bulk(member));
        }
    }
    Ok(())
}

fn smove(call: &mut Call<'_>) -> Result<(), Fault> {
    let (from, to, member) = (call.args.at(1), call.args.at(2), call.args.at(3));
    let (is_in, is_there) = match call.set(from)? {
        None => (false, false),
        Some(set) => (set.contains(member), call.set(to)?.is_some_and(|set| set.contains(member))),
    };
    if is_in && from != to {
        call.change(Change::RemoveMember { key: from, member });
        call.note_taken(Kinds::SET, "srem", from);
        // Who watches the target is not told of what does not change it.
        if !is_there {
            call.change(Change::AddMember { key: to, member });
            call.note(Kinds::SET, "sadd", to);
        }
    }
    call.reply.integer(i64::from(is_in));
    Ok(())
}

fn union(call: &Call<'_>, keys: std::ops::Range<usize>) -> Result<Members, Fault> {
    let mut found = Members::default();
    for index in keys {
        found.extend(call.set(call.args.at(index))?.into_iter().flat_map(Set::iter).map(Box::from));
    }
    Ok(found)
}

fn intersection(call: &Call<'_>, keys: std::ops::Range<usize>) -> Result<Members, Fault> {
    let sets: Vec<_> = keys.map(|index| call.set(call.args.at(index))).collect::<Result<_, _>>()?;
    // If one is not there, nothing is in all of them.
    let Some(sets) = sets.into_iter().collect::<Option<Vec<&Set>>>() else { return Ok(Members::default()) };
    let smallest = sets.iter().min_by_key(|set| set.len());
    let members = smallest.into_iter().flat_map(|set| set.iter());
    Ok(members.filter(|member| sets.iter().all(|set| set.contains(member))).map(Box::from).collect())
}

fn difference(call: &Call<'_>, keys: std::ops::Range<usize>) -> Result<Members, Fault> {
    let sets: Vec<_> = keys.map(|index| call.set(call.args.at(index))).collect::<Result<_, _>>()?;
    let Some((first, others)) = sets.split_first() else { return Ok(Members::default()) };
    let members = first.iter().flat_map(|set| set.iter());
    let is_left = |member: &&[u8]| !others.iter().flatten().any(|set| set.contains(member));
    Ok(members.filter(is_left).map(Box::from).collect())
}

type Combination = fn(&Call<'_>, std::ops::Range<usize>) -> Result<Members, Fault>;

fn answer(call: &mut Call<'_>, members: &Members) {
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
}

fn combine(call: &mut Call<'_>, of: Combination) -> Result<(), Fault> {
    let found = of(call, 1..call.args.len())?;
    answer(call, &found);
    Ok(())
}

fn store(call: &mut Call<'_>, of: Combination, name: &'static str) -> Result<(), Fault> {
    let key = call.args.at(1);
    let found = of(call, 2..call.args.len())?;
    let was_there = call.make_way(key);
    found.iter().for_each(|member| call.change(Change::AddMember { key, member }));
    call.note_stored(Kinds::SET, name, key, (found.len(), was_there));
    call.reply.length(found.len());
    Ok(())
}

/// The number of keys that the argument at `index` says, and LIMIT behind them: where the keys end, and the limit.
///
/// # Errors
/// As Redis words them.
pub fn counted_with_limit(call: &Call<'_>, index: usize) -> Result<(usize, usize), Fault> {
    let count = call.integer(index).ok().filter(|count| *count > 0);
    let count = count.ok_or(Fault::Said("ERR numkeys should be greater than 0"))? as usize;
    let end = count.checked_add(index + 1).filter(|end| *end <= call.args.len());
    let end = end.ok_or(Fault::Said("ERR Number of keys can't be greater than number of args"))?;
    let limit = match call.args.len() - end {
        0 => 0,
        2 if call.args.is(end, "LIMIT") => {
            let limit = call.integer(end + 1).ok().and_then(|limit| usize::try_from(limit).ok());
            limit.ok_or(Fault::Said("ERR LIMIT can't be negative"))?
        }
        _ => return Err(Fault::Syntax),
    };
    Ok((end, if limit == 0 { usize::MAX } else { limit }))
}

fn intercard(call: &mut Call<'_>) -> Result<(), Fault> {
    let (end, limit) = counted_with_limit(call, 1)?;
    let count = intersection(call, 2..end)?.len();
    call.reply.length(count.min(limit));
    Ok(())
}

fn scan(call: &mut Call<'_>) -> Result<(), Fault> {
    let scan = Scan::parse(call, 2, false)?;
    let set = call.set(call.args.at(1))?;
    let (places, next) = scan.places(set.map_or(0, Set::len));
    let found = places.filter_map(|place| set?.at(place)).filter(|member| scan.wants(member));
    let found: Vec<Box<[u8]>> = found.map(Box::from).collect();
    cursor(call.reply, next);
    call.reply.array(found.len());
    found.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}
