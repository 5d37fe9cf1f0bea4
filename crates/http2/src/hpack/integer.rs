//! Integers (RFC 7541, 5.1).

/// The largest that is taken: no length, index or size that is meant seriously is larger.
const LARGEST: u32 = 1 << 24;

/// Reads an integer whose first byte has `prefix_bits` bits of it. Returns it, and what is behind it; `None`: it does not end, or is too large.
pub(super) fn decode(bytes: &[u8], prefix_bits: u8) -> Option<(u32, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let mask = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(*first) & mask;
    if prefix < mask {
        return Some((prefix, rest));
    }
    let mut value = u64::from(mask);
    // Ends: four bytes more hold the largest.
    for shift in [0, 7, 14, 21] {
        let (byte, more) = rest.split_first()?;
        rest = more;
        value += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok().filter(|value| *value <= LARGEST).map(|value| (value, rest));
        }
    }
    None
}

/// Appends an integer; `flags` are the other bits of its first byte.
pub(super) fn encode(value: usize, prefix_bits: u8, flags: u8, target: &mut Vec<u8>) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        return target.push(flags | value as u8);
    }
    target.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        target.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    target.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // C.1.1, C.1.2 and C.1.3.
        for (value, prefix_bits, bytes) in [(10, 5, &[10][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            let mut target = Vec::new();
            encode(value, prefix_bits, 0, &mut target);
            assert_eq!(target, bytes);
            assert_eq!(decode(bytes, prefix_bits), Some((value as u32, &[][..])));
        }
    }

    #[test]
    fn what_does_not_end_or_is_too_large_is_refused() {
        for bytes in [&[][..], &[31], &[31, 0x80], &[31, 0xff, 0xff, 0xff, 0xff, 0], &[31, 0xff, 0xff, 0xff, 0x7f]] {
            assert_eq!(decode(bytes, 5), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=LARGEST, prefix_bits in 1u8..=8) {
            let mut target = Vec::new();
            encode(value as usize, prefix_bits, 0, &mut target);
            target.push(7);
            prop_assert_eq!(decode(&target, prefix_bits), Some((value, &[7][..])));
        }
    }
}
