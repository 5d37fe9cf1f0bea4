//! Registers as runs of equal ones. Most are zero at first, so this is short. It gives the same bytes that Redis has after the same steps.
//!
//! ```text
//!  00nnnnnn            n + 1 registers are zero
//!  01nnnnnn nnnnnnnn   the same, up to 16,384
//!  1vvvvvnn            n + 1 registers are v + 1
//! ```

use crate::commands::hyperloglog::REGISTERS;

/// The greatest value that a run can have.
const VALUE_MAX: u8 = 32;
/// Registers of a run that are not zero, at most.
const LENGTH_MAX: usize = 4;
/// Registers of a short run of zeroes, at most.
const ZEROES_MAX: usize = 64;
const LONG_ZEROES: u8 = 0x40;
const VALUE: u8 = 0x80;
/// Runs that are looked at after a change, to join those that are equal.
const JOINED_MAX: usize = 5;
/// No runs of all registers are longer.
pub const RUNS_BYTES_MAX: usize = 2 * REGISTERS;

/// Runs do not have so many registers as there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the runs are not of all registers")]
pub struct Corrupted;

/// A run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// What its registers have.
    pub value: u8,
    /// How many there are.
    pub length: usize,
    /// Bytes that it takes.
    pub bytes: usize,
}

impl Run {
    /// The first one.
    fn first(runs: &[u8]) -> Option<Run> {
        let (first, rest) = runs.split_first()?;
        Some(match first >> 6 {
            0 => Run { value: 0, length: usize::from(*first) + 1, bytes: 1 },
            1 => {
                let low = rest.first().copied().unwrap_or(0);
                Run { value: 0, length: usize::from(u16::from_be_bytes([first & 0x3f, low])) + 1, bytes: 2 }
            }
            _ => Run { value: (first >> 2 & 0x1f) + 1, length: usize::from(first & 3) + 1, bytes: 1 },
        })
    }
}

/// All runs.
pub fn iter(runs: &[u8]) -> impl Iterator<Item = Run> {
    let mut rest = runs;
    std::iter::from_fn(move || {
        let run = Run::first(rest)?;
        rest = rest.get(run.bytes..).unwrap_or_default();
        Some(run)
    })
}

/// Gives each run that is not zero, with the place of its first register.
///
/// # Errors
/// [`Corrupted`]: some were given before that was known.
pub fn each(runs: &[u8], mut give: impl FnMut(usize, Run)) -> Result<(), Corrupted> {
    let mut place = 0;
    for run in iter(runs) {
        // It ends here, however many there are.
        if place + run.length > REGISTERS {
            return Err(Corrupted);
        }
        if run.value > 0 {
            give(place, run);
        }
        place += run.length;
    }
    if place == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// Up to three runs that take the place of one.
#[derive(Default)]
struct Sequence {
    bytes: [u8; 5],
    length: usize,
}

impl Sequence {
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            (*place, self.length) = (byte, self.length + 1);
        }
    }

    fn run(&mut self, value: u8, length: usize) {
        let Some(less) = length.checked_sub(1) else { return };
        if value > 0 {
            self.byte(VALUE | (value - 1) << 2 | less as u8);
        } else if length <= ZEROES_MAX {
            self.byte(less as u8);
        } else {
            let [high, low] = (less as u16).to_be_bytes();
            self.byte(LONG_ZEROES | high);
            self.byte(low);
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// What came of raising a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raised {
    /// It has as much already.
    No,
    /// It was less.
    Yes,
    /// It was less, and runs can't have it, or would take too many bytes.
    NeedsDense,
}

/// Raises a register to a value, if it has less; the runs may have so many bytes afterwards.
///
/// # Errors
/// [`Corrupted`]: there is no such register.
pub fn raise(runs: &mut Vec<u8>, index: usize, value: u8, bytes_max: usize) -> Result<Raised, Corrupted> {
    if value > VALUE_MAX {
        return Ok(Raised::NeedsDense);
    }
    let (mut place, mut first, mut before) = (0, 0, 0);
    let run = loop {
        let run = Run::first(runs.get(place..).unwrap_or_default()).ok_or(Corrupted)?;
        if index < first + run.length {
            break run;
        }
        (before, place, first) = (place, place + run.bytes, first + run.length);
    };
    if run.value >= value {
        return Ok(Raised::No);
    }
    let mut sequence = Sequence::default();
    sequence.run(run.value, index - first);
    sequence.run(value, 1);
    sequence.run(run.value, first + run.length - 1 - index);
    let end = (place + run.bytes).min(runs.len());
    let grows = sequence.length.saturating_sub(run.bytes);
    if grows > 0 && runs.len() + grows > bytes_max {
        return Ok(Raised::NeedsDense);
    }
    runs.splice(place..end, sequence.bytes().iter().copied());
    join(runs, before);
    Ok(Raised::Yes)
}

/// Joins runs of the same value, from a place on.
fn join(runs: &mut Vec<u8>, mut place: usize) {
    for _ in 0..JOINED_MAX {
        let Some(run) = Run::first(runs.get(place..).unwrap_or_default()) else { return };
        let next = Run::first(runs.get(place + run.bytes..).unwrap_or_default());
        let length = run.length + next.map_or(0, |next| next.length);
        if run.value == 0 || next.is_none_or(|next| next.value != run.value) || length > LENGTH_MAX {
            place += run.bytes;
            continue;
        }
        let mut joined = Sequence::default();
        joined.run(run.value, length);
        runs.splice(place..place + 2, joined.bytes().iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn registers(runs: &[u8]) -> Vec<u8> {
        let mut all = vec![0; REGISTERS];
        let given = each(runs, |place, run| all[place..place + run.length].fill(run.value));
        given.expect("all registers");
        all
    }

    proptest! {
        #[test]
        fn registers_are_the_greatest_values(raises in prop::collection::vec((0_usize..40, 1_u8..36), 0..200), spread in 1_usize..400) {
            let (mut runs, mut plain) = (vec![0x7f, 0xff], vec![0_u8; REGISTERS]);
            for (index, value) in raises {
                let index = index * spread;
                let expected = match (value > VALUE_MAX, value > plain[index]) {
                    (true, _) => Raised::NeedsDense,
                    (_, true) => Raised::Yes,
                    _ => Raised::No,
                };
                prop_assert_eq!(raise(&mut runs, index, value, usize::MAX), Ok(expected));
                if expected == Raised::Yes {
                    plain[index] = value;
                }
            }
            prop_assert_eq!(registers(&runs), plain);
        }

        /// Whatever bytes a client wrote there.
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..60), index in 0..REGISTERS, value in 1_u8..40) {
            let mut runs = bytes.clone();
            let _ = raise(&mut runs, index, value, 50);
            prop_assert!(runs.len() <= bytes.len() + 4);
            let _ = each(&runs, |place, run| assert!(place + run.length <= REGISTERS));
        }
    }

    #[test]
    fn equal_neighbours_are_joined_and_long_runs_refused() {
        let mut runs = vec![0x7f, 0xff];
        for index in 0..6 {
            assert_eq!(raise(&mut runs, index, 3, 100), Ok(Raised::Yes));
        }
        assert_eq!(
            iter(&runs).map(|run| (run.value, run.length)).collect::<Vec<_>>(),
            [(3, 4), (3, 2), (0, REGISTERS - 6)]
        );
        assert_eq!(raise(&mut runs, 1_000, 3, 4), Ok(Raised::NeedsDense));
        assert_eq!(raise(&mut runs, REGISTERS, 3, 100), Err(Corrupted));
        assert_eq!(each(&[0x7f], |_, _| {}), Err(Corrupted));
        assert_eq!(each(&[0x7f, 0xff, 0], |_, _| {}), Err(Corrupted));
    }
}
