//! [`Item`]: a key with its value, and what is known of it.

use super::account::{Account, cost_of, lent_cost};
use bytes::Bytes;

/// Values of at least so many bytes are sent out of the memory they are in; shorter ones are cheaper to copy.
pub const LENT_BYTES_MIN: usize = 2 << 10;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 250;

/// Which part of the order of use an item is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Segment {
    /// New ones.
    #[default]
    Hot,
    /// Used again after they were new.
    Warm,
    /// The others: the last of them goes first.
    Cold,
}

/// What an item's flags tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Fetched since it was stored.
    pub is_fetched: bool,
    /// Fetched again: it is kept longer.
    pub is_active: bool,
    /// Its value is not to be trusted any more (meta delete with `I`).
    pub is_stale: bool,
    /// One client was told that it is to renew it.
    pub is_won: bool,
    /// Its key came in base64.
    pub is_binary: bool,
}

/// A key's and a value's memory: one block, but for values that are lent.
#[derive(Debug)]
pub enum Body {
    /// The key, then the value.
    Own(Box<[u8]>),
    /// Apart.
    Lent(Box<(Box<[u8]>, Bytes)>),
}

impl Default for Body {
    fn default() -> Body {
        Body::Own(Box::default())
    }
}

/// No item.
pub const NONE: u32 = u32::MAX;

/// See the module. Made so that it is 64 bytes: what is needed to find that a key is another one is in one line of the processor's cache.
#[derive(Debug, Default)]
pub struct Item {
    body: Body,
    /// What every change of a key changes: the number of the last change.
    pub cas: u64,
    /// Of the key.
    pub hash: u32,
    /// The next of its bucket.
    pub chain: u32,
    /// Its neighbours in the order of use.
    pub newer: u32,
    pub older: u32,
    /// When it ends, in seconds of the cache's clock; 0: never.
    pub expires_s: u32,
    /// When it was stored or fetched last.
    pub used_s: u32,
    /// The client's.
    pub flags: u32,
    key_length: u8,
    pub segment: Segment,
    pub marks: Marks,
}

impl Item {
    /// An item of a key of at most [`KEY_BYTES_MAX`] bytes.
    pub fn new(key: &[u8], value: Value, account: &Account) -> Item {
        let body = match value {
            Value::Small(value) => Body::Own(value.into_boxed_slice()),
            Value::Large(value) => Body::Lent(Box::new((key.into(), account.lend(value)))),
        };
        Item { body, key_length: key.len() as u8, chain: NONE, newer: NONE, older: NONE, ..Item::default() }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        match &self.body {
            Body::Own(bytes) => bytes.get(..usize::from(self.key_length)).unwrap_or_default(),
            Body::Lent(parts) => &parts.0,
        }
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        match &self.body {
            Body::Own(bytes) => bytes.get(usize::from(self.key_length)..).unwrap_or_default(),
            Body::Lent(parts) => &parts.1,
        }
    }

    /// The value, if it is one that is lent.
    pub fn lent(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Own(_) => None,
            Body::Lent(parts) => Some(&parts.1),
        }
    }

    /// Overwrites the first bytes of the value, and pads with blanks. It must be long enough, and not lent.
    pub fn overwrite(&mut self, number: &[u8]) -> bool {
        let Body::Own(bytes) = &mut self.body else { return false };
        let value = bytes.get_mut(usize::from(self.key_length)..).unwrap_or_default();
        let Some((first, rest)) = value.split_at_mut_checked(number.len()) else { return false };
        first.copy_from_slice(number);
        rest.fill(b' ');
        true
    }

    /// Memory of it that no account counts.
    pub fn own_cost(&self) -> u64 {
        match &self.body {
            Body::Own(bytes) => cost_of(bytes.len()),
            Body::Lent(parts) => cost_of(parts.0.len()) + cost_of(size_of_val(&**parts)),
        }
    }

    /// All of its memory, as far as it is known by its lengths.
    pub fn cost(&self) -> u64 {
        self.own_cost() + self.lent().map_or(0, |value| lent_cost(value.len()))
    }

    /// What memcached would take for it: clients see this number, and limits mean it.
    pub fn nominal_bytes(&self) -> usize {
        nominal_bytes(self.key().len(), self.value().len(), self.flags)
    }
}

/// What memcached takes for an item: its header, a key with an end, flags if there are any, a value with the end of its line.
pub fn nominal_bytes(key: usize, value: usize, flags: u32) -> usize {
    56 + key + 1 + if flags == 0 { 0 } else { 4 } + value + 2
}

/// A value that is being put together, where it will stay.
#[derive(Debug)]
pub enum Value {
    /// Behind its key.
    Small(Vec<u8>),
    /// By itself.
    Large(Vec<u8>),
}

impl Value {
    /// For a value of this length.
    pub fn with_capacity(key: &[u8], length: usize) -> Value {
        if length >= LENT_BYTES_MIN {
            return Value::Large(Vec::with_capacity(length.min(FIRST_BYTES)));
        }
        let mut bytes = Vec::with_capacity(key.len() + length);
        bytes.extend_from_slice(key);
        Value::Small(bytes)
    }

    /// A whole value.
    pub fn of(key: &[u8], parts: &[&[u8]]) -> Value {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut value = match length >= LENT_BYTES_MIN {
            true => Value::Large(Vec::with_capacity(length)),
            false => Value::with_capacity(key, length),
        };
        parts.iter().for_each(|part| value.append(part));
        value
    }

    /// Adds what has come of it.
    pub fn append(&mut self, bytes: &[u8]) {
        match self {
            Value::Small(own) | Value::Large(own) => own.extend_from_slice(bytes),
        }
    }

    /// The memory it takes now.
    pub fn cost(&self) -> u64 {
        match self {
            Value::Small(own) | Value::Large(own) => cost_of(own.capacity()),
        }
    }
}

/// Memory for a value that was announced and has not come is not taken at once: it grows with what comes.
const FIRST_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_a_line_of_the_cache() {
        assert_eq!(size_of::<Item>(), 64);
    }

    #[test]
    fn short_values_are_behind_their_key_and_long_ones_are_lent() {
        let account = Account::default();
        for length in [0, 1, LENT_BYTES_MIN - 1, LENT_BYTES_MIN, 100_000] {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let item = Item::new(b"key", Value::of(b"key", &[&bytes]), &account);
            assert_eq!((item.key(), item.value()), (&b"key"[..], &bytes[..]));
            assert_eq!(item.lent().is_some(), length >= LENT_BYTES_MIN);
        }
        assert_eq!(account.bytes(), 0);
    }

    #[test]
    fn a_number_is_overwritten_where_it_is() {
        let mut item = Item::new(b"n", Value::of(b"n", &[b"100"]), &Account::default());
        assert!(item.overwrite(b"99"));
        assert_eq!((item.key(), item.value()), (&b"n"[..], &b"99 "[..]));
        assert!(!item.overwrite(b"1000"));
    }
}
