//! Byte ranges (RFC 9110, 14).

use super::lists::{list_elements, trim};

/// A range resolved against a length: `first..end`, not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    /// First byte.
    pub first: u64,
    /// One after the last byte.
    pub end: u64,
}

/// What a Range field asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangeOutcome {
    /// To be ignored: another unit, malformed, or more than the server is willing to send. The whole is sent.
    Whole,
    /// These, coalesced, in the order asked.
    Parts(Vec<ByteRange>),
    /// None of it exists: 416.
    Unsatisfiable,
}

/// Resolves a Range field's value against `length`; at most `ranges_max` ranges.
pub fn resolve(value: &[u8], length: u64, ranges_max: usize) -> RangeOutcome {
    let Some((unit, set)) = value.split_at_checked(6) else { return RangeOutcome::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return RangeOutcome::Whole;
    }
    let mut parts: Vec<ByteRange> = Vec::new();
    let mut specified = 0usize;
    for element in list_elements(set) {
        specified += 1;
        // Many tiny ranges cost the server more than the client (RFC 9110, 17.15). Overlap is bounded by coalescing.
        if specified > ranges_max.saturating_mul(4) {
            return RangeOutcome::Whole;
        }
        let Some(specifier) = parse_one(element) else { return RangeOutcome::Whole };
        if let Some(range) = apply(specifier, length) {
            merge(&mut parts, range);
        }
    }
    match (specified, parts.len()) {
        (0, _) => RangeOutcome::Whole,
        (_, 0) => RangeOutcome::Unsatisfiable,
        (_, count) if count > ranges_max => RangeOutcome::Whole,
        _ => RangeOutcome::Parts(parts),
    }
}

/// `first-last`, `first-` or `-suffix`.
fn parse_one(element: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let dash = memchr::memchr(b'-', element)?;
    let (first, last) = (number(trim(&element[..dash]))?, number(trim(&element[dash + 1..]))?);
    match (first, last) {
        (None, None) => None,
        (Some(first), Some(last)) if last < first => None,
        both => Some(both),
    }
}

/// `Some(None)`: empty; `None`: not a number. Numbers too large for 64 bits are as good as the largest.
fn number(text: &[u8]) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    text.iter()
        .try_fold(0u64, |value, byte| {
            byte.is_ascii_digit().then(|| value.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
        })
        .map(Some)
}

fn apply(specifier: (Option<u64>, Option<u64>), length: u64) -> Option<ByteRange> {
    let (first, end) = match specifier {
        (Some(first), Some(last)) => (first, last.saturating_add(1).min(length)),
        (Some(first), None) => (first, length),
        (None, Some(suffix)) => (length.saturating_sub(suffix), length),
        (None, None) => return None,
    };
    (first < end).then_some(ByteRange { first, end })
}

/// Adds a range, coalescing it with those it overlaps or touches; the first of them keeps its place.
fn merge(parts: &mut Vec<ByteRange>, mut range: ByteRange) {
    let touches = |a: &ByteRange, b: &ByteRange| a.first <= b.end && b.first <= a.end;
    let mut place = None;
    let mut index = 0;
    while let Some(part) = parts.get(index) {
        if touches(part, &range) {
            range = ByteRange { first: range.first.min(part.first), end: range.end.max(part.end) };
            parts.remove(index);
            place = Some(place.map_or(index, |place: usize| place.min(index)));
            // A grown range may touch what was passed over.
            index = 0;
        } else {
            index += 1;
        }
    }
    let place = place.unwrap_or(parts.len()).min(parts.len());
    parts.insert(place, range);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(value: &str, length: u64) -> Vec<(u64, u64)> {
        match resolve(value.as_bytes(), length, 16) {
            RangeOutcome::Parts(parts) => parts.iter().map(|part| (part.first, part.end)).collect(),
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(parts("bytes=0-499", 1000), [(0, 500)]);
        assert_eq!(parts("bytes=500-", 1000), [(500, 1000)]);
        assert_eq!(parts("bytes=-200", 1000), [(800, 1000)]);
        assert_eq!(parts("bytes=-2000", 1000), [(0, 1000)]);
        assert_eq!(parts("bytes=0-99999999999999999999999", 1000), [(0, 1000)]);
        assert_eq!(parts("bytes=0-0, -1", 1000), [(0, 1), (999, 1000)]);
        assert_eq!(parts("Bytes=900-910,0-5", 1000), [(900, 911), (0, 6)]);
        assert_eq!(parts("bytes=0-10,5-20,21-30", 1000), [(0, 31)]);
        assert_eq!(parts("bytes=2000-,0-1", 1000), [(0, 2)]);
        for value in ["bytes=1000-", "bytes=-0", "bytes=5000-6000"] {
            assert_eq!(resolve(value.as_bytes(), 1000, 16), RangeOutcome::Unsatisfiable, "{value}");
        }
        assert_eq!(resolve(b"bytes=0-", 0, 16), RangeOutcome::Unsatisfiable);
        for value in ["bytes=5-1", "bytes=a-b", "items=0-1", "bytes=", "bytes=-", "bytes", "bytes=1", "", "bytes=0-1;2"]
        {
            assert_eq!(resolve(value.as_bytes(), 1000, 16), RangeOutcome::Whole, "{value}");
        }
        let bomb = format!("bytes={}", (0..500).map(|i| format!("{}-{}", i * 3, i * 3)).collect::<Vec<_>>().join(","));
        assert_eq!(resolve(bomb.as_bytes(), 10_000, 16), RangeOutcome::Whole);
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..60), length in any::<u64>()) {
            resolve(&value, length, 16);
        }

        #[test]
        fn inside_disjoint_and_complete(value in "bytes=([0-9]{0,2}-[0-9]{0,2},){0,6}[0-9]{1,2}-", length in 0u64..60) {
            if let RangeOutcome::Parts(parts) = resolve(value.as_bytes(), length, 16) {
                for (index, part) in parts.iter().enumerate() {
                    prop_assert!(part.first < part.end && part.end <= length);
                    for other in &parts[index + 1..] {
                        prop_assert!(part.end < other.first || other.end < part.first);
                    }
                }
            }
        }
    }
}
