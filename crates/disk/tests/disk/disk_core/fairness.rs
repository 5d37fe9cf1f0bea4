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

/// As much as there is room for; how much has been done.
fn fill(flood: &mut Tenant, completions: &mut Vec<qanat_disk::Completion>) -> usize {
    let done = flood.disk.complete(completions, usize::MAX);
    completions.clear();
    while flood.disk.room() > 0 {
        let operation = Operation::Read { block: 0, frame: frame_of(&flood.pool, 16_384) };
        flood.disk.submit(Request { token: 9, operation }).unwrap();
    }
    flood.disk.ring();
    done
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

/// A disk that ends three or four of what it has in a turn, in any order, so that whoever has much there has others wait.
#[test]
fn on_a_disk_that_reorders_the_flood_waits_and_the_other_does_not() {
    for seed in 1..=20 {
        let (quiet, flooded) = (turns_of_quiet(false, Some(seed)), turns_of_quiet(true, Some(seed)));
        println!("seed {seed}: p99 in turns: quiet {}, flooded {}", p99(&quiet), p99(&flooded));
        assert!(2 * p99(&flooded) <= 3 * p99(&quiet), "seed {seed}: quiet {}, flooded {}", p99(&quiet), p99(&flooded));
    }
}

/// What the flood gets done in so many turns, beside an application that has one request after the other, or alone.
fn done_by_flood(beside: bool) -> usize {
    let house = House::new(SimConfig { depth: 32, ..SimConfig::default() });
    let mut quiet = house.honest(1, first_area(), AreaLimits::default());
    let mut flood = house.honest(2, second_area(), AreaLimits::default());
    let (mut completions, mut done) = (Vec::new(), 0);
    for _ in 0..4_000 {
        done += fill(&mut flood, &mut completions);
        if beside && quiet.disk.in_flight() == 0 {
            let operation = Operation::Read { block: 0, frame: frame_of(&quiet.pool, 4_096) };
            quiet.disk.submit(Request { token: 1, operation }).unwrap();
            quiet.disk.ring();
        }
        quiet.complete(&mut completions, 1);
    }
    done
}

/// Where the flood harms nobody, it is not held back for nothing.
#[test]
fn a_disk_that_serves_many_at_once_is_used() {
    let (alone, beside) = (done_by_flood(false), done_by_flood(true));
    println!("by the flood: {alone} alone, {beside} beside another");
    assert!(alone > 10_000 && beside * 10 >= alone * 8, "{alone} alone, {beside} beside another");
}
