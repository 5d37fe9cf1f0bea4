//! Sorted sets: members, scores and ranks.

use crate::commands::ranges::{By, Range};
use crate::commands::scanning::cursor;
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::engine::sampler;
use crate::engine::scan::Scan;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::sorted::Sorted;
use crate::resp::number::double_text;

commands! { "sorted-set":
    "zadd", -4, [WRITE GROWS FAST], ONE, "1.2.0", "Adds one or more members to a sorted set, or updates their scores." => zadd;
    "zincrby", 4, [WRITE GROWS FAST], ONE, "1.2.0", "Increments the score of a member in a sorted set." => zincrby;
    "zrem", -3, [WRITE FAST], ONE, "1.2.0", "Removes one or more members from a sorted set." => zrem;
    "zcard", 2, [READ FAST], ONE, "1.2.0", "Returns the number of members in a sorted set." => zcard;
    "zscore", 3, [READ FAST], ONE, "1.2.0", "Returns the score of a member in a sorted set." => zscore;
    "zmscore", -3, [READ FAST], ONE, "6.2.0", "Returns the score of one or more members in a sorted set." => zmscore;
    "zrank", 3, [READ FAST], ONE, "2.0.0", "Returns the index of a member in a sorted set ordered by ascending scores." => |call| rank(call, false);
    "zrevrank", 3, [READ FAST], ONE, "2.0.0", "Returns the index of a member in a sorted set ordered by descending scores." => |call| rank(call, true);
    "zcount", 4, [READ FAST], ONE, "2.0.0", "Returns the count of members in a sorted set that have scores within a range." => |call| count(call, By::Score);
    "zlexcount", 4, [READ FAST], ONE, "2.8.9", "Returns the number of members in a sorted set within a lexicographical range." => |call| count(call, By::Bytes);
    "zpopmin", -2, [WRITE FAST], ONE, "5.0.0", "Returns the lowest-scoring members from a sorted set after removing them." => |call| pop(call, false);
    "zpopmax", -2, [WRITE FAST], ONE, "5.0.0", "Returns the highest-scoring members from a sorted set after removing them." => |call| pop(call, true);
    "zrandmember", -2, [READ], ONE, "6.2.0", "Returns one or more random members from a sorted set." => random;
    "zscan", -3, [READ], ONE, "2.8.0", "Iterates over members and scores of a sorted set." => scan;
}

/// What ZADD is asked for.
#[derive(Debug, Default)]
pub struct Options {
    /// Only members that are not there.
    pub is_nx: bool,
    /// Only members that are there.
    pub is_xx: bool,
    is_gt: bool,
    is_lt: bool,
    /// It answers how many have changed, those that were there included.
    pub tells_changed: bool,
    adds: bool,
}

impl Options {
    /// The score that a member is to have; `None`: it stays as it is.
    ///
    /// # Errors
    /// The sum of the scores is none.
    fn score(&self, before: Option<f64>, score: f64) -> Result<Option<f64>, Fault> {
        let Some(old) = before else { return Ok((!self.is_xx).then_some(score)) };
        if self.is_nx {
            return Ok(None);
        }
        let score = if self.adds { old + score } else { score };
        if score.is_nan() {
            return Err(Fault::Said("ERR resulting score is not a number (NaN)"));
        }
        let is_refused = self.is_gt && score <= old || self.is_lt && score >= old;
        Ok((!is_refused).then_some(score))
    }
}

fn zadd(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut options = Options::default();
    let mut index = 2;
    while index < call.args.len() {
        let option = match call.args.at(index).to_ascii_uppercase().as_slice() {
            b"NX" => &mut options.is_nx,
            b"XX" => &mut options.is_xx,
            b"GT" => &mut options.is_gt,
            b"LT" => &mut options.is_lt,
            b"CH" => &mut options.tells_changed,
            b"INCR" => &mut options.adds,
            _ => break,
        };
        *option = true;
        index += 1;
    }
    let count = call.args.len() - index;
    if count == 0 || !count.is_multiple_of(2) {
        return Err(Fault::Syntax);
    }
    if options.is_nx && options.is_xx {
        return Err(Fault::Said("ERR XX and NX options at the same time are not compatible"));
    }
    if options.is_gt && options.is_lt || options.is_nx && (options.is_gt || options.is_lt) {
        return Err(Fault::Said("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if options.adds && count > 2 {
        return Err(Fault::Said("ERR INCR option supports a single increment-element pair"));
    }
    add(call, index, &options)
}

fn add(call: &mut Call<'_>, first: usize, options: &Options) -> Result<(), Fault> {
    let pairs: Vec<(f64, &[u8])> = (first..call.args.len())
        .step_by(2)
        .map(|index| Ok((call.double(index)?, call.args.at(index + 1))))
        .collect::<Result<_, Fault>>()?;
    put(call, pairs, options)
}

/// Gives members of the key that is the first argument these scores, and answers how many.
///
/// # Errors
/// The key has another kind of value, or the sum of scores is none.
pub fn put(call: &mut Call<'_>, pairs: Vec<(f64, &[u8])>, options: &Options) -> Result<(), Fault> {
    let key = call.args.at(1);
    call.sorted(key)?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (score, member) in pairs {
        let before = call.sorted(key)?.and_then(|sorted| sorted.score(member));
        let score = options.score(before, score)?;
        last = score;
        let Some(score) = score else { continue };
        if before != Some(score) {
            call.change(Change::SetScore { key, member, score });
            changed += i64::from(before.is_some());
        }
        added += i64::from(before.is_none());
    }
    if added + changed > 0 {
        call.note(Kinds::SORTED, if options.adds { "zincr" } else { "zadd" }, key);
    }
    match (options.adds, last) {
        (true, Some(score)) => call.reply.double(score),
        (true, None) => call.reply.null(),
        (false, _) => call.reply.integer(if options.tells_changed { added + changed } else { added }),
    }
    Ok(())
}

fn zincrby(call: &mut Call<'_>) -> Result<(), Fault> {
    add(call, 2, &Options { adds: true, ..Options::default() })
}

fn zrem(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let mut count = 0;
    for member in call.args.from(2) {
        if call.sorted(key)?.is_some_and(|sorted| sorted.score(member).is_some()) {
            call.change(Change::RemoveScore { key, member });
            count += 1;
        }
    }
    if count > 0 {
        call.note_taken(Kinds::SORTED, "zrem", key);
    }
    call.reply.integer(count);
    Ok(())
}

fn zcard(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = call.sorted(call.args.at(1))?.map_or(0, Sorted::len);
    call.reply.length(length);
    Ok(())
}

fn optional(call: &mut Call<'_>, score: Option<f64>) {
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
}

fn zscore(call: &mut Call<'_>) -> Result<(), Fault> {
    let score = call.sorted(call.args.at(1))?.and_then(|sorted| sorted.score(call.args.at(2)));
    optional(call, score);
    Ok(())
}

fn zmscore(call: &mut Call<'_>) -> Result<(), Fault> {
    let sorted = call.sorted(call.args.at(1))?;
    let scores: Vec<_> = call.args.from(2).map(|member| sorted.and_then(|sorted| sorted.score(member))).collect();
    call.reply.array(scores.len());
    scores.into_iter().for_each(|score| optional(call, score));
    Ok(())
}

fn rank(call: &mut Call<'_>, is_reversed: bool) -> Result<(), Fault> {
    let sorted = call.sorted(call.args.at(1))?;
    let rank = sorted.and_then(|sorted| {
        let rank = sorted.rank(call.args.at(2))?;
        Some(if is_reversed { sorted.len() - 1 - rank } else { rank })
    });
    match rank {
        Some(rank) => call.reply.length(rank),
        None => call.reply.null(),
    }
    Ok(())
}

fn count(call: &mut Call<'_>, by: By) -> Result<(), Fault> {
    let range = Range::parse(by, call.args.at(2), call.args.at(3))?;
    let (start, end) = call.sorted(call.args.at(1))?.map_or((0, 0), |sorted| range.ranks(sorted.order()));
    call.reply.length(end - start);
    Ok(())
}

/// Answers members with their scores, each pair an array of its own in version 3.
pub fn answer(call: &mut Call<'_>, members: &[(f64, Box<[u8]>)], with_scores: bool) {
    let reply = &mut *call.reply;
    let is_nested = with_scores && reply.is_three();
    reply.array(if with_scores && !is_nested { 2 * members.len() } else { members.len() });
    for (score, member) in members {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(*score);
        }
    }
}

fn pop(call: &mut Call<'_>, is_max: bool) -> Result<(), Fault> {
    let key = call.args.at(1);
    if call.args.len() > 3 {
        return Err(Fault::Syntax);
    }
    let count = if call.args.len() == 3 { Some(call.positive(2)?) } else { None };
    let most = count.unwrap_or(1);
    let members: Vec<(f64, Box<[u8]>)> = match call.sorted(key)? {
        None => Vec::new(),
        Some(sorted) if is_max => {
            let all = sorted.order().down_from(usize::MAX - 1);
            all.take(most).map(|(score, member)| (score, member.into())).collect()
        }
        Some(sorted) => sorted.order().from(0).take(most).map(|(score, member)| (score, member.into())).collect(),
    };
    members.iter().for_each(|(_, member)| call.change(Change::RemoveScore { key, member }));
    if !members.is_empty() {
        call.note_taken(Kinds::SORTED, if is_max { "zpopmax" } else { "zpopmin" }, key);
    }
    match (count, members.first()) {
        // Without a count the one pair is no array of pairs, in either version.
        (None, Some((score, member))) => {
            call.reply.array(2);
            call.reply.bulk(member);
            call.reply.double(*score);
        }
        _ => answer(call, &members, true),
    }
    Ok(())
}

fn random(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, args) = (call.args.at(1), call.args);
    let with_scores = args.len() == 4 && args.is(3, "WITHSCORES");
    if args.len() > 4 || args.len() == 4 && !with_scores {
        return Err(Fault::Syntax);
    }
    let count = if args.len() > 2 { Some(call.integer(2)?) } else { None };
    if count.is_some_and(|count| !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count)) {
        return Err(Fault::Said("ERR value is out of range"));
    }
    let length = call.sorted(key)?.map_or(0, Sorted::len);
    let places = sampler::places(count.unwrap_or(1), length, &mut call.state.random);
    let sorted = call.sorted(key)?;
    let found = places.into_iter().filter_map(|place| sorted?.at(place));
    let found: Vec<(f64, Box<[u8]>)> = found.map(|(member, score)| (score, member.into())).collect();
    match count {
        None => call.reply.optional(found.first().map(|(_, member)| member.as_ref())),
        Some(_) => answer(call, &found, with_scores),
    }
    Ok(())
}

fn scan(call: &mut Call<'_>) -> Result<(), Fault> {
    let scan = Scan::parse(call, 2, false)?;
    let sorted = call.sorted(call.args.at(1))?;
    let (places, next) = scan.places(sorted.map_or(0, Sorted::len));
    let found = places.filter_map(|place| sorted?.at(place)).filter(|(member, _)| scan.wants(member));
    let found: Vec<(Box<[u8]>, f64)> = found.map(|(member, score)| (member.into(), score)).collect();
    cursor(call.reply, next);
    call.reply.array(2 * found.len());
    for (member, score) in found {
        call.reply.bulk(&member);
        call.reply.bulk(&double_text(score));
    }
    Ok(())
}
