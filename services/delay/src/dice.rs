//! What chance does to each packet of one direction, by seed.

use crate::config::{Bursts, Impairments};
use qanat_nic::Random;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) lost_in_burst: bool,
    pub(crate) duplicated: bool,
    pub(crate) reordered: bool,
    /// Which bit changes; to be taken modulo the packet's bits.
    pub(crate) corrupted: Option<u64>,
}

/// The dice of one direction of one queue.
pub(crate) struct Dice {
    random: Random,
    loss_ppm: u32,
    bursts: Option<Bursts>,
    is_bad: bool,
    reorder_ppm: u32,
    duplicate_ppm: u32,
    corrupt_ppm: u32,
    /// Nothing is left to chance.
    is_fair: bool,
}

impl Dice {
    pub(crate) fn new(impairments: &Impairments, seed: u64) -> Dice {
        let Impairments { loss_ppm, bursts, reorder_ppm, duplicate_ppm, corrupt_ppm, .. } = *impairments;
        let is_fair = bursts.is_none() && [loss_ppm, reorder_ppm, duplicate_ppm, corrupt_ppm] == [0; 4];
        let random = Random::new(seed);
        Dice { random, loss_ppm, bursts, is_bad: false, reorder_ppm, duplicate_ppm, corrupt_ppm, is_fair }
    }

    /// Throws all dice for every packet, whatever they show: changing one chance leaves the others' outcome alone.
    pub(crate) fn throw(&mut self) -> Fate {
        if self.is_fair {
            return Fate { lost: false, lost_in_burst: false, duplicated: false, reordered: false, corrupted: None };
        }
        let random = &mut self.random;
        let lost = random.chance(self.loss_ppm);
        let duplicated = random.chance(self.duplicate_ppm);
        let reordered = random.chance(self.reorder_ppm);
        let corrupted = random.chance(self.corrupt_ppm);
        let bit = random.next();
        let (turn, loss_in_state) = (random.below(1_000_000) as u32, random.below(1_000_000) as u32);
        let mut lost_in_burst = false;
        if let Some(bursts) = self.bursts {
            self.is_bad = if self.is_bad { turn >= bursts.leave_ppm } else { turn < bursts.enter_ppm };
            lost_in_burst = loss_in_state < if self.is_bad { bursts.loss_bad_ppm } else { bursts.loss_good_ppm };
        }
        Fate { lost, lost_in_burst, duplicated, reordered, corrupted: corrupted.then_some(bit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_fates() {
        let rates = Impairments { loss_ppm: 100_000, duplicate_ppm: 50_000, ..Impairments::default() };
        let throw = |rates: &Impairments, seed| -> Vec<Fate> {
            let mut dice = Dice::new(rates, seed);
            (0..10_000).map(|_| dice.throw()).collect()
        };
        let fates = throw(&rates, 7);
        assert_eq!(fates, throw(&rates, 7));
        assert_ne!(fates, throw(&rates, 8));
        let lost = fates.iter().filter(|fate| fate.lost).count();
        assert!((800..1_200).contains(&lost), "{lost}");
        let more = throw(&Impairments { corrupt_ppm: 500_000, ..rates }, 7);
        assert!(fates.iter().zip(&more).all(|(one, other)| one.lost == other.lost));
    }

    #[test]
    fn bursts_have_their_length() {
        let bursts = Bursts { enter_ppm: 10_000, leave_ppm: 250_000, loss_bad_ppm: 1_000_000, loss_good_ppm: 0 };
        let mut dice = Dice::new(&Impairments { bursts: Some(bursts), ..Impairments::default() }, 3);
        let losses: Vec<bool> = (0..200_000).map(|_| dice.throw().lost_in_burst).collect();
        let lost = losses.iter().filter(|lost| **lost).count();
        let begun = losses.windows(2).filter(|pair| pair == &[false, true]).count();
        // Four packets a burst on average; 1 / (1 + 0.25 / 0.01) of all.
        let length = lost as f64 / begun as f64;
        assert!((3.7..4.3).contains(&length), "{length}");
        assert!((0.034..0.043).contains(&(lost as f64 / 200_000.0)), "{lost}");
    }
}
