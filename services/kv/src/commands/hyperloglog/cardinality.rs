//! How many elements there were, of what the registers have: the estimate of Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches" (2017), algorithm 6, as Redis has it.

use crate::commands::hyperloglog::{REGISTER_BITS, REGISTERS};

/// The constant for so many registers: `0.5 / ln(2)`.
const ALPHA: f64 = 0.721_347_520_444_481_7;
/// Bits of a hash besides the register's number.
const REST_BITS: usize = (u64::BITS - REGISTER_BITS) as usize;

/// What is answered if there is no estimate.
const BEYOND: u64 = 1 << 63;

/// How many registers have each value.
pub type Histogram = [u32; 64];

/// Adds what registers have.
pub fn count(histogram: &mut Histogram, value: u8, registers: usize) {
    if let Some(count) = histogram.get_mut(usize::from(value)) {
        *count += registers as u32;
    }
}

fn sigma(mut share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, share);
    loop {
        share *= share;
        let before = sum;
        sum += share * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - share);
    loop {
        share = share.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - share) * (1.0 - share) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// The estimate.
pub fn estimate(histogram: &Histogram) -> u64 {
    let all = REGISTERS as f64;
    let registers = |value: usize| f64::from(histogram.get(value).copied().unwrap_or(0));
    let full = all * tau((all - registers(REST_BITS + 1)) / all);
    let sum = (1..=REST_BITS).rev().fold(full, |sum, value| (sum + registers(value)) * 0.5);
    let sum = sum + all * sigma(registers(0) / all);
    let estimate = (ALPHA * all * all / sum).round();
    // If all registers are full, there is no estimate. C's conversion gives this number then.
    if estimate < BEYOND as f64 { estimate as u64 } else { BEYOND }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hyperloglog::hash::place;

    #[test]
    fn few_are_counted_and_many_are_estimated() {
        let mut registers = vec![0_u8; REGISTERS];
        let estimated = |registers: &[u8]| {
            let mut histogram: Histogram = [0; 64];
            registers.iter().for_each(|value| count(&mut histogram, *value, 1));
            estimate(&histogram)
        };
        assert_eq!(estimated(&registers), 0);
        let mut added = 0_u32;
        for until in [1_u32, 10, 100, 10_000, 300_000] {
            for number in added..until {
                let (index, value) = place(&number.to_le_bytes());
                registers[index] = registers[index].max(value);
            }
            added = until;
            let found = estimated(&registers) as f64;
            // The standard error is 0.81 %.
            assert!((found - f64::from(until)).abs() <= f64::from(until) * 0.03, "{until}: {found}");
        }
        let mut full: Histogram = [0; 64];
        full[REST_BITS + 1] = REGISTERS as u32;
        assert_eq!(estimate(&full), BEYOND);
    }
}
