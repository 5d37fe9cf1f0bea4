//! Numbers that begin at any bit of a string, their highest bit first.

/// Bytes in which a number of 64 bits may lie.
const BYTES_MAX: usize = 9;

/// The bytes in which so many bits lie, as one number; the first one's place; and the bits behind the number.
fn window(text: &[u8], offset: u64, bits: u32) -> (u128, usize, usize, u32) {
    let (first, before) = ((offset / 8) as usize, (offset % 8) as u32);
    let count = (before + bits).div_ceil(8) as usize;
    // What is behind the string is zero.
    let bytes = (first..first + count).map(|place| text.get(place).copied().unwrap_or(0));
    let window = bytes.fold(0, |window, byte| window << 8 | u128::from(byte));
    (window, first, count, 8 * count as u32 - before - bits)
}

fn mask(bits: u32) -> u128 {
    (1 << bits) - 1
}

/// The bits at an offset: 1 to 64.
pub fn get(text: &[u8], offset: u64, bits: u32) -> u64 {
    let (window, _, _, behind) = window(text, offset, bits);
    (window >> behind & mask(bits)) as u64
}

/// The bytes that change if these bits are written: where they begin, and how many of them count.
pub fn written(text: &[u8], offset: u64, bits: u32, number: u64) -> (usize, [u8; BYTES_MAX], usize) {
    let (window, first, count, behind) = window(text, offset, bits);
    let changed = window & !(mask(bits) << behind) | (u128::from(number) & mask(bits)) << behind;
    let mut bytes = [0; BYTES_MAX];
    let last = changed.to_be_bytes().into_iter().rev();
    bytes.iter_mut().take(count).rev().zip(last).for_each(|(place, byte)| *place = byte);
    (first, bytes, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit(text: &[u8], offset: u64) -> u64 {
        u64::from(text.get((offset / 8) as usize).copied().unwrap_or(0) >> (7 - offset % 8) & 1)
    }

    proptest! {
        #[test]
        fn numbers_are_their_bits(text in prop::collection::vec(any::<u8>(), 0..24), offset in 0_u64..200, bits in 1_u32..=64, number: u64) {
            let range = offset..offset + u64::from(bits);
            prop_assert_eq!(get(&text, offset, bits), range.clone().fold(0, |number, place| number << 1 | bit(&text, place)));
            let (first, bytes, count) = written(&text, offset, bits, number);
            let mut changed = text.clone();
            changed.resize(text.len().max(first + count), 0);
            changed[first..first + count].copy_from_slice(&bytes[..count]);
            for place in 0..8 * changed.len() as u64 {
                let expected = if range.contains(&place) { number >> (range.end - 1 - place) & 1 } else { bit(&text, place) };
                prop_assert_eq!(bit(&changed, place), expected);
            }
        }
    }
}
