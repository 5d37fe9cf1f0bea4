//! A stack's state as bytes, for another process to go on with it: every table as it is, so that handles stay valid and nobody
//! can tell by what is sent that the stack has moved (`tests/simulator` looks at that).
//!
//! * Frames are written as places ([`qanat_nic::snapshot`]), bytes lent from a memory that goes along as ranges of it; other
//!   bytes are copied, and caches left out.
//! * What is read is not believed where memory hangs on it: each frame can be claimed once, and tables whose links and indices
//!   do not agree are refused ([`Stack::resume`](crate::Stack::resume)). The numbers of a connection are believed, as its peer's are: within bounds.
//! * A range of a [`Source`](crate::Source) can't be written: it is code. The stack then stays where it is.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;

/// Objects of a table read: more than any card has.
pub(crate) const OBJECTS_MAX: usize = 1 << 22;

thread_local! {
    /// Of the call under way: memories that go along.
    static MEMORIES: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
}

struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        MEMORIES.take();
    }
}

/// Runs `work`, in which bytes of `memories` are written as ranges of them, and read so: in the same order there.
pub fn among<T>(memories: Vec<Bytes>, work: impl FnOnce() -> T) -> T {
    MEMORIES.set(memories);
    let _ending = Ending;
    work()
}

/// Why something can't be written or read.
pub type Fault = postcard::Error;

/// As bytes. Within [`qanat_nic::snapshot::writing`], if there are frames in it.
///
/// # Errors
/// Something that can't be written.
pub fn write(value: &impl Serialize) -> Result<Vec<u8>, Fault> {
    postcard::to_allocvec(value)
}

/// From bytes, and what follows them. Within [`qanat_nic::snapshot::reading`], if there are frames in it.
///
/// # Errors
/// Bytes that are not such a value's.
pub fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), Fault> {
    postcard::take_from_bytes(bytes)
}

/// Lent bytes as they are written.
#[derive(Serialize, Deserialize)]
enum Lent {
    Range { memory: u8, offset: u32, length: u32 },
    Copied(Vec<u8>),
}

pub(crate) fn write_bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    let start = bytes.as_ptr().addr();
    let range = MEMORIES.with_borrow(|memories| {
        let within = |memory: &Bytes| {
            let offset = start.checked_sub(memory.as_ptr().addr())?;
            (offset.checked_add(bytes.len())? <= memory.len()).then_some(offset)
        };
        let (number, offset) = memories.iter().enumerate().find_map(|(at, memory)| Some((at, within(memory)?)))?;
        Some((u8::try_from(number).ok()?, u32::try_from(offset).ok()?, u32::try_from(bytes.len()).ok()?))
    });
    match range {
        Some((memory, offset, length)) => Lent::Range { memory, offset, length },
        None => Lent::Copied(bytes.to_vec()),
    }
    .serialize(serializer)
}

pub(crate) fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    match Lent::deserialize(deserializer)? {
        Lent::Copied(bytes) => Ok(bytes.into()),
        Lent::Range { memory, offset, length } => {
            let (start, end) = (offset as usize, offset as usize + length as usize);
            let slice =
                |all: &Vec<Bytes>| all.get(usize::from(memory)).filter(|m| end <= m.len()).map(|m| m.slice(start..end));
            MEMORIES.with_borrow(slice).ok_or_else(|| serde::de::Error::custom("a range beyond its memory"))
        }
    }
}

/// A table that is mostly empty, as what is in it: its size, and places with their entries.
pub(crate) fn write_sparse<T: Serialize, S: Serializer>(
    entries: &[T],
    is_empty: impl Fn(&T) -> bool,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let places = entries.iter().enumerate().filter(|(_, entry)| !is_empty(entry));
    let used: Vec<(u32, &T)> = places.map(|(at, entry)| (at as u32, entry)).collect();
    (entries.len(), used).serialize(serializer)
}

/// The same table; refused beyond `max` entries.
pub(crate) fn read_sparse<'de, T: Deserialize<'de> + Clone, D: Deserializer<'de>>(
    empty: T,
    max: usize,
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let wrong = || serde::de::Error::custom("an entry beyond its table");
    let (size, used) = <(usize, Vec<(u32, T)>)>::deserialize(deserializer)?;
    if size > max {
        return Err(wrong());
    }
    let mut entries = vec![empty; size];
    for (at, entry) in used {
        *entries.get_mut(at as usize).ok_or_else(wrong)? = entry;
    }
    Ok(entries)
}
