//! [`Change`]: all that can happen to a keyspace, and how it is written in a record.
//!
//! ```text
//!  record:  change change …          all of them take effect, or none
//!  change:  kind (1) · database (1) · key · fields
//!  bytes:   length (LEB128) · bytes          a key: length + 1; 0: the key of the change before
//!  number:  LEB128, zigzag if it has a sign · score: 8, little-endian
//! ```
//! No change depends on a key but its own. So a checkpoint may write one key after the other while changes go on. Databases that are swapped
//! keep their turns in it, by [`Order`](crate::keyspace::order::Order).

use crate::keyspace::leb;
use crate::keyspace::stream::change::{Sink, Source, StreamChange};

/// Which end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The head: where LPUSH puts it.
    Front,
    /// The tail.
    Back,
}

/// What happens to one key; or, for [`Change::Flush`] and [`Change::Swap`], to databases; or to a library of functions.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "each variant says what its fields are")]
pub enum Change<'a> {
    /// The key has this string from now on, and expires at this time (Unix, ms), or never: 0.
    Put { key: &'a [u8], expires: i64, text: &'a [u8] },
    /// The key is gone.
    Delete { key: &'a [u8] },
    /// It expires at this time (Unix, ms); never: 0.
    Expire { key: &'a [u8], at: i64 },
    /// All keys of the database are gone.
    Flush,
    /// The database has all keys of this one, which has its keys.
    Swap { with: u8 },
    /// Bytes of a string are written, from an offset on; what is before it is zero if it is new.
    Write { key: &'a [u8], offset: u64, bytes: &'a [u8] },
    /// A field of a hash has this value.
    SetField { key: &'a [u8], field: &'a [u8], value: &'a [u8] },
    /// A field of a hash is gone.
    DeleteField { key: &'a [u8], field: &'a [u8] },
    /// An element is put at an end of a list.
    Push { key: &'a [u8], end: End, element: &'a [u8] },
    /// So many elements at an end of a list are gone.
    Pop { key: &'a [u8], end: End, count: u64 },
    /// The element at an index is another one.
    Replace { key: &'a [u8], index: u64, element: &'a [u8] },
    /// An element is put before the one at an index.
    Insert { key: &'a [u8], index: u64, element: &'a [u8] },
    /// The element at an index is gone.
    Remove { key: &'a [u8], index: u64 },
    /// A set has this member.
    AddMember { key: &'a [u8], member: &'a [u8] },
    /// A set has it no more.
    RemoveMember { key: &'a [u8], member: &'a [u8] },
    /// A sorted set has this member, with this score.
    SetScore { key: &'a [u8], member: &'a [u8], score: f64 },
    /// A sorted set has it no more.
    RemoveScore { key: &'a [u8], member: &'a [u8] },
    /// A library of functions has this text. It is of no database.
    PutLibrary { name: &'a [u8], text: &'a [u8] },
    /// A library of functions is gone.
    DeleteLibrary { name: &'a [u8] },
    /// Something happens to a stream.
    Stream { key: &'a [u8], what: StreamChange<'a> },
}

impl<'a> Change<'a> {
    /// Whose change it is; `None`: all keys' of a database, or a library's.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Change::Flush | Change::Swap { .. } | Change::PutLibrary { .. } | Change::DeleteLibrary { .. } => None,
            Change::Put { key, .. }
            | Change::Delete { key }
            | Change::Expire { key, .. }
            | Change::Write { key, .. }
            | Change::SetField { key, .. }
            | Change::DeleteField { key, .. }
            | Change::Push { key, .. }
            | Change::Pop { key, .. }
            | Change::Replace { key, .. }
            | Change::Insert { key, .. }
            | Change::Remove { key, .. }
            | Change::AddMember { key, .. }
            | Change::RemoveMember { key, .. }
            | Change::SetScore { key, .. }
            | Change::RemoveScore { key, .. }
            | Change::Stream { key, .. } => Some(key),
        }
    }

    /// Whether it makes its key, if there is none.
    pub fn makes(&self) -> bool {
        match self {
            Change::Put { .. }
            | Change::Write { .. }
            | Change::SetField { .. }
            | Change::Push { .. }
            | Change::AddMember { .. }
            | Change::SetScore { .. } => true,
            Change::Stream { what, .. } => what.makes(),
            _ => false,
        }
    }
}

/// Changes as they are written.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// Where the key of the change before lies, and its database.
    last: Option<(std::ops::Range<usize>, u8)>,
}

impl Encoder {
    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.last = None;
        // One large record's memory is not kept for ever.
        self.bytes.shrink_to(1 << 20);
    }

    fn number(&mut self, number: u64) {
        leb::put(&mut self.bytes, number);
    }

    fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    fn piece(&mut self, bytes: &[u8]) {
        leb::put_piece(&mut self.bytes, bytes);
    }

    fn begin(&mut self, kind: u8, database: u8, key: &[u8]) {
        self.bytes.extend_from_slice(&[kind, database]);
        let is_same = self.last.as_ref().is_some_and(|(range, of)| {
            *of == database && self.bytes.get(range.clone()).is_some_and(|last| last == key)
        });
        if is_same {
            return self.bytes.push(0);
        }
        self.number(key.len() as u64 + 1);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.last = Some((start..self.bytes.len(), database));
    }

    /// Writes one.
    pub fn push(&mut self, database: u8, change: &Change<'_>) {
        match *change {
            Change::Put { key, expires, text } => {
                self.begin(1, database, key);
                self.signed(expires);
                self.piece(text);
            }
            Change::Delete { key } => self.begin(2, database, key),
            Change::Expire { key, at } => {
                self.begin(3, database, key);
                self.signed(at);
            }
            Change::Flush => self.bytes.extend_from_slice(&[4, database]),
            Change::Write { key, offset, bytes } => {
                self.begin(5, database, key);
                self.number(offset);
                self.piece(bytes);
            }
            Change::SetField { key, field, value } => {
                self.begin(6, database, key);
                self.piece(field);
                self.piece(value);
            }
            Change::DeleteField { key, field } => self.of_one(7, database, key, field),
            Change::Push { key, end: End::Front, element } => self.of_one(8, database, key, element),
            Change::Push { key, end: End::Back, element } => self.of_one(9, database, key, element),
            Change::Pop { key, end, count } => {
                self.begin(if end == End::Front { 10 } else { 11 }, database, key);
                self.number(count);
            }
            Change::Replace { key, index, element } => self.of_index(12, database, key, index, element),
            Change::Insert { key, index, element } => self.of_index(13, database, key, index, element),
            Change::Remove { key, index } => {
                self.begin(14, database, key);
                self.number(index);
            }
            Change::AddMember { key, member } => self.of_one(15, database, key, member),
            Change::RemoveMember { key, member } => self.of_one(16, database, key, member),
            Change::SetScore { key, member, score } => {
                self.of_one(17, database, key, member);
                self.bytes.extend_from_slice(&score.to_le_bytes());
            }
            Change::RemoveScore { key, member } => self.of_one(18, database, key, member),
            Change::PutLibrary { name, text } => {
                self.bytes.extend_from_slice(&[60, database]);
                self.piece(name);
                self.piece(text);
            }
            Change::DeleteLibrary { name } => {
                self.bytes.extend_from_slice(&[61, database]);
                self.piece(name);
            }
            Change::Swap { with } => self.bytes.extend_from_slice(&[62, database, with]),
            Change::Stream { key, what } => {
                self.begin(what.kind(), database, key);
                what.write(self);
            }
        }
    }

    fn of_one(&mut self, kind: u8, database: u8, key: &[u8], piece: &[u8]) {
        self.begin(kind, database, key);
        self.piece(piece);
    }

    fn of_index(&mut self, kind: u8, database: u8, key: &[u8], index: u64, piece: &[u8]) {
        self.begin(kind, database, key);
        self.number(index);
        self.piece(piece);
    }
}

impl Sink for Encoder {
    fn put_number(&mut self, number: u64) {
        self.number(number);
    }

    fn put_signed(&mut self, number: i64) {
        self.signed(number);
    }

    fn put_piece(&mut self, piece: &[u8]) {
        self.piece(piece);
    }
}

/// The changes of a record. It ends early, and [`is_whole`](Decoder::is_whole) is false then, if the record is none.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    last: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Of a record.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes, last: &[] }
    }

    /// Whether nothing is left that is no change.
    pub fn is_whole(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        leb::take(&mut self.rest)
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn taken(&mut self, length: u64) -> Option<&'a [u8]> {
        let (piece, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(piece)
    }

    fn piece(&mut self) -> Option<&'a [u8]> {
        leb::take_piece(&mut self.rest)
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        if let Some(length) = self.number()?.checked_sub(1) {
            self.last = self.taken(length)?;
        }
        Some(self.last)
    }

    fn score(&mut self) -> Option<f64> {
        let bytes = self.taken(8)?;
        Some(f64::from_le_bytes(*bytes.first_chunk()?)).filter(|score| !score.is_nan())
    }

    fn change(&mut self) -> Option<(u8, Change<'a>)> {
        let (kind, database) = (self.byte()?, self.byte()?);
        let of_no_key = match kind {
            4 => Some(Change::Flush),
            60 => Some(Change::PutLibrary { name: self.piece()?, text: self.piece()? }),
            61 => Some(Change::DeleteLibrary { name: self.piece()? }),
            62 => Some(Change::Swap { with: self.byte()? }),
            _ => None,
        };
        if let Some(change) = of_no_key {
            return Some((database, change));
        }
        let key = self.key()?;
        let change = match kind {
            1 => Change::Put { key, expires: self.signed()?, text: self.piece()? },
            2 => Change::Delete { key },
            3 => Change::Expire { key, at: self.signed()? },
            5 => Change::Write { key, offset: self.number()?, bytes: self.piece()? },
            6 => Change::SetField { key, field: self.piece()?, value: self.piece()? },
            7 => Change::DeleteField { key, field: self.piece()? },
            8 => Change::Push { key, end: End::Front, element: self.piece()? },
            9 => Change::Push { key, end: End::Back, element: self.piece()? },
            10 => Change::Pop { key, end: End::Front, count: self.number()? },
            11 => Change::Pop { key, end: End::Back, count: self.number()? },
            12 => Change::Replace { key, index: self.number()?, element: self.piece()? },
            13 => Change::Insert { key, index: self.number()?, element: self.piece()? },
            14 => Change::Remove { key, index: self.number()? },
            15 => Change::AddMember { key, member: self.piece()? },
            16 => Change::RemoveMember { key, member: self.piece()? },
            17 => Change::SetScore { key, member: self.piece()?, score: self.score()? },
            18 => Change::RemoveScore { key, member: self.piece()? },
            19..=39 => Change::Stream { key, what: StreamChange::read(kind, self)? },
            _ => return None,
        };
        Some((database, change))
    }
}

impl<'a> Source<'a> for Decoder<'a> {
    fn take_number(&mut self) -> Option<u64> {
        self.number()
    }

    fn take_signed(&mut self) -> Option<i64> {
        self.signed()
    }

    fn take_piece(&mut self) -> Option<&'a [u8]> {
        self.piece()
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = (u8, Change<'a>);

    fn next(&mut self) -> Option<(u8, Change<'a>)> {
        let before = self.rest;
        let change = self.change();
        if change.is_none() {
            self.rest = before;
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::stream::id::Id;
    use proptest::prelude::*;

    /// A change made of numbers and bytes.
    fn change<'a>(kind: u8, key: &'a [u8], piece: &'a [u8], number: i64) -> Change<'a> {
        let (index, end) = (number as u64, if number > 0 { End::Front } else { End::Back });
        match kind % 29 {
            0 => Change::Put { key, expires: number, text: piece },
            1 => Change::Delete { key },
            2 => Change::Expire { key, at: number },
            3 => Change::Flush,
            4 => Change::Write { key, offset: index, bytes: piece },
            5 => Change::SetField { key, field: key, value: piece },
            6 => Change::DeleteField { key, field: piece },
            7 => Change::Push { key, end, element: piece },
            8 => Change::Pop { key, end, count: index },
            9 => Change::Replace { key, index, element: piece },
            10 => Change::Insert { key, index, element: piece },
            11 => Change::Remove { key, index },
            12 => Change::AddMember { key, member: piece },
            13 => Change::RemoveMember { key, member: piece },
            14 => Change::SetScore { key, member: piece, score: number as f64 / 3.0 },
            15 => Change::RemoveScore { key, member: piece },
            26 => Change::PutLibrary { name: key, text: piece },
            27 => Change::DeleteLibrary { name: piece },
            28 => Change::Swap { with: kind },
            kind => Change::Stream { key, what: stream_change(kind, piece, number) },
        }
    }

    fn stream_change(kind: u8, piece: &[u8], number: i64) -> StreamChange<'_> {
        let last = Id { ms: number as u64, number: number.unsigned_abs() / 3 };
        match kind {
            16 => StreamChange::Append { id: last, fields: piece },
            17 => StreamChange::Remove { id: last },
            18 => StreamChange::Trim { through: last },
            19 => StreamChange::SetMarks { last, added: last.number, removed: Id::MAX },
            20 => StreamChange::SetGroup { group: piece, last, read: u64::try_from(number).ok() },
            21 => StreamChange::DropGroup { group: piece },
            22 => StreamChange::SetConsumer { group: piece, consumer: piece, seen: number },
            23 => StreamChange::DropConsumer { group: piece, consumer: b"it" },
            24 => StreamChange::SetPending { group: piece, consumer: b"it", deliveries: piece },
            _ => StreamChange::DropPending { group: b"it", ids: piece },
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            parts in prop::collection::vec((any::<u8>(), 0_u8..3, 0_usize..3, prop::collection::vec(any::<u8>(), 0..200), any::<i64>()), 0..20),
        ) {
            let keys: [&[u8]; 3] = [b"", b"one", &[b'k'; 300]];
            let changes: Vec<_> =
                parts.iter().map(|(kind, database, key, piece, number)| (*database, change(*kind, keys[*key], piece, *number))).collect();
            let mut encoder = Encoder::default();
            changes.iter().for_each(|(database, change)| encoder.push(*database, change));
            let mut decoder = Decoder::new(encoder.bytes());
            prop_assert_eq!(decoder.by_ref().collect::<Vec<_>>(), changes);
            prop_assert!(decoder.is_whole());
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::new(&bytes);
            decoder.by_ref().for_each(drop);
        }
    }
}
