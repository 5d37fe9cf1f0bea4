//! A flooding application and one within its rate.

use super::rig::{House, Tenant, first_area, frame_of, second_area};
use qanat_disk::area::AreaLimits;
use qanat_disk::{Operation, Request, SimConfig, Vsic};

/// Turns that each of 400 requests of a quiet application took, sorted; meanwhile another floods, or does not.
fn turns_of_quiet(floods: bool, seed: Option<u64>) -> Vec<usize> {
    let house = House::new(SimConfig { depth: 32, seed, ..SimConfig::default() });
    let mut quiet = house.honest(1, first_area(), AreaLimits::default());
    let mut flood = house.honest(2, second_area(), AreaLimits::default());
    let mut completions = Vec::new();
    let mut turns = Vec::new();
    for round in 0..400_u64 {
        if floods {
            fill(&mut flood, &mut completions);
        }
        let operation = Operation::Read { block: round % 500, frame: frame_of(&quiet.pool, 4_096) };
        quiet.disk.submit(Request { token: round, operation }).unwrap();
        quiet.disk.ring();
        for turn in 1.. {
            if floods {
                fill(&mut flood, &mut completions);
            }
            if quiet.complete(&mut completions, 1) > 0 {
                turns.push(turn);
                completions.clear();
                break;
            }
        }
    }
    turns.sort_unstable();
    turns
}

/// As much as there is room for.
fn fill(flood: &mut Tenant, completions: &mut Vec<qanat_disk::Completion>) {
    flood.disk.complete(completions, usize::MAX);
    completions.clear();
    while flood.disk.room() > 0 {
        let operation = Operation::Read { block: 0, frame: frame_of(&flood.pool, 16_384) };
        flood.disk.submit(Request { token: 9, operation }).unwrap();
    }
    flood.disk.ring();
}

fn p99(turns: &[usize]) -> usize {
    turns[turns.len() * 99 / 100]
}

/// A disk that does in a turn what it has: the core alone makes anybody wait.
#[test]
fn one_within_its_rate_does_not_feel_a_flood() {
    let (quiet, flooded) = (turns_of_quiet(false, None), turns_of_quiet(true, None));
    println!("p99 in turns: quiet {}, flooded {}", p99(&quiet), p99(&flooded));
    assert!(2 * p99(&flooded) <= 3 * p99(&quiet), "quiet {}, flooded {}", p99(&quiet), p99(&flooded));
}

/// A disk that ends three or four of what it has in a turn, in any order: as much as the flood may have there at once is waited for, in
/// one order or another, and no more.
#[test]
fn a_disk_that_is_full_has_the_flood_wait_first() {
    for seed in 1..=5 {
        let flooded = turns_of_quiet(true, Some(seed));
        assert!(p99(&flooded) <= 32, "{}", p99(&flooded));
    }
}
