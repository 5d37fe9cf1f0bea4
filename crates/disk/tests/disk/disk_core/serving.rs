//! What an application gets of a disk core: its area, all of it, and nothing else; and how it ends.

use super::rig::{
    AREA_BYTES, House, config, extents, first_area, frame_of, is_closed, layout, options, pair, second_area,
};
use qanat_disk::area::AreaLimits;
use qanat_disk::disk_core::{Closing, DiskCore, TenantConfig, TenantDescriptors, TenantError};
use qanat_disk::nvme::NvmeError;
use qanat_disk::shared::{SharedArea, SharedLayout};
use qanat_disk::{DiskOptions, Operation, Request, SimConfig, StorageError, Uring, Vsic};
use qanat_disk_suite::{one, refuses_what_cant_be_done, runs_as_the_model_says};
use qanat_nic::{Clock, MonotonicClock};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const NO_LIMITS: AreaLimits = AreaLimits { requests_per_second: 0, bytes_per_second: 0 };

fn sim(seed: Option<u64>) -> SimConfig {
    SimConfig { depth: 32, seed, ..SimConfig::default() }
}

#[test]
fn two_applications_run_as_the_model_says() {
    for seed in 0..30 {
        let house = House::new(sim((seed % 3 > 0).then_some(seed)));
        let mut first = house.honest(1, first_area(), NO_LIMITS);
        let mut second = house.honest(2, second_area(), NO_LIMITS);
        let pools = [first.pool.clone(), second.pool.clone()];
        runs_as_the_model_says(&mut first, &pools[0], seed, 200);
        runs_as_the_model_says(&mut second, &pools[1], seed, 200);
        assert!(house.is_untouched_but(&[first_area(), second_area()].concat()), "seed {seed}");
        assert_eq!(pools.map(|pool| pool.in_use_count()), [0, 0], "seed {seed}: every buffer is back");
        let statistics: Vec<_> = house.core.borrow().statistics().collect();
        assert!(statistics.iter().all(|(_, of)| of.refused == 0 && of.lent > 100), "{statistics:?}");
    }
    let house = House::new(sim(Some(1)));
    let mut tenant = house.honest(1, second_area(), NO_LIMITS);
    let pool = tenant.pool.clone();
    refuses_what_cant_be_done(&mut tenant, &pool);
    assert_eq!(house.closed(), None);
}

#[test]
fn what_is_given_back_is_let_go_of_at_once_or_when_the_disk_has_ended() {
    let house = House::new(sim(Some(4)));
    let mut tenant = house.honest(1, first_area(), NO_LIMITS);
    for token in 0..8 {
        let operation = Operation::Read { block: token, frame: frame_of(&tenant.pool, 512) };
        tenant.disk.submit(Request { token, operation }).unwrap();
    }
    tenant.disk.ring();
    house.turn();
    house.core.borrow_mut().close(1).unwrap();
    let closed = house.closed().unwrap();
    assert_eq!((closed.tenant, closed.why), (1, Closing::Asked));
    assert!(!is_closed(&tenant.lease), "the disk has requests of it");
    house.turns(20);
    assert!(is_closed(&tenant.lease));
    assert!(matches!(house.core.borrow_mut().close(1), Err(TenantError::Unknown(1))));
    // Its driver ends all of them, once each, and has its buffers back: the core said that it let go.
    let mut completions = Vec::new();
    for _ in 0..1_000 {
        house.clock.advance(Duration::from_millis(50));
        tenant.disk.complete(&mut completions, usize::MAX);
    }
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..8).collect::<Vec<_>>());
    assert!(completions.iter().all(|completion| completion.result == Err(StorageError::Gone)), "{completions:?}");
    completions.clear();
    assert_eq!((tenant.disk.failure(), tenant.disk.withheld()), (Some(&NvmeError::Absent), 0));
    assert_eq!(tenant.pool.in_use_count(), 0);
    assert_eq!(one(&mut tenant.disk, Operation::Flush).result, Err(StorageError::Gone));
}

#[test]
fn an_application_that_goes_leaves_nothing() {
    let house = House::new(sim(None));
    let tenant = house.honest(7, first_area(), NO_LIMITS);
    let lease = tenant.lease;
    drop(tenant.disk);
    house.clock.advance(Duration::from_secs(1));
    house.turns(3);
    assert_eq!(house.closed().map(|closed| (closed.tenant, closed.why)), Some((7, Closing::Left)));
    assert!(is_closed(&lease) && house.core.borrow().is_idle());
    // Its number and its place are free.
    for round in 0..200 {
        let mut next = house.honest(7, second_area(), NO_LIMITS);
        next.write_and_read(10, 0, 512, round as u8).unwrap();
        drop(next);
        house.clock.advance(Duration::from_secs(1));
        house.turns(3);
        assert_eq!(house.closed().map(|closed| closed.why), Some(Closing::Left), "round {round}");
    }
}

#[test]
fn a_disk_core_that_dies_ends_all_once_and_its_buffers_are_given_up() {
    let house = House::new(sim(Some(4)));
    let tenant = house.honest(1, first_area(), NO_LIMITS);
    let (mut disk, pool) = (tenant.disk, tenant.pool);
    for token in 0..8 {
        disk.submit(Request { token, operation: Operation::Read { block: token, frame: frame_of(&pool, 512) } })
            .unwrap();
    }
    disk.ring();
    assert!(disk.doorbell().is_some());
    house.core.replace(DiskCore::new(qanat_disk::Sim::new(&house.media, sim(None))));
    let mut completions = Vec::new();
    // At once, by the end of the doorbell: no time passes.
    (0..10).for_each(|_| _ = disk.complete(&mut completions, usize::MAX));
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..8).collect::<Vec<_>>());
    // The device may still write there: nobody said that it does not.
    assert!(completions.iter().all(|end| end.result == Err(StorageError::Gone) && end.frame.is_none()));
    assert_eq!((disk.withheld(), pool.in_use_count(), disk.doorbell().is_none()), (8, 8, true));
}

#[test]
fn areas_and_memory_that_are_none_are_refused() {
    let house = House::new(sim(None));
    let good = config(1, first_area(), NO_LIMITS);
    let area = |of: &[(u64, u64)], bytes| TenantConfig { extents: extents(of), bytes, ..good.clone() };
    for config in [
        area(&[], 0),
        area(&[(520, 64)], 0),
        area(&[(520, 64)], 100),
        area(&[(520, 64)], AREA_BYTES + 512),
        area(&[(511, 64)], AREA_BYTES),
        area(&[(0, 64)], AREA_BYTES),
        area(&[(700, 64)], AREA_BYTES),
        area(&[(u64::MAX, 64)], AREA_BYTES),
        area(&[(520, u64::MAX)], AREA_BYTES),
        area(&[(520, 64), (520, 0)], AREA_BYTES),
    ] {
        assert!(matches!(house.try_give(config.clone()), Err(TenantError::Area { .. })), "{config:?}");
    }
    let (memory, other) = (layout().allocate().unwrap(), SharedLayout { frames: 3, ..layout() });
    let wrong: Vec<(OwnedFd, SharedLayout)> = vec![
        (memory.try_clone().unwrap(), other),
        (memory.try_clone().unwrap(), SharedLayout { frame_bytes: 3, ..layout() }),
        (std::fs::File::open("/dev/null").unwrap().into(), layout()),
        (rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap(), layout()),
        (pair().0, layout()),
        (rustix::pipe::pipe().unwrap().0, layout()),
    ];
    for (memory, layout) in wrong {
        let ((_, doorbell), (end, lease)) = (pair(), pair());
        let config = TenantConfig { layout, ..good.clone() };
        let opened = house.core.borrow_mut().open(&config, TenantDescriptors { memory, doorbell, lease });
        assert!(matches!(opened, Err(TenantError::Memory(_))), "{opened:?}");
        assert!(is_closed(&end), "nothing of it is kept");
    }
    let _first = house.try_give(good.clone()).unwrap();
    assert!(matches!(house.try_give(good.clone()), Err(TenantError::Exists(1))));
    let others: Vec<_> =
        (2..65).map(|tenant| house.try_give(TenantConfig { tenant, ..good.clone() }).unwrap()).collect();
    let full = house.try_give(TenantConfig { tenant: 99, ..good });
    assert!(matches!(full, Err(TenantError::Full(64))) && others.len() == 63);
}

#[test]
fn an_area_grows_while_it_is_open() {
    let house = House::new(sim(None));
    let mut tenant = house.honest(1, first_area(), NO_LIMITS);
    let larger = extents(&[(520, 66), (700, 2)]);
    let beyond = |tenant: &mut super::rig::Tenant| tenant.write_and_read(10, 520, 4_096, 9);
    assert_eq!(beyond(&mut tenant), Err(StorageError::OutOfRange));
    let grow = |of: &[(u64, u64)], bytes| house.core.borrow_mut().grow(1, &extents(of), bytes);
    assert!(matches!(grow(&[(521, 64)], AREA_BYTES), Err(TenantError::Shrinks)));
    assert!(matches!(grow(&[(520, 64)], AREA_BYTES - 512), Err(TenantError::Shrinks)));
    assert!(matches!(grow(&[(520, 66), (500, 2)], AREA_BYTES), Err(TenantError::Area { .. })));
    assert!(matches!(house.core.borrow_mut().grow(9, &larger, AREA_BYTES), Err(TenantError::Unknown(9))));
    house.core.borrow_mut().grow(1, &larger, AREA_BYTES + 4 * 4_096).unwrap();
    // The controller says so, and the driver asks for more: the event, its log, the namespace.
    for _ in 0..20 {
        house.turn();
        tenant.disk.complete(&mut Vec::new(), 0);
    }
    assert_eq!(tenant.geometry().blocks, 544);
    assert_eq!(beyond(&mut tenant), Ok(()));
    assert_eq!(tenant.write_and_read(10, 536, 4_096, 10), Ok(()));
    assert!(house.is_untouched_but(&larger));
}

#[test]
fn who_may_only_read_writes_nothing() {
    let house = House::new(sim(None));
    let config = TenantConfig { read_only: true, ..config(1, first_area(), NO_LIMITS) };
    let (area, lease) = house.try_give(config).unwrap();
    let turns = Box::new({
        let house = house.clone();
        move || _ = house.turn()
    });
    let (disk, pool) = area.open_with(house.clock.clone(), options(), Some(turns)).unwrap();
    let mut tenant = super::rig::Tenant { house: house.clone(), disk, pool, lease };
    assert_eq!(tenant.write_and_read(10, 0, 512, 1), Err(StorageError::ReadOnly));
    let zeroes = Operation::WriteZeroes { block: 0, blocks: 4 };
    assert_eq!(tenant.within(10, zeroes).0.result, Err(StorageError::ReadOnly));
    let frame = frame_of(&tenant.pool, 512);
    assert_eq!(tenant.within(10, Operation::Read { block: 0, frame }).0.result, Ok(()));
    assert!(house.is_untouched_but(&[]));
}

/// Ends a thread whatever becomes of the test.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn over_io_uring_in_another_thread_with_both_asleep() {
    // Not /tmp, which may have no direct I/O.
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(720 * 4_096).unwrap();
    let path = file.into_temp_path();
    let (memory, (doorbell, its), (_lease, its_lease)) = (layout().allocate().unwrap(), pair(), pair());
    let core_memory = memory.try_clone().unwrap();
    let (stopped, is_open) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let stop = Stop(Arc::clone(&stopped));
    let (nobody, _kept) = pair();
    let thread = std::thread::spawn(move || {
        let disk = qanat_disk::DiskFile::open(&path, DiskOptions { depth: 32, ..DiskOptions::default() }).unwrap();
        let mut core = DiskCore::new(Uring::fenced(disk, qanat_disk::disk_core::PIECES_MAX).unwrap());
        let config = self::config(1, second_area(), NO_LIMITS);
        let descriptors = TenantDescriptors { memory: core_memory, doorbell: its, lease: its_lease };
        core.open(&config, descriptors).unwrap();
        is_open.0.send(()).unwrap();
        let clock = MonotonicClock::new();
        while !stopped.load(Ordering::Relaxed) {
            // It sleeps whenever it may.
            if !core.turn(clock.now()).has_more {
                core.sleep(nobody.as_fd(), Some(Duration::from_millis(200)));
            }
        }
        core.statistics().next().map(|(_, statistics)| statistics)
    });
    is_open.1.recv().unwrap();
    let area = SharedArea { memory, doorbell, layout: layout() };
    let (mut disk, pool) = area.open(MonotonicClock::new(), options()).unwrap();
    let mut completions = Vec::new();
    for round in 0..500_u64 {
        let mut frame = frame_of(&pool, 4_096);
        frame.bytes_mut().fill(round as u8);
        let block = round * 8 % 512;
        for operation in [
            Some(Operation::Write { block, frame, durable: round % 100 == 0 }),
            Some(Operation::Flush).filter(|_| round % 100 == 50),
        ]
        .into_iter()
        .flatten()
        {
            disk.submit(Request { token: round, operation }).unwrap();
            while disk.in_flight() > 0 {
                disk.wait(Duration::from_secs(5));
                disk.complete(&mut completions, usize::MAX);
            }
        }
        let operation = Operation::Read { block, frame: frame_of(&pool, 4_096) };
        assert!(completions.drain(..).all(|completion| completion.result == Ok(())));
        let read = one(&mut disk, operation);
        assert!(read.frame.unwrap().bytes().iter().all(|byte| *byte == round as u8), "round {round}");
    }
    for seed in 0..3 {
        runs_as_the_model_says(&mut disk, &pool, seed, 300);
    }
    drop(stop);
    let statistics = thread.join().unwrap().expect("it is open");
    assert!(statistics.lent > 1_000 && statistics.refused == 0, "{statistics:?}");
}
