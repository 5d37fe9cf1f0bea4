//! [`Call`]: a command that is being executed, and what all commands need.

use crate::engine::fault::Fault;
use crate::engine::session::{Blocked, Session, Wish};
use crate::engine::state::State;
use crate::keyspace::change::Change;
use crate::keyspace::database::Entry;
use crate::keyspace::events::Kinds;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::sorted::Sorted;
use crate::keyspace::text::Text;
use crate::keyspace::value::Value;
use crate::resp::number::{double, integer};
use crate::resp::reply::Reply;
use crate::resp::request::Args;

/// A command that is being executed.
pub struct Call<'a> {
    /// What it works on.
    pub state: &'a mut State,
    /// Whose it is: the slot.
    pub client: usize,
    /// The client's database.
    pub database: u8,
    /// Its arguments, the name included.
    pub args: Args<'a>,
    /// Where it answers.
    pub reply: &'a mut Reply,
    /// It is part of a transaction: it may not wait.
    pub is_queued: bool,
}

/// A value of one kind.
macro_rules! of_kind {
    ($name:ident, $kind:ident, $type:ty, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Errors
        /// [`Fault::WrongType`].
        pub fn $name(&self, key: &[u8]) -> Result<Option<&$type>, Fault> {
            value_of::<$type>(self.state, self.database, key, |value| match value {
                Value::$kind(value) => Some(value),
                _ => None,
            })
        }
    };
}

/// A value of the kind that `kind` picks, while the reply is written: only the state is borrowed.
///
/// # Errors
/// [`Fault::WrongType`].
#[inline]
pub fn value_of<'a, T>(
    state: &'a State,
    database: u8,
    key: &[u8],
    kind: impl FnOnce(&'a Value) -> Option<&'a T>,
) -> Result<Option<&'a T>, Fault> {
    let found = state.keyspace.find_and_use(database, key);
    found.map(|entry| kind(&entry.value).ok_or(Fault::WrongType)).transpose()
}

impl Call<'_> {
    /// A key's entry, which is used now.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Entry> {
        self.state.keyspace.find_and_use(self.database, key)
    }

    /// A key's entry, for those who only look whether and how it is there.
    pub fn look(&self, key: &[u8]) -> Option<&Entry> {
        self.state.keyspace.find(self.database, key)
    }

    of_kind!(text, Text, Text, "A string.");
    of_kind!(hash, Hash, Hash, "A hash.");
    of_kind!(list, List, List, "A list.");
    of_kind!(set, Set, Set, "A set.");
    of_kind!(sorted, Sorted, Sorted, "A sorted set.");

    /// Counts whether a read found its key.
    #[inline]
    pub fn count(&mut self, is_there: bool) {
        let statistics = &mut self.state.statistics;
        match is_there {
            true => statistics.hits += 1,
            false => statistics.misses += 1,
        }
    }

    /// Makes a change in the client's database.
    #[inline]
    pub fn change(&mut self, change: Change<'_>) {
        self.state.keyspace.change(self.database, change);
    }

    /// Something happened to a key of the client's database.
    #[inline]
    pub fn note(&mut self, kind: Kinds, name: &'static str, key: &[u8]) {
        self.state.keyspace.events.note(kind, name, self.database, key);
    }

    /// Something was taken from a key's value, which may have been the last that it had.
    pub fn note_taken(&mut self, kind: Kinds, name: &'static str, key: &[u8]) {
        self.state.keyspace.note_taken((kind, name), self.database, key);
    }

    /// Deletes a key, for a command that puts something else there; whether it was there.
    pub fn make_way(&mut self, key: &[u8]) -> bool {
        let is_there = self.look(key).is_some();
        if is_there {
            self.change(Change::Delete { key });
        }
        self.state.keyspace.events.is_replacing = is_there;
        is_there
    }

    /// The key has `count` elements now, in place of what it may have had.
    pub fn note_stored(&mut self, kind: Kinds, name: &'static str, key: &[u8], (count, was_there): (usize, bool)) {
        match (count, was_there) {
            (0, false) => {}
            (0, true) => self.note(Kinds::GENERIC, "del", key),
            _ => self.note(kind, name, key),
        }
    }

    /// The client.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.state.sessions.get_mut(self.client)
    }

    /// An argument that is an integer.
    ///
    /// # Errors
    /// [`Fault::NotInteger`].
    pub fn integer(&self, index: usize) -> Result<i64, Fault> {
        integer(self.args.at(index)).ok_or(Fault::NotInteger)
    }

    /// An argument that is a number.
    ///
    /// # Errors
    /// [`Fault::NotFloat`].
    pub fn double(&self, index: usize) -> Result<f64, Fault> {
        double(self.args.at(index)).ok_or(Fault::NotFloat)
    }

    /// A count that is at least zero.
    ///
    /// # Errors
    /// [`Fault::NotInteger`], [`Fault::NotPositive`].
    pub fn positive(&self, index: usize) -> Result<usize, Fault> {
        match self.integer(index) {
            Ok(number) => usize::try_from(number).map_err(|_| Fault::NotPositive),
            Err(_) => Err(Fault::NotPositive),
        }
    }

    /// Waits for any of these keys, unless it may not: then the answer is nothing.
    pub fn block(&mut self, keys: Vec<Box<[u8]>>, wish: Wish, timeout_ms: i64) {
        if self.is_queued {
            return self.reply.null_array();
        }
        let State { keyspace, turns, blocked, sessions, .. } = &mut *self.state;
        let until_ms = if timeout_ms == 0 { 0 } else { keyspace.now_ms.saturating_add(timeout_ms) };
        if let Some(session) = sessions.get_mut(self.client) {
            *turns += 1;
            *blocked += 1;
            keyspace.notes_pushes = true;
            session.blocked = Some(Box::new(Blocked { database: self.database, keys, wish, until_ms, turn: *turns }));
        }
    }

    /// How long it may wait, in milliseconds; 0: for ever.
    ///
    /// # Errors
    /// As Redis words them.
    pub fn timeout(&self, index: usize) -> Result<i64, Fault> {
        let seconds = double(self.args.at(index)).ok_or(Fault::Said("ERR timeout is not a float or out of range"))?;
        if seconds < 0.0 {
            return Err(Fault::Said("ERR timeout is negative"));
        }
        let ms = (seconds * 1_000.0).ceil();
        if ms > (i64::MAX / 2) as f64 {
            return Err(Fault::Said("ERR timeout is out of range"));
        }
        Ok(ms as i64)
    }
}

/// Where a range is in so many elements: its first place, and the one behind its last. Negative numbers count from the end.
pub fn range(start: i64, stop: i64, length: usize) -> (usize, usize) {
    let length = length as i64;
    let from_end = |place: i64| if place < 0 { place.saturating_add(length).max(0) } else { place };
    let start = from_end(start);
    let stop = if stop < 0 { stop.saturating_add(length) } else { stop.min(length - 1) };
    if start > stop || start >= length { (0, 0) } else { (start as usize, stop as usize + 1) }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        for ((start, stop, length), expected) in [
            ((0, -1, 5), (0, 5)),
            ((1, 2, 5), (1, 3)),
            ((-2, -1, 5), (3, 5)),
            ((-100, 100, 5), (0, 5)),
            ((3, 1, 5), (0, 0)),
            ((5, 9, 5), (0, 0)),
            ((0, -6, 5), (0, 0)),
            ((0, 0, 0), (0, 0)),
            ((i64::MIN, i64::MAX, 3), (0, 3)),
        ] {
            assert_eq!(range(start, stop, length), expected, "{start} {stop} {length}");
        }
    }
}
