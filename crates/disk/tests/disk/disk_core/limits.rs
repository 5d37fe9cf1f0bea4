//! Limits of requests and bytes.

use super::rig::{House, config, first_area, frame_of, second_area};
use qanat_disk::area::AreaLimits;
use qanat_disk::disk_core::TenantConfig;
use qanat_disk::{Operation, Request, SimConfig, Vsic};
use qanat_nic::{Clock, Time};
use std::time::Duration;

/// Requests of `bytes` that an application gets done in half a second, as many at once as it can.
fn done_in_half_a_second(limits: AreaLimits, bytes: usize) -> (u64, u64) {
    let house = House::new(SimConfig { depth: 32, ..SimConfig::default() });
    let mut tenant = house.honest(1, first_area(), limits);
    let (mut done, mut completions) = (0, Vec::new());
    let end = house.clock.now() + Duration::from_millis(500);
    while house.clock.now() < end {
        while tenant.disk.room() > 0 {
            let operation = Operation::Read { block: 0, frame: frame_of(&tenant.pool, bytes) };
            tenant.disk.submit(Request { token: 0, operation }).unwrap();
        }
        tenant.disk.ring();
        done += tenant.complete(&mut completions, usize::MAX) as u64;
        assert!(completions.drain(..).all(|completion| completion.result == Ok(())));
    }
    let held = house.core.borrow().statistics().map(|(_, of)| of.held).sum();
    (done, held)
}

#[test]
fn a_flood_gets_what_its_limits_say() {
    let (unlimited, held) = done_in_half_a_second(AreaLimits::default(), 512);
    assert!(unlimited > 50_000 && held == 0, "{unlimited}");
    for (limits, bytes, expected) in [
        (AreaLimits { requests_per_second: 5_000, bytes_per_second: 0 }, 512, 2_500_u64),
        (AreaLimits { requests_per_second: 0, bytes_per_second: 4_096_000 }, 4_096, 500),
        (AreaLimits { requests_per_second: 1_000, bytes_per_second: 4_096_000 }, 16_384, 125),
    ] {
        let (done, held) = done_in_half_a_second(limits, bytes);
        // A burst of 10 ms is on top.
        assert!(done >= expected && done <= expected + expected / 50 + 2, "{limits:?}: {done}, not {expected}");
        assert!(held > expected / 2, "{held}");
    }
}

#[test]
fn areas_of_one_account_share_its_ceiling() {
    let house = House::new(SimConfig { depth: 32, ..SimConfig::default() });
    let ceiling = AreaLimits { requests_per_second: 5_000, bytes_per_second: 0 };
    let of =
        |tenant, account, extents| TenantConfig { account, ceiling, ..config(tenant, extents, AreaLimits::default()) };
    let mut tenants =
        [of(1, 7, first_area()), of(2, 7, second_area()), of(3, 8, first_area())].map(|it| house.honest_by(it));
    let (mut done, mut completions) = ([0; 3], Vec::new());
    let end = house.clock.now() + Duration::from_millis(500);
    while house.clock.now() < end {
        for (tenant, done) in tenants.iter_mut().zip(&mut done) {
            while tenant.disk.room() > 0 {
                let operation = Operation::Read { block: 0, frame: frame_of(&tenant.pool, 512) };
                tenant.disk.submit(Request { token: 0, operation }).unwrap();
            }
            tenant.disk.ring();
            *done += tenant.complete(&mut completions, usize::MAX);
            completions.clear();
        }
    }
    let [first, second, other] = done;
    assert!((2_500..=2_560).contains(&(first + second)) && (2_500..=2_560).contains(&other), "{done:?}");
    assert!(first.abs_diff(second) < 600, "each has its turn: {done:?}");
}

#[test]
fn who_is_held_says_when_it_goes_on_and_holds_nobody_else() {
    let house = House::new(SimConfig { depth: 32, ..SimConfig::default() });
    let slow = AreaLimits { requests_per_second: 1, bytes_per_second: 0 };
    let mut held = house.honest(1, first_area(), slow);
    let mut free = house.honest(2, second_area(), AreaLimits::default());
    for token in 0..20 {
        let operation = Operation::Read { block: 0, frame: frame_of(&held.pool, 512) };
        held.disk.submit(Request { token, operation }).unwrap();
    }
    held.disk.ring();
    for round in 0..50 {
        free.write_and_read(4, round, 512, round as u8).unwrap();
    }
    let due = house.turn().due.unwrap();
    assert!(due > house.clock.now() && due <= house.clock.now() + Duration::from_secs(1), "{due:?}");
    let mut completions = Vec::new();
    held.disk.complete(&mut completions, usize::MAX);
    let before = completions.len();
    assert_eq!(before, 1);
    house.clock.advance_to(due + Duration::from_micros(1));
    house.turns(3);
    held.disk.complete(&mut completions, usize::MAX);
    assert_eq!(completions.len(), before + 1);
    // The daemon changes its mind.
    house.core.borrow_mut().limit(1, AreaLimits::default()).unwrap();
    // One after the other, since somebody who does not flood has just been there.
    house.turns(50);
    held.disk.complete(&mut completions, usize::MAX);
    assert_eq!(completions.len(), 20);
    assert_eq!(house.turn().due, None::<Time>);
}

/// Reads of 16 KiB, so many at once, of an area that has 1 KiB a second.
fn slow_reads(count: u64) -> (House, super::rig::Tenant) {
    let house = House::new(SimConfig { depth: 32, ..SimConfig::default() });
    let mut tenant = house.honest(1, first_area(), AreaLimits { requests_per_second: 0, bytes_per_second: 1_024 });
    for token in 0..count {
        let operation = Operation::Read { block: 0, frame: frame_of(&tenant.pool, 16_384) };
        tenant.disk.submit(Request { token, operation }).unwrap();
    }
    tenant.disk.ring();
    (house, tenant)
}

#[test]
fn what_is_held_longer_than_a_command_may_take_is_not_lost() {
    let (house, mut tenant) = slow_reads(6);
    let (begun, mut completions) = (house.clock.now(), Vec::new());
    while completions.len() < 6 {
        house.clock.advance(Duration::from_millis(100));
        house.turns(3);
        let before = completions.len();
        tenant.disk.complete(&mut completions, usize::MAX);
        // One that comes while others are held waits as long.
        if before == 0 && !completions.is_empty() {
            let operation = Operation::Read { block: 0, frame: frame_of(&tenant.pool, 16_384) };
            tenant.disk.submit(Request { token: 6, operation }).unwrap();
            tenant.disk.ring();
        }
        assert!(house.clock.now().since(begun) < Duration::from_secs(300), "{} of 6", completions.len());
    }
    assert!(house.clock.now().since(begun) > Duration::from_secs(60), "the limits hold");
    assert!(completions.iter().all(|completion| completion.result == Ok(())), "{completions:?}");
    assert_eq!((tenant.disk.resets(), tenant.disk.failure()), (0, None));
}

#[test]
fn a_core_that_stands_still_while_it_holds_is_given_up() {
    let (house, mut tenant) = slow_reads(3);
    house.turns(5);
    let (begun, mut completions) = (house.clock.now(), Vec::new());
    // The core has no turn any more.
    while tenant.disk.resets() == 0 {
        house.clock.advance(Duration::from_millis(100));
        tenant.disk.complete(&mut completions, usize::MAX);
        assert!(house.clock.now().since(begun) < Duration::from_secs(120), "nobody notices");
    }
    let waited = house.clock.now().since(begun);
    assert!((Duration::from_secs(40)..Duration::from_secs(50)).contains(&waited), "16 s held, and 30 s: {waited:?}");
}
