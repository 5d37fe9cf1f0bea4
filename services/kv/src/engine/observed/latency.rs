//! [`Latency`]: what took longer than an operator wants to know of, by its kind.

use std::collections::{BTreeMap, VecDeque};

/// Samples that are kept of each kind.
const SAMPLES: usize = 160;

/// What is known of a kind.
#[derive(Debug, Default)]
pub struct Samples {
    /// When (Unix, seconds), and how long (ms): one of each second, the longest.
    pub all: VecDeque<(i64, u64)>,
    /// The longest ever.
    pub longest: u64,
}

/// See the module. Kinds are named by the program, so there are few.
#[derive(Debug, Default)]
pub struct Latency {
    events: BTreeMap<&'static str, Samples>,
}

impl Latency {
    /// Something took so long.
    pub fn add(&mut self, event: &'static str, now_s: i64, ms: u64) {
        let samples = self.events.entry(event).or_default();
        samples.longest = samples.longest.max(ms);
        match samples.all.back_mut() {
            Some((at, longest)) if *at == now_s => *longest = ms.max(*longest),
            _ => {
                if samples.all.len() >= SAMPLES {
                    samples.all.pop_front();
                }
                samples.all.push_back((now_s, ms));
            }
        }
    }

    /// All kinds.
    pub fn events(&self) -> impl ExactSizeIterator<Item = (&'static str, &Samples)> {
        self.events.iter().map(|(name, samples)| (*name, samples))
    }

    /// A kind.
    pub fn of(&self, event: &str) -> Option<&Samples> {
        self.events.get(event)
    }

    /// Forgets a kind; whether there was something.
    pub fn forget(&mut self, event: &str) -> bool {
        self.events.remove(event).is_some()
    }

    /// Forgets all; how many kinds there were.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.events).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_a_second_is_kept_and_only_the_last_ones() {
        let mut latency = Latency::default();
        for second in 0..1_000 {
            latency.add("command", second, 5);
            latency.add("command", second, if second == 3 { 90 } else { 7 });
            latency.add("command", second, 6);
        }
        let samples = latency.of("command").unwrap();
        assert_eq!((samples.all.len(), samples.longest, samples.all[0]), (SAMPLES, 90, (840, 7)));
        assert!(latency.forget("command") && !latency.forget("command"));
    }
}
