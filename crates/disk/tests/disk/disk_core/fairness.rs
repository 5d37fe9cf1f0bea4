//! A flooding application and one within its rate.

use super::rig::{House, Tenant, first_area, frame_of, second_area};
use qanat_disk::area::AreaLimits;
use qanat_disk::{Operation, Request, SimConfig, Vsic};

/// Turns that each of 400 requests of a quiet application took, sorted; meanwhile another floods, or does not.
fn turns_of_quiet(floods: bool, seed: u64) -> Vec<usize> {
    let house = House::new(SimConfig { depth: 32, seed: Some(seed), ..SimConfig::default() });
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

/// The simulated disk ends a random one of what it has at each turn, more of them the more there are: what others have there is what a
/// request waits for.
#[test]
fn one_within_its_rate_does_not_feel_a_flood() {
    let (mut quiet, mut flooded) = (Vec::new(), Vec::new());
    for seed in 1..=5 {
        quiet.extend(turns_of_quiet(false, seed));
        flooded.extend(turns_of_quiet(true, seed));
    }
    quiet.sort_unstable();
    flooded.sort_unstable();
    let p99 = |turns: &[usize]| turns[turns.len() * 99 / 100];
    println!("p99 in turns: quiet {}, flooded {}", p99(&quiet), p99(&flooded));
    assert!(p99(&flooded) as f64 <= 1.5 * p99(&quiet) as f64, "quiet {}, flooded {}", p99(&quiet), p99(&flooded));
}
