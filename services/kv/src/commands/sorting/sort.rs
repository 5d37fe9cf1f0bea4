//! SORT and SORT_RO.

use crate::commands::sorting::asked::Asked;
use crate::commands::sorting::budget::Budget;
use crate::commands::sorting::elements;
use crate::commands::sorting::weight::{Weight, number};
use crate::engine::call::Call;
use crate::engine::command::{Keys, commands};
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::keyspace::change::{Change, End};
use crate::keyspace::events::Kinds;
use bytes::Bytes;

commands! { "generic":
    "sort", -2, [WRITE GROWS], STORED, "1.0.0", "Sorts the elements in a list, a set, or a sorted set, optionally storing the result." => |call| sort(call, true);
    "sort_ro", -2, [READ], Keys::Stored { from: 2, words: &[], skipped: &[] }, "7.0.0", "Returns the sorted elements of a list, a set, or a sorted set."
        => |call| sort(call, false);
}

/// The first argument is a key, and so is what follows the last STORE.
const STORED: Keys = Keys::Stored { from: 2, words: &["STORE"], skipped: &[("LIMIT", 2), ("GET", 1), ("BY", 1)] };
/// What a record needs besides its elements: it may begin another unit of the log.
const RECORD_BYTES: usize = 8 << 10;

/// The elements that are wanted, in their order.
fn sorted(call: &Call<'_>, asked: &Asked<'_>, budget: &mut Budget) -> Result<Vec<Bytes>, Fault> {
    let key = call.args.at(1);
    let (length, is_set) = elements::length(call, key)?;
    let range = asked.range(length);
    // What is stored, or read by a script, does not depend on the places in a set's table.
    let needs_order = is_set && (asked.target.is_some() || call.is_queued);
    if asked.keeps_order() && !needs_order {
        return Ok(elements::some(call, key, range, asked.is_descending));
    }
    let (by, is_alpha) = if asked.keeps_order() { (None, true) } else { (asked.by, asked.is_alpha) };
    let mut all = Vec::with_capacity(length);
    for element in elements::all(call, key) {
        let weight = match by {
            Some(pattern) => pattern.find(call, &element, budget)?,
            None => Some(element.clone()),
        };
        let weight = match (is_alpha, weight) {
            (true, weight) => Weight::Text(weight),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => {
                let number = number(&text);
                Weight::Number(number.ok_or(Fault::Said("ERR One or more scores can't be converted into double"))?)
            }
        };
        all.push((weight, element));
    }
    match asked.is_descending {
        true => all.sort_by(|one, other| Weight::compare(other, one)),
        false => all.sort_by(Weight::compare),
    }
    Ok(all.into_iter().skip(range.start).take(range.len()).map(|(_, element)| element).collect())
}

/// What is answered: the elements, or what other keys have for them.
fn found(call: &Call<'_>, asked: &Asked<'_>, budget: &mut Budget) -> Result<Vec<Option<Bytes>>, Fault> {
    let sorted = sorted(call, asked, budget)?;
    let mut found = Vec::with_capacity(sorted.len());
    for element in sorted {
        if asked.get.is_empty() {
            budget.answer(element.len())?;
            found.push(Some(element));
            continue;
        }
        for pattern in &asked.get {
            let value = pattern.find(call, &element, budget)?;
            budget.answer(value.as_ref().map_or(0, Bytes::len))?;
            found.push(value);
        }
    }
    Ok(found)
}

fn sort(call: &mut Call<'_>, may_store: bool) -> Result<(), Fault> {
    let asked = Asked::parse(call, may_store)?;
    let mut budget = Budget::new();
    let found = found(call, &asked, &mut budget)?;
    let Some(key) = asked.target else {
        call.reply.array(found.len());
        for value in &found {
            match value {
                Some(value) => call.reply.value(value),
                None => call.reply.null(),
            }
        }
        return Ok(());
    };
    // How much is stored, other keys say.
    admit_bytes(call.state, (key.len() + budget.answered() + RECORD_BYTES) as u64, true)?;
    let was_there = call.make_way(key);
    for value in &found {
        call.change(Change::Push { key, end: End::Back, element: value.as_deref().unwrap_or_default() });
    }
    call.note_stored(Kinds::LIST, "sortstore", key, (found.len(), was_there));
    call.reply.length(found.len());
    Ok(())
}
