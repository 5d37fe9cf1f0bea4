//! Choosing some by chance: what SRANDMEMBER, HRANDFIELD and ZRANDMEMBER have in common.

use std::collections::HashSet;

/// At most so many are given, however many a client asks for.
const COUNT_MAX: u64 = 1 << 20;

/// Places among `length`: `count` different ones if it is positive, or as many as there are; else as many, each by itself.
pub fn places(count: i64, length: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    if length == 0 {
        return Vec::new();
    }
    let wanted = count.unsigned_abs().min(COUNT_MAX) as usize;
    if count < 0 {
        return (0..wanted).map(|_| random.usize(..length)).collect();
    }
    if wanted >= length {
        return (0..length).collect();
    }
    // Floyd's way: as many numbers as are wanted, whatever the length.
    let mut chosen = HashSet::with_capacity(wanted);
    let mut places = Vec::with_capacity(wanted);
    for last in length - wanted..length {
        let place = random.usize(..=last);
        let place = if chosen.insert(place) { place } else { last };
        chosen.insert(place);
        places.push(place);
    }
    random.shuffle(&mut places);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_wanted_and_no_one_twice() {
        let mut random = fastrand::Rng::with_seed(1);
        for length in 1..40 {
            for count in 0..45_i64 {
                let found = places(count, length, &mut random);
                let different: HashSet<_> = found.iter().collect();
                assert_eq!(found.len(), (count as usize).min(length));
                assert_eq!(different.len(), found.len());
                assert!(found.iter().all(|place| *place < length));
            }
            assert_eq!(places(-50, length, &mut random).len(), 50);
        }
        assert!(places(3, 0, &mut random).is_empty());
    }
}
