//! Names as eight-byte words of small letters: hashed, and compared, without being copied (the thesis's first design).
//!
//! A label's length is below 64, `A` is 65: the bytes of a name in wire format can be made small letters all together,
//! lengths included.

/// Bytes that must be before a name wherever it is hashed or compared: a message's header is.
pub const BEFORE: usize = 12;

const EVERY: u64 = 0x0101_0101_0101_0101;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;

/// The eight characters in `word` as small letters.
#[inline(always)]
pub fn lower(word: u64) -> u64 {
    const HIGH: u64 = 0x80 * EVERY;
    let low = word & !HIGH;
    let at_least_a = low + (0x80 - b'A' as u64) * EVERY;
    let beyond_z = low + (0x7f - b'Z' as u64) * EVERY;
    let capital = (at_least_a ^ beyond_z) & !word & HIGH;
    word | (capital >> 2)
}

#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => 0,
    }
}

/// Calls `each` with every word of the name at `start..end`, in small letters, the last filled up with zeros; stops when
/// it says `false`. Whether it never did.
#[inline(always)]
pub fn words(bytes: &[u8], start: usize, end: usize, mut each: impl FnMut(u64) -> bool) -> bool {
    let mut at = start;
    while at + 8 <= end {
        if !each(lower(load(bytes, at))) {
            return false;
        }
        at += 8;
    }
    let rest = end.wrapping_sub(at);
    if rest == 0 {
        return true;
    }
    // The last bytes, loaded together with some before them, which are shifted out.
    each(lower(load(bytes, end.wrapping_sub(8)) >> (64 - 8 * (rest as u32 & 7))))
}

/// Hash of the name at `start..end`; `start` is at least [`BEFORE`]. Letters of both cases have the same: so has little
/// else, and the comparison after it is exact.
#[inline(always)]
pub fn hash(bytes: &[u8], start: usize, end: usize) -> u64 {
    let name = bytes.get(start..end).unwrap_or_default();
    let mut hash = SEED ^ name.len() as u64;
    if let (Some((first, mut rest)), Some(last)) = (name.split_first_chunk(), name.last_chunk()) {
        // Two words by two, the last two together with some before them.
        hash = mix_pair(hash, pair(first));
        while rest.len() > 16
            && let Some((words, after)) = rest.split_first_chunk()
        {
            hash = mix_pair(hash, pair(words));
            rest = after;
        }
        return mix_pair(hash, pair(last));
    }
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return mix_pair(hash, [first, last].map(|word| u64::from_le_bytes(*word)));
    }
    if name.is_empty() {
        return hash;
    }
    // The last bytes, loaded together with some before them, which are shifted out.
    let last = bytes.get(..end).and_then(|bytes| bytes.last_chunk()).map_or(0, |last| u64::from_le_bytes(*last));
    mix_pair(hash, [(last | SMALL) >> (64 - 8 * (name.len() as u32 & 7)), 0])
}

/// In every letter's byte what makes it small.
const SMALL: u64 = 0x20 * EVERY;

#[inline(always)]
fn pair(bytes: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*bytes);
    [both as u64, (both >> 64) as u64]
}

#[inline(always)]
fn mix_pair(hash: u64, [first, second]: [u64; 2]) -> u64 {
    let product = u128::from(hash ^ (first | SMALL)) * u128::from(MULTIPLIER.wrapping_add(second | SMALL));
    (product >> 64) as u64 ^ product as u64
}

/// Whether the two, which are equally long, are the same: most names in line, in two pieces that may overlap.
#[inline(always)]
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    if (16..=32).contains(&a.len()) {
        // (Of each other's length, so none is missing.)
        a.first_chunk::<16>() == b.first_chunk::<16>() && a.last_chunk::<16>() == b.last_chunk::<16>()
    } else {
        a == b
    }
}

/// Whether the name at `start..end` is `stored`: small letters, filled up with zeros to whole words.
#[cold]
#[inline]
pub fn equals(bytes: &[u8], start: usize, end: usize, stored: &[u8]) -> bool {
    let mut chunks = stored.as_chunks::<8>().0.iter();
    words(bytes, start, end, |word| chunks.next().is_some_and(|chunk| u64::from_le_bytes(*chunk) == word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_byte_by_byte(mut bytes in proptest::collection::vec(any::<u8>(), BEFORE..120), cut in 0usize..100) {
            for chunk in bytes.as_chunks_mut::<8>().0 {
                let expected = chunk.to_ascii_lowercase();
                prop_assert_eq!(lower(u64::from_le_bytes(*chunk)).to_le_bytes().to_vec(), expected);
            }
            let end = bytes.len() - cut.min(bytes.len() - BEFORE);
            let mut stored = bytes[BEFORE..end].to_ascii_lowercase();
            stored.resize(stored.len().next_multiple_of(8), 0);
            prop_assert!(equals(&bytes, BEFORE, end, &stored));
            let before = hash(&bytes, BEFORE, end);
            for byte in &mut bytes[BEFORE..end] {
                *byte = byte.to_ascii_uppercase();
            }
            prop_assert_eq!(before, hash(&bytes, BEFORE, end));
            if end > BEFORE {
                bytes[end - 1] ^= 1;
                prop_assert!(!equals(&bytes, BEFORE, end, &stored));
                prop_assert!(before != hash(&bytes, BEFORE, end), "a bit that letters of two cases share");
            }
        }
    }
}
