//! Parts of strings: APPEND, GETRANGE, SETRANGE, STRLEN, LCS.

use crate::engine::call::{Call, range};
use crate::engine::command::{ONE, TWO, commands};
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::text::TEXT_BYTES_MAX;

commands! { "string":
    "append", 3, [WRITE GROWS FAST], ONE, "2.0.0", "Appends a string to the value of a key." => append;
    "strlen", 2, [READ FAST], ONE, "2.2.0", "Returns the length of a string value." => strlen;
    "getrange", 4, [READ], ONE, "2.4.0", "Returns a substring of the string stored at a key." => getrange;
    "substr", 4, [READ], ONE, "1.0.0", "Returns a substring from a string value." => getrange;
    "setrange", 4, [WRITE GROWS], ONE, "2.2.0", "Overwrites a part of a string value with another by an offset." => setrange;
    "lcs", -3, [READ], TWO, "7.0.0", "Finds the longest common substring." => lcs;
}

/// Steps that LCS may take, and memory it may have, in cells of four bytes.
const LCS_CELLS_MAX: usize = 16 << 20;

/// Writes a part of a string, which may be longer than it was: what is between is zero then.
///
/// # Errors
/// [`Fault::TooLong`], or the log has no room.
pub fn write(call: &mut Call<'_>, key: &[u8], offset: usize, bytes: &[u8]) -> Result<(), Fault> {
    if offset.checked_add(bytes.len()).is_none_or(|end| end > TEXT_BYTES_MAX) {
        return Err(Fault::TooLong);
    }
    let zeroes = offset.saturating_sub(call.text(key)?.map_or(0, |text| text.len()));
    // A short request makes a long string: the next checkpoint has to write it.
    if zeroes > 0 {
        admit_bytes(call.state, zeroes as u64, true)?;
    }
    call.change(Change::Write { key, offset: offset as u64, bytes });
    Ok(())
}

fn append(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, bytes) = (call.args.at(1), call.args.at(2));
    let length = call.text(key)?.map_or(0, |text| text.len());
    write(call, key, length, bytes)?;
    call.note(Kinds::STRING, "append", key);
    call.reply.length(length + bytes.len());
    Ok(())
}

fn strlen(call: &mut Call<'_>) -> Result<(), Fault> {
    let length = call.text(call.args.at(1))?.map(|text| text.len());
    call.count(length.is_some());
    call.reply.length(length.unwrap_or(0));
    Ok(())
}

fn getrange(call: &mut Call<'_>) -> Result<(), Fault> {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let text = call.text(call.args.at(1))?.cloned();
    call.count(text.is_some());
    let text = text.unwrap_or_default();
    let (start, end) = range(start, stop, text.len());
    let lent = text.lent().map(|bytes| bytes.slice(start..end));
    call.reply.lent(text.get(start..end).unwrap_or_default(), lent.as_ref());
    Ok(())
}

fn setrange(call: &mut Call<'_>) -> Result<(), Fault> {
    let (key, bytes) = (call.args.at(1), call.args.at(3));
    let offset = usize::try_from(call.integer(2)?).map_err(|_| Fault::Said("ERR offset is out of range"))?;
    let length = call.text(key)?.map_or(0, |text| text.len());
    if bytes.is_empty() {
        call.reply.length(length);
        return Ok(());
    }
    write(call, key, offset, bytes)?;
    call.note(Kinds::STRING, "setrange", key);
    call.reply.length(length.max(offset + bytes.len()));
    Ok(())
}

/// What is wanted of LCS.
#[derive(Default)]
struct Wanted {
    length: bool,
    places: bool,
    lengths: bool,
    least: i64,
}

fn lcs(call: &mut Call<'_>) -> Result<(), Fault> {
    let of_strings = Fault::Said("ERR The specified keys must contain string values");
    let text = |key| call.text(key).map(|text| text.cloned().unwrap_or_default()).map_err(|_| of_strings.clone());
    let (one, other) = (text(call.args.at(1))?, text(call.args.at(2))?);
    let mut wanted = Wanted::default();
    let mut index = 3;
    while index < call.args.len() {
        if call.args.is(index, "LEN") {
            wanted.length = true;
        } else if call.args.is(index, "IDX") {
            wanted.places = true;
        } else if call.args.is(index, "WITHMATCHLEN") {
            wanted.lengths = true;
        } else if call.args.is(index, "MINMATCHLEN") && index + 1 < call.args.len() {
            index += 1;
            wanted.least = call.integer(index)?;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    if wanted.length && wanted.places {
        return Err(Fault::Said("ERR If you want both the length and indexes, please just use IDX."));
    }
    if (one.len() + 1).checked_mul(other.len() + 1).is_none_or(|cells| cells > LCS_CELLS_MAX) {
        return Err(Fault::Said("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    answer_lcs(call, (&one, &other), &wanted);
    Ok(())
}

/// A run that both have: where it begins in each, and how long it is.
struct Run {
    one: usize,
    other: usize,
    length: usize,
}

/// The longest common subsequence: its bytes, and its runs from the last one to the first.
fn common(one: &[u8], other: &[u8]) -> (Vec<u8>, Vec<Run>) {
    let width = other.len() + 1;
    let mut lengths = vec![0_u32; (one.len() + 1) * width];
    let at = |lengths: &[u32], row: usize, column: usize| lengths.get(row * width + column).copied().unwrap_or(0);
    for (row, a) in one.iter().enumerate() {
        for (column, b) in other.iter().enumerate() {
            let length = match a == b {
                true => at(&lengths, row, column) + 1,
                false => at(&lengths, row, column + 1).max(at(&lengths, row + 1, column)),
            };
            if let Some(cell) = lengths.get_mut((row + 1) * width + column + 1) {
                *cell = length;
            }
        }
    }
    let (mut text, mut runs): (Vec<u8>, Vec<Run>) = (Vec::new(), Vec::new());
    let (mut row, mut column) = (one.len(), other.len());
    while let (Some(above), Some(left)) = (row.checked_sub(1), column.checked_sub(1)) {
        let (a, b) = (one.get(above), other.get(left));
        if a == b {
            text.extend(a);
            match runs.last_mut() {
                Some(run) if run.one == row && run.other == column => {
                    (run.one, run.other, run.length) = (above, left, run.length + 1);
                }
                _ => runs.push(Run { one: above, other: left, length: 1 }),
            }
            (row, column) = (above, left);
        } else if at(&lengths, above, column) > at(&lengths, row, left) {
            row = above;
        } else {
            column = left;
        }
    }
    text.reverse();
    (text, runs)
}

fn answer_lcs(call: &mut Call<'_>, (one, other): (&[u8], &[u8]), wanted: &Wanted) {
    let (text, mut runs) = common(one, other);
    let reply = &mut *call.reply;
    if wanted.length {
        return reply.length(text.len());
    }
    if !wanted.places {
        return reply.bulk(&text);
    }
    runs.retain(|run| run.length as i64 >= wanted.least);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(runs.len());
    for Run { one, other, length } in runs {
        reply.array(2 + usize::from(wanted.lengths));
        for start in [one, other] {
            reply.array(2);
            reply.length(start);
            reply.length(start + length - 1);
        }
        if wanted.lengths {
            reply.length(length);
        }
    }
    reply.bulk(b"len");
    reply.length(text.len());
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn the_longest_is_found() {
        let (text, runs) = common(b"ohmytext", b"mynewtext");
        assert_eq!(text, b"mytext");
        let runs: Vec<_> = runs.iter().map(|run| (run.one, run.other, run.length)).collect();
        assert_eq!(runs, [(4, 5, 4), (2, 0, 2)]);
    }
}
