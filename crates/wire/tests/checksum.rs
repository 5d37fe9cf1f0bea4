//! The Internet checksum against a naive reference, RFC examples, and recomputation.

use proptest::collection::vec;
use proptest::prelude::*;
use qanat_wire::checksum::{self, combine, combine_at_odd, copy_and_sum, finish, sum, update, update_u32};
use qanat_wire::ip::Protocol;

/// RFC 1071's definition.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn every_length_at_every_alignment() {
    let mut state = 1u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(1700)
    .collect();
    let mut copy = vec![0; bytes.len() + 8];
    for start in 0..16 {
        for length in 0..=bytes.len() - start {
            let part = &bytes[start..start + length];
            let expected = naive(part);
            assert_eq!(sum(part), expected, "start {start}, length {length}");
            let to = &mut copy[start % 8..start % 8 + length];
            assert_eq!(copy_and_sum(part, to), expected, "start {start}, length {length}");
            assert_eq!(to, part);
        }
    }
}

#[test]
fn all_ones_all_zeros_and_carries() {
    for length in [0, 1, 2, 7, 63, 64, 65, 1448, 9000, 65_535] {
        assert_eq!(sum(&vec![0; length]), 0);
        assert_eq!(sum(&vec![0xff; length]), naive(&vec![0xff; length]));
    }
    // Carries out of every lane: 4 MiB of ones.
    assert_eq!(sum(&vec![0xff; 4 << 20]), 0xffff);
}

#[test]
fn copy_stops_at_the_shorter() {
    let mut to = [9; 3];
    assert_eq!(copy_and_sum(&[1, 2, 3, 4, 5], &mut to), naive(&[1, 2, 3]));
    assert_eq!(to, [1, 2, 3]);
    let mut to = [9; 4];
    assert_eq!(copy_and_sum(&[1, 2, 3], &mut to), naive(&[1, 2, 3]));
    assert_eq!(to, [1, 2, 3, 9]);
}

/// RFC 1071, section 3.
#[test]
fn example_of_rfc_1071() {
    assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
}

/// RFC 1624, section 4: the case that RFC 1141's equation gets wrong.
#[test]
fn example_of_rfc_1624() {
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up(bytes in vec(any::<u8>(), 0..500), at in any::<prop::sample::Index>()) {
        let (head, tail) = bytes.split_at(at.index(bytes.len() + 1));
        let join = if head.len() % 2 == 0 { combine } else { combine_at_odd };
        prop_assert_eq!(join(sum(head), sum(tail)), sum(&bytes));
    }

    /// Equation 3 gives what recomputing gives, if not everything covered is zero (a real header never is).
    #[test]
    fn update_is_recomputation(mut words in vec(any::<u16>(), 1..40), at in any::<prop::sample::Index>(), new: u16) {
        words.push(0x4500);
        let sum_of = |words: &[u16]| sum(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
        let before = finish(sum_of(&words));
        let at = at.index(words.len() - 1);
        let old = std::mem::replace(&mut words[at], new);
        prop_assert_eq!(update(before, old, new), finish(sum_of(&words)));
    }

    /// From whatever place the sum starts, and whatever is before it.
    #[test]
    fn raw_sum_is_the_sum(bytes in prop::collection::vec(any::<u8>(), 8..300), start in 8usize..300) {
        let raw = checksum::raw_sum_from(&bytes, start);
        prop_assert_eq!(raw.is_some(), start <= bytes.len());
        if let Some(raw) = raw {
            let folded = checksum::native_to_big(checksum::fold(raw));
            prop_assert_eq!(folded, checksum::sum(&bytes[start..]));
        }
    }

    /// A remembered header's checksum, and its new length: as if all had been summed.
    #[test]
    fn subtracting_is_covering_one_more_word(sum: u16, word: u16) {
        let rest = finish(checksum::combine(sum, 0));
        prop_assert_eq!(checksum::subtract(rest, word), finish(checksum::combine(sum, word)));
    }

    #[test]
    fn an_unfolded_sum_is_right_when_the_folded_one_is(wide in 1u64.., factor in 1u64..=u64::MAX / 0xffff) {
        prop_assert_eq!(checksum::is_valid_unfolded(wide), checksum::is_valid(checksum::fold(wide)));
        prop_assert!(checksum::is_valid_unfolded(factor * 0xffff));
        prop_assert!(checksum::is_valid(checksum::fold(factor * 0xffff)));
        prop_assert!(checksum::finish_nonzero(checksum::fold(wide)) != 0);
    }

    #[test]
    fn update_u32_is_two_updates(checksum: u16, old: u32, new: u32) {
        let high = update(checksum, (old >> 16) as u16, (new >> 16) as u16);
        prop_assert_eq!(update_u32(checksum, old, new), update(high, old as u16, new as u16));
    }

    #[test]
    fn pseudo_headers(a: u32, b: u32, c: u128, d: u128, protocol: u8, length in 0usize..=65_535) {
        let protocol_only = Protocol(protocol);
        let mut bytes = [a.to_be_bytes(), b.to_be_bytes()].concat();
        bytes.extend([0, protocol]);
        bytes.extend((length as u16).to_be_bytes());
        prop_assert_eq!(checksum::pseudo_header_v4(a.into(), b.into(), protocol_only, length), naive(&bytes));
        let mut bytes = [c.to_be_bytes(), d.to_be_bytes()].concat();
        bytes.extend((length as u32).to_be_bytes());
        bytes.extend([0, 0, 0, protocol]);
        prop_assert_eq!(checksum::pseudo_header_v6(c.into(), d.into(), protocol_only, length), naive(&bytes));
    }
}
