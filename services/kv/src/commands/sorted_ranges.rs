//! Ranges of sorted sets: ZRANGE and all that came before it, and the removal of ranges.

use crate::commands::ranges::{By, Range};
use crate::commands::sorted::answer;
use crate::engine::call::Call;
use crate::engine::command::{ONE, TWO, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;

commands! { "sorted-set":
    "zrange", -4, [READ], ONE, "1.2.0", "Returns members in a sorted set within a range of indexes, scores or members." => |call| {
        let wanted = wanted(call, 1, None)?;
        tell(call, &wanted)
    };
    "zrevrange", -4, [READ], ONE, "1.2.0", "Returns members in a sorted set within a range of indexes in reverse order."
        => |call| legacy(call, By::Rank, true);
    "zrangebyscore", -4, [READ], ONE, "1.0.5", "Returns members in a sorted set within a range of scores."
        => |call| legacy(call, By::Score, false);
    "zrevrangebyscore", -4, [READ], ONE, "2.2.0", "Returns members in a sorted set within a range of scores in reverse order."
        => |call| legacy(call, By::Score, true);
    "zrangebylex", -4, [READ], ONE, "2.8.9", "Returns members in a sorted set within a lexicographical range."
        => |call| legacy(call, By::Bytes, false);
    "zrevrangebylex", -4, [READ], ONE, "2.8.9", "Returns members in a sorted set within a lexicographical range in reverse order."
        => |call| legacy(call, By::Bytes, true);
    "zrangestore", -5, [WRITE GROWS COPIES], TWO, "6.2.0", "Stores a range of members from sorted set in a key." => store;
    "zremrangebyrank", 4, [WRITE], ONE, "2.0.0", "Removes members in a sorted set within a range of indexes."
        => |call| remove(call, By::Rank);
    "zremrangebyscore", 4, [WRITE], ONE, "1.2.0", "Removes members in a sorted set within a range of scores."
        => |call| remove(call, By::Score);
    "zremrangebylex", 4, [WRITE], ONE, "2.8.9", "Removes members in a sorted set within a lexicographical range."
        => |call| remove(call, By::Bytes);
}

/// What is asked for.
struct Wanted<'a> {
    key: &'a [u8],
    range: Range<'a>,
    is_reversed: bool,
    with_scores: bool,
    offset: i64,
    count: i64,
}

/// From the arguments: the key at `index`, and what is behind it. `given`: what the command's name says already.
fn wanted<'a>(call: &Call<'a>, index: usize, given: Option<(By, bool)>) -> Result<Wanted<'a>, Fault> {
    let args = call.args;
    let (mut by, mut is_reversed) = given.unwrap_or((By::Rank, false));
    let (mut with_scores, mut limit) = (false, None);
    let mut place = index + 3;
    while place < args.len() {
        if args.is(place, "WITHSCORES") && index == 1 {
            with_scores = true;
        } else if args.is(place, "LIMIT") && place + 2 < args.len() {
            limit = Some((call.integer(place + 1)?, call.integer(place + 2)?));
            place += 2;
        } else if given.is_none() && args.is(place, "REV") {
            is_reversed = true;
        } else if given.is_none() && args.is(place, "BYSCORE") {
            by = By::Score;
        } else if given.is_none() && args.is(place, "BYLEX") {
            by = By::Bytes;
        } else {
            return Err(Fault::Syntax);
        }
        place += 1;
    }
    if limit.is_some() && by == By::Rank {
        return Err(Fault::Said(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if with_scores && by == By::Bytes {
        return Err(Fault::Said("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
    }
    let (first, second) = (args.at(index + 1), args.at(index + 2));
    // From the greatest to the least, if it is turned around.
    let turns = is_reversed && by != By::Rank;
    let range = if turns { Range::parse(by, second, first) } else { Range::parse(by, first, second) }?;
    let (offset, count) = limit.unwrap_or((0, -1));
    Ok(Wanted { key: args.at(index), range, is_reversed, with_scores, offset, count })
}

/// A member with its score.
pub type Scored = (f64, Box<[u8]>);

fn found(call: &Call<'_>, wanted: &Wanted<'_>) -> Result<Vec<Scored>, Fault> {
    let Some(sorted) = call.sorted(wanted.key)? else { return Ok(Vec::new()) };
    let order = sorted.order();
    let ranks = if wanted.is_reversed { wanted.range.ranks_reversed(order) } else { wanted.range.ranks(order) };
    let (start, end) = ranks;
    let Ok(offset) = usize::try_from(wanted.offset) else { return Ok(Vec::new()) };
    // A negative count means all.
    let most = usize::try_from(wanted.count).unwrap_or(usize::MAX).min((end - start).saturating_sub(offset));
    if most == 0 {
        return Ok(Vec::new());
    }
    let owned = |(score, member): (f64, &[u8])| (score, Box::from(member));
    Ok(match wanted.is_reversed {
        false => order.from(start + offset).take(most).map(owned).collect(),
        true => order.down_from(end - 1 - offset).take(most).map(owned).collect(),
    })
}

fn tell(call: &mut Call<'_>, wanted: &Wanted<'_>) -> Result<(), Fault> {
    let members = found(call, wanted)?;
    answer(call, &members, wanted.with_scores);
    Ok(())
}

fn legacy(call: &mut Call<'_>, by: By, is_reversed: bool) -> Result<(), Fault> {
    let wanted = wanted(call, 1, Some((by, is_reversed)))?;
    tell(call, &wanted)
}

fn store(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let wanted = wanted(call, 2, None)?;
    let members = found(call, &wanted)?;
    let was_there = call.make_way(key);
    members.iter().for_each(|(score, member)| call.change(Change::SetScore { key, member, score: *score }));
    call.note_stored(Kinds::SORTED, "zrangestore", key, (members.len(), was_there));
    call.reply.length(members.len());
    Ok(())
}

fn remove(call: &mut Call<'_>, by: By) -> Result<(), Fault> {
    let key = call.args.at(1);
    let range = Range::parse(by, call.args.at(2), call.args.at(3))?;
    let members: Vec<Box<[u8]>> = match call.sorted(key)? {
        None => Vec::new(),
        Some(sorted) => {
            let (start, end) = range.ranks(sorted.order());
            sorted.order().from(start).take(end - start).map(|(_, member)| member.into()).collect()
        }
    };
    members.iter().for_each(|member| call.change(Change::RemoveScore { key, member }));
    if !members.is_empty() {
        let name = match by {
            By::Rank => "zremrangebyrank",
            By::Score => "zremrangebyscore",
            By::Bytes => "zremrangebylex",
        };
        call.note_taken(Kinds::SORTED, name, key);
    }
    call.reply.length(members.len());
    Ok(())
}
