//! Sorted sets combined: ZUNION, ZINTER, ZDIFF, and their forms that store or count. Sets are sorted sets whose scores are one.

use crate::commands::sets::counted_with_limit;
use crate::commands::sorted::answer;
use crate::commands::sorted_ranges::Scored;
use crate::engine::call::Call;
use crate::engine::command::{Keys, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::ranked::compare;
use crate::keyspace::value::Value;
use indexmap::IndexMap;

commands! { "sorted-set":
    "zunion", -3, [READ], Keys::Counted(1), "6.2.0", "Returns the union of multiple sorted sets." => |call| tell(call, Of::Union);
    "zinter", -3, [READ], Keys::Counted(1), "6.2.0", "Returns the intersect of multiple sorted sets." => |call| tell(call, Of::Intersection);
    "zdiff", -3, [READ], Keys::Counted(1), "6.2.0", "Returns the difference between multiple sorted sets." => |call| tell(call, Of::Difference);
    "zunionstore", -4, [WRITE GROWS COPIES], Keys::TargetAndCounted, "2.0.0", "Stores the union of multiple sorted sets in a key."
        => |call| store(call, Of::Union);
    "zinterstore", -4, [WRITE GROWS COPIES], Keys::TargetAndCounted, "2.0.0", "Stores the intersect of multiple sorted sets in a key."
        => |call| store(call, Of::Intersection);
    "zdiffstore", -4, [WRITE GROWS COPIES], Keys::TargetAndCounted, "6.2.0", "Stores the difference of multiple sorted sets in a key."
        => |call| store(call, Of::Difference);
    "zintercard", -3, [READ], Keys::Counted(1), "7.0.0", "Returns the number of members of the intersect of multiple sorted sets."
        => intercard;
}

/// How sets are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Union,
    Intersection,
    Difference,
}

/// How the scores of one member are.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Two infinities against each other are nothing.
            Aggregate::Sum => Some(one + other).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Aggregate::Least => one.min(other),
            Aggregate::Greatest => one.max(other),
        }
    }
}

type Members = IndexMap<Box<[u8]>, f64>;

/// The members of a key, with their scores times a weight.
fn members(call: &Call<'_>, key: &[u8], weight: f64) -> Result<Members, Fault> {
    let weighted = |score: f64| Some(score * weight).filter(|score| !score.is_nan()).unwrap_or(0.0);
    Ok(match call.find(key).map(|entry| &entry.value) {
        None => Members::default(),
        Some(Value::Sorted(sorted)) => sorted.iter().map(|(member, score)| (member.into(), weighted(score))).collect(),
        Some(Value::Set(set)) => set.iter().map(|member| (member.into(), weighted(1.0))).collect(),
        Some(_) => return Err(Fault::WrongType),
    })
}

/// What is asked for.
struct Wanted {
    /// Places of the keys.
    keys: std::ops::Range<usize>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

fn wanted(call: &Call<'_>, index: usize, of: Of, stores: bool) -> Result<Wanted, Fault> {
    let args = call.args;
    let name = String::from_utf8_lossy(args.at(0)).to_ascii_lowercase();
    let count = call.integer(index)?;
    if count < 1 {
        return Err(Fault::Told(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let end = usize::try_from(count).ok().and_then(|count| count.checked_add(index + 1));
    let end = end.filter(|end| *end <= args.len()).ok_or(Fault::Syntax)?;
    let keys = index + 1..end;
    let mut wanted = Wanted { weights: vec![1.0; keys.len()], keys, aggregate: Aggregate::Sum, with_scores: false };
    let mut place = end;
    while place < args.len() {
        if args.is(place, "WEIGHTS") && of != Of::Difference && args.len() - place > wanted.keys.len() {
            for (number, weight) in wanted.weights.iter_mut().enumerate() {
                let value = call.double(place + 1 + number);
                *weight = value.map_err(|_| Fault::Said("ERR weight value is not a float"))?;
            }
            place += wanted.keys.len();
        } else if args.is(place, "AGGREGATE") && of != Of::Difference && place + 1 < args.len() {
            place += 1;
            wanted.aggregate = match args.at(place).to_ascii_uppercase().as_slice() {
                b"SUM" => Aggregate::Sum,
                b"MIN" => Aggregate::Least,
                b"MAX" => Aggregate::Greatest,
                _ => return Err(Fault::Syntax),
            };
        } else if args.is(place, "WITHSCORES") && !stores {
            wanted.with_scores = true;
        } else {
            return Err(Fault::Syntax);
        }
        place += 1;
    }
    Ok(wanted)
}

fn combined(call: &Call<'_>, of: Of, wanted: &Wanted) -> Result<Vec<Scored>, Fault> {
    let sets =
        wanted.keys.clone().zip(&wanted.weights).map(|(place, weight)| members(call, call.args.at(place), *weight));
    let sets: Vec<Members> = sets.collect::<Result<_, _>>()?;
    let mut sets = sets.into_iter();
    let mut all = sets.next().unwrap_or_default();
    for set in sets {
        match of {
            Of::Union => {
                for (member, score) in set {
                    all.entry(member).and_modify(|old| *old = wanted.aggregate.of(*old, score)).or_insert(score);
                }
            }
            Of::Intersection => all.retain(|member, score| match set.get(member) {
                Some(other) => {
                    *score = wanted.aggregate.of(*score, *other);
                    true
                }
                None => false,
            }),
            Of::Difference => all.retain(|member, _| !set.contains_key(member)),
        }
    }
    let mut found: Vec<Scored> = all.into_iter().map(|(member, score)| (score, member)).collect();
    found.sort_unstable_by(|one, other| compare((one.0, &one.1), (other.0, &other.1)));
    Ok(found)
}

fn tell(call: &mut Call<'_>, of: Of) -> Result<(), Fault> {
    let wanted = wanted(call, 1, of, false)?;
    let found = combined(call, of, &wanted)?;
    answer(call, &found, wanted.with_scores);
    Ok(())
}

fn store(call: &mut Call<'_>, of: Of) -> Result<(), Fault> {
    let key = call.args.at(1);
    let wanted = wanted(call, 2, of, true)?;
    let found = combined(call, of, &wanted)?;
    let was_there = call.make_way(key);
    found.iter().for_each(|(score, member)| call.change(Change::SetScore { key, member, score: *score }));
    let name = match of {
        Of::Union => "zunionstore",
        Of::Intersection => "zinterstore",
        Of::Difference => "zdiffstore",
    };
    call.note_stored(Kinds::SORTED, name, key, (found.len(), was_there));
    call.reply.length(found.len());
    Ok(())
}

fn intercard(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.integer(1)? < 1 {
        return Err(Fault::Said("ERR at least 1 input key is needed for 'zintercard' command"));
    }
    let (end, limit) = counted_with_limit(call, 1)?;
    let wanted = Wanted { keys: 2..end, weights: vec![1.0; end - 2], aggregate: Aggregate::Sum, with_scores: false };
    let count = combined(call, Of::Intersection, &wanted)?.len();
    call.reply.length(count.min(limit));
    Ok(())
}
