//! [`Durations`]: how long a command took, how often: in steps each of which is twice as long as the one before.

/// The first step is 2 to this power, in nanoseconds.
const FIRST: u32 = 10;
/// Steps, up to a second.
const STEPS: usize = 21;
/// Bits that Redis distinguishes of a duration. So a step is a little longer than its power of two.
const DISTINGUISHED: u32 = 7;
/// What takes longer counts as long as this.
const LONGEST_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Durations([u64; STEPS]);

/// The longest duration of a step (ns).
fn last_ns(step: usize) -> u64 {
    let power = FIRST + step as u32;
    (1 << power) + (1 << (power - DISTINGUISHED)) - 1
}

impl Durations {
    /// It took so long once more.
    pub fn add(&mut self, ns: u64) {
        let ns = ns.min(LONGEST_NS);
        let step = (0..STEPS).find(|step| ns <= last_ns(*step));
        step.and_then(|step| self.0.get_mut(step)).into_iter().for_each(|count| *count += 1);
    }

    /// How often in all.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The steps that there are: the longest duration of each in microseconds, and how often it took no longer.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        let all = self.0.iter().enumerate().map(move |(step, count)| {
            sum += count;
            (*count, (last_ns(step) / 1_000, sum))
        });
        all.filter(|(count, _)| *count > 0).map(|(_, step)| step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_redis() {
        let mut durations = Durations::default();
        for ns in [0, 1_000, 1_031, 1_032, 8_200, 40_000, 65_900, 539_000_000, u64::MAX] {
            durations.add(ns);
        }
        let steps: Vec<_> = durations.steps().collect();
        assert_eq!(steps, [(1, 3), (2, 4), (8, 5), (66, 7), (541_065, 8), (1_082_130, 9)]);
        assert_eq!(durations.count(), 9);
    }
}
