//! How a changed sketch is written down: as the bytes that differ, so that an element costs some bytes of the log and not the whole sketch.

use crate::commands::hyperloglog::sketch::Sketch;
use crate::engine::call::Call;
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use std::ops::Range;

/// What a change takes of a record besides its bytes, about.
const CHANGE_BYTES: usize = 16;
/// Bytes that differ are one change if there are no more than so many equal ones between them.
const GAP_BYTES: usize = 8;
/// What a record needs besides its changes: it may begin another unit of the log.
const RECORD_BYTES: usize = 8 << 10;

/// Where two strings differ. What the second one has more differs.
fn differences(before: &[u8], after: &[u8]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (place, byte) in after.iter().enumerate() {
        if before.get(place) == Some(byte) {
            continue;
        }
        match found.last_mut() {
            Some(last) if place - last.end <= GAP_BYTES => last.end = place + 1,
            _ => found.push(place..place + 1),
        }
    }
    found
}

/// Makes a key's string the sketch. When the key expires stays as it is.
///
/// # Errors
/// The log has no room.
pub fn store(call: &mut Call<'_>, key: &[u8], sketch: &Sketch) -> Result<(), Fault> {
    let after = sketch.text();
    let expires = call.find(key).map_or(0, |entry| entry.expires);
    let before = call.text(key)?;
    let differences = before.filter(|before| before.len() <= after.len()).map(|before| differences(before, &after));
    let changed = match &differences {
        Some(differences) => differences.iter().map(|range| range.len() + CHANGE_BYTES).sum(),
        None => after.len(),
    };
    // A sketch that becomes dense takes more than its command's arguments.
    admit_bytes(call.state, (key.len() + changed + RECORD_BYTES) as u64, true)?;
    match differences {
        Some(differences) => {
            for range in differences {
                let offset = range.start as u64;
                call.change(Change::Write { key, offset, bytes: after.get(range).unwrap_or_default() });
            }
        }
        None => call.change(Change::Put { key, expires, text: &after }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::differences;

    #[test]
    fn near_differences_are_one() {
        for (before, after, expected) in [
            (&b"abc"[..], &b"abc"[..], &[][..]),
            (b"abc", b"xbcde", &[(0, 5)]),
            (b"0123456789abcdef", b"0x23456789abcxef", &[(1, 2), (13, 14)]),
            (b"0123456789", b"0x2345678x", &[(1, 10)]),
        ] {
            let found: Vec<_> = differences(before, after).iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected);
        }
    }
}
