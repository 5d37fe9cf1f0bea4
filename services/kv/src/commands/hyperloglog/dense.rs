//! Registers that are packed: six bits each.

use crate::commands::hyperloglog::REGISTERS;

/// Bits of a register.
const BITS: usize = 6;
/// What a register can have.
const MASK: u16 = (1 << BITS) - 1;
/// Bytes of all registers.
pub const DENSE_BYTES: usize = REGISTERS * BITS / 8;

/// The two bytes in which a register lies, the first one's place, and the register's first bit in them.
fn pair(packed: &[u8], index: usize) -> (u16, usize, usize) {
    let (place, shift) = (index * BITS / 8, index * BITS % 8);
    let byte = |place: usize| packed.get(place).copied().unwrap_or(0);
    // The last register lies in the last byte wholly.
    (u16::from_le_bytes([byte(place), byte(place + 1)]), place, shift)
}

/// What a register has.
pub fn get(packed: &[u8], index: usize) -> u8 {
    let (pair, _, shift) = pair(packed, index);
    (pair >> shift & MASK) as u8
}

/// The bytes that change if a register has this value, and where they begin.
pub fn written(packed: &[u8], index: usize, value: u8) -> (usize, [u8; 2], usize) {
    let (pair, place, shift) = pair(packed, index);
    let changed = pair & !(MASK << shift) | (u16::from(value) & MASK) << shift;
    let count = if shift + BITS > 8 { 2 } else { 1 };
    (place, changed.to_le_bytes(), count)
}

/// Gives a register a value.
pub fn set(packed: &mut [u8], index: usize, value: u8) {
    let (place, bytes, count) = written(packed, index, value);
    packed.iter_mut().skip(place).zip(bytes).take(count).for_each(|(target, byte)| *target = byte);
}

/// What all registers have, one after the other.
pub fn iter(packed: &[u8]) -> impl Iterator<Item = u8> {
    // Three bytes are four registers.
    packed.as_chunks::<3>().0.iter().flat_map(|[low, middle, high]| {
        let four = u32::from_le_bytes([*low, *middle, *high, 0]);
        [four, four >> BITS, four >> (2 * BITS), four >> (3 * BITS)].map(|register| (register as u16 & MASK) as u8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn registers_are_those_that_were_set(sets in prop::collection::vec((0..REGISTERS, 0_u8..64), 0..400)) {
            let (mut packed, mut plain) = (vec![0; DENSE_BYTES], vec![0; REGISTERS]);
            for (index, value) in sets {
                set(&mut packed, index, value);
                plain[index] = value;
                prop_assert_eq!(get(&packed, index), value);
            }
            prop_assert_eq!(iter(&packed).collect::<Vec<_>>(), plain);
        }
    }
}
