//! What the core answers. Each answer costs at most a page of keys, or a text of a bounded size.

use crate::engine::state::State;
use crate::export::text::{Lines, of_value};
use bytes::Bytes;
use qanat_export::names::{bytes_of, name_of};
use qanat_export::questions::Answer;
use qanat_export::tree::TreeError;

/// Keys that are looked at for a page.
const PAGE_KEYS: usize = 256;
/// The database whose keys are files.
const DATABASE: u8 = 0;

/// What the export's thread asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// File names of keys, from so many places on downwards; `None`: all. As with SCAN, what is there all the time is told, and some of it
    /// perhaps twice.
    Names(Option<u64>),
    /// The file of a name.
    File(Vec<u8>),
    /// Commands that took long, the last one first.
    SlowLog,
}

/// What it is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// File names, and from where to go on; `None`: these were the last.
    Names(Vec<Vec<u8>>, Option<u64>),
    /// A file's content.
    Content(Bytes),
}

/// Answers a question. Nothing is changed, and no key counts as used.
///
/// # Errors
/// There is no such key, its text is too large, or the log is being recovered.
pub fn answer(state: &State, question: &Question) -> Answer<Told> {
    if state.is_loading {
        return Err(TreeError::NotReady);
    }
    match question {
        Question::Names(left) => Ok(names(state, *left)),
        Question::File(name) => {
            let key = bytes_of(name).ok_or(TreeError::Absent)?;
            let entry = state.keyspace.find(DATABASE, &key).ok_or(TreeError::Absent)?;
            of_value(&entry.value).map(Told::Content)
        }
        Question::SlowLog => slow_log(state).map(Told::Content),
    }
}

fn names(state: &State, left: Option<u64>) -> Told {
    let database = state.keyspace.database(DATABASE);
    let from = left.map_or(database.len(), |left| usize::try_from(left).unwrap_or(usize::MAX).min(database.len()));
    let to = from.saturating_sub(PAGE_KEYS);
    let there = (to..from).rev().filter_map(|place| database.at(place));
    let names = there.filter(|(_, entry)| !state.keyspace.is_over(entry)).filter_map(|(key, _)| name_of(key));
    Told::Names(names.collect(), (to > 0).then_some(to as u64))
}

/// A line for each: its number, when (Unix, seconds), how long (µs), whose it was, and the arguments.
fn slow_log(state: &State) -> Result<Bytes, TreeError> {
    let mut lines = Lines::default();
    for slow in state.observed.slow.entries() {
        let head = [slow.id.to_string(), slow.at_s.to_string(), slow.took_us.to_string(), slow.peer.to_string()];
        let head = head.iter().map(String::as_bytes);
        lines.line(head.chain(slow.args.iter().map(AsRef::as_ref)))?;
    }
    Ok(lines.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::operating::Operating;
    use crate::engine::settings::{Durability, Settings};
    use crate::keyspace::change::Change;
    use std::collections::BTreeSet;

    fn state() -> State {
        let operating = Operating::default();
        let settings =
            Settings { has_log: true, durability: Durability::No, clients_max: 1, port: 1, timeout_s: 0, operating };
        State::new(settings, 1)
    }

    fn put(state: &mut State, key: &[u8], text: &[u8], expires: i64) {
        state.keyspace.change(0, Change::Put { key, expires, text });
    }

    #[test]
    fn all_names_are_told_page_by_page() {
        let mut state = state();
        for number in 0..1_000 {
            put(&mut state, format!("key {number}").as_bytes(), b"x", 0);
        }
        put(&mut state, &[b'x'; 300], b"too long a name", 0);
        state.keyspace.now_ms = 10;
        put(&mut state, b"over", b"x", 5);
        let (mut left, mut all, mut pages) = (None, BTreeSet::new(), 0);
        loop {
            let Ok(Told::Names(names, next)) = answer(&state, &Question::Names(left)) else { panic!("names") };
            assert!(names.len() <= PAGE_KEYS);
            all.extend(names);
            pages += 1;
            // What is removed meanwhile does not hide others.
            state.keyspace.change(0, Change::Delete { key: b"key 999" });
            let Some(next) = next else { break };
            left = Some(next);
        }
        assert_eq!((pages, all.len()), (4, 1_000));
        assert!(all.contains(&b"key%2017"[..]) && !all.contains(&b"over"[..]));
        // Whatever cookie comes.
        assert!(answer(&state, &Question::Names(Some(u64::MAX))).is_ok());
    }

    #[test]
    fn files_are_what_keys_have() {
        let mut state = state();
        put(&mut state, b"a/b", b"bytes\0\n", 0);
        state.keyspace.change(0, Change::SetScore { key: b"ranks", member: b"second", score: 2.5 });
        state.keyspace.change(0, Change::SetScore { key: b"ranks", member: b"first", score: -1.0 });
        state.keyspace.change(0, Change::SetField { key: b"hash", field: b"a\tb", value: b"c" });
        state.keyspace.change(1, Change::Put { key: b"elsewhere", expires: 0, text: b"x" });
        let file = |name: &[u8]| answer(&state, &Question::File(name.to_vec()));
        let content = |text: &'static [u8]| Ok(Told::Content(Bytes::from_static(text)));
        assert_eq!(file(b"a%2Fb"), content(b"bytes\0\n"));
        assert_eq!(file(b"ranks"), content(b"-1\tfirst\n2.5\tsecond\n"));
        assert_eq!(file(b"hash"), content(b"a\\tb\tc\n"));
        for name in [&b"a/b"[..], b"none", b"elsewhere", b"%", b""] {
            assert_eq!(file(name), Err(TreeError::Absent), "{name:?}");
        }
        state.is_loading = true;
        assert_eq!(answer(&state, &Question::SlowLog), Err(TreeError::NotReady));
    }
}
