//! A device that breaks the protocol: every request ends exactly once, every buffer comes back, and none before the device can't reach it.

use crate::nvme::device::{Device, Hand};
use crate::nvme::rig::{Choice, Rig, buffers, frame_of};
use qanat_disk::nvme::spec::Status;
use qanat_disk::nvme::{NvmeError, NvmeOptions, Violation};
use qanat_disk::{Completion, Operation, Request, SimConfig, StorageError, Vsic};
use qanat_disk_suite::read;
use qanat_nic::{Pool, Region};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const TIME_OUT: Duration = Duration::from_secs(4);
/// Requests under way in each row.
const COUNT: u64 = 4;

struct Bench {
    rig: Rig<Device>,
    hand: Rc<RefCell<Hand>>,
    pool: Pool,
    _region: Rc<Region>,
    completions: Vec<Completion>,
}

fn choice() -> Choice {
    let options = NvmeOptions { depth: 8, time_out: TIME_OUT, shadow_doorbells: false, ..NvmeOptions::default() };
    Choice { options, ..Choice::new(SimConfig::default()) }
}

/// Some reads are under way that only the test answers; their identifiers.
fn bench() -> (Bench, Vec<u16>) {
    let (region, pool) = buffers();
    let hand = Hand::new(None);
    let mut rig = choice().open(&region, |loopback, controller| Device::new(loopback, controller, &hand)).unwrap();
    hand.borrow_mut().takes_over = true;
    for token in 0..COUNT {
        let operation = Operation::Read { block: token, frame: frame_of(&pool, 512) };
        rig.submit(Request { token, operation }).unwrap();
    }
    rig.ring();
    let identifiers = hand.borrow_mut().fetch();
    assert_eq!(identifiers.len() as u64, COUNT);
    (Bench { rig, hand, pool, _region: region, completions: Vec::new() }, identifiers)
}

impl Bench {
    /// Time passes, and the driver looks now and then.
    fn pass(&mut self, duration: Duration) {
        for _ in 0..100 {
            self.rig.complete(&mut self.completions, usize::MAX);
            self.rig.clock.advance(duration / 100);
        }
        self.rig.complete(&mut self.completions, usize::MAX);
    }

    /// How each ended, in the order of tokens.
    fn ends(&mut self) -> Vec<Result<(), StorageError>> {
        self.completions.sort_by_key(|completion| completion.token);
        let tokens: Vec<u64> = self.completions.iter().map(|completion| completion.token).collect();
        assert_eq!(tokens, (0..COUNT).collect::<Vec<_>>(), "once each");
        assert_eq!(self.rig.in_flight(), 0);
        self.completions.drain(..).map(|completion| completion.result).collect()
    }

    /// All buffers are back, and what is asked now ends at once: with success if the controller is in order again.
    fn settled(mut self, in_order: bool) {
        assert_eq!((self.pool.in_use_count(), self.rig.nvme.withheld()), (0, 0));
        self.hand.borrow_mut().takes_over = false;
        let result = read(&mut self.rig, &self.pool, 0, 512).map(|frame| frame.len());
        assert_eq!(result, if in_order { Ok(512) } else { Err(StorageError::Gone) });
        drop(self.rig);
        assert_eq!(self.pool.in_use_count(), 0);
    }

    /// Everything under way ends as gone, for good.
    fn all_gone(mut self, done: usize, failure: &NvmeError) {
        self.pass(TIME_OUT * 2);
        // One that does not stop is isolated after as long as it said that it takes.
        self.pass(Duration::from_secs(20));
        let ends = self.ends();
        assert_eq!(ends.iter().filter(|end| **end == Ok(())).count(), done, "{ends:?}");
        assert_eq!(ends.iter().filter(|end| **end == Err(StorageError::Gone)).count(), COUNT as usize - done);
        assert_eq!(self.rig.nvme.failure(), Some(failure));
        self.settled(false);
    }
}

#[test]
fn late_and_reordered_completions_are_all_well() {
    let (mut bench, identifiers) = bench();
    bench.pass(TIME_OUT / 2);
    assert!(bench.completions.is_empty());
    for identifier in identifiers.into_iter().rev() {
        let entry = bench.hand.borrow().entry(identifier);
        bench.hand.borrow_mut().post(entry);
    }
    bench.pass(TIME_OUT * 2);
    assert_eq!(bench.ends(), [Ok(()); COUNT as usize]);
    assert_eq!(bench.rig.nvme.resets(), 0);
    drop(bench.rig);
    assert_eq!(bench.pool.in_use_count(), 0);
}

#[test]
fn no_answer_or_one_of_the_wrong_phase_is_a_time_out() {
    for wrong_phase in [false, true] {
        let (mut bench, identifiers) = bench();
        if wrong_phase {
            let mut entry = bench.hand.borrow().entry(identifiers[0]);
            entry.phase = !entry.phase;
            bench.hand.borrow_mut().post(entry);
        }
        bench.pass(TIME_OUT / 2);
        assert_eq!((bench.completions.len(), bench.pool.in_use_count()), (0, COUNT as u32));
        bench.pass(TIME_OUT * 2);
        assert_eq!(bench.ends(), [Err(StorageError::TimedOut); COUNT as usize]);
        assert_eq!(bench.rig.nvme.resets(), 1);
        bench.settled(true);
    }
}

#[test]
fn what_cannot_be_is_the_end() {
    type Row = (fn(&mut Hand, &[u16]), usize, fn(&[u16]) -> Violation);
    let rows: [Row; 6] = [
        (|hand, _| hand.post(hand.entry(0xffff)), 0, |_| Violation::Command(0xffff)),
        (|hand, ids| hand.post(hand.entry(ids[1] ^ 0x100)), 0, |ids| Violation::Command(ids[1] ^ 0x100)),
        (
            |hand, ids| {
                hand.post(hand.entry(ids[2]));
                hand.post(hand.entry(ids[2]));
            },
            1,
            |ids| Violation::Command(ids[2]),
        ),
        (
            |hand, ids| {
                let mut entry = hand.entry(ids[0]);
                entry.submission_head = 5;
                hand.post(entry);
            },
            0,
            |_| Violation::Head(5),
        ),
        (
            |hand, ids| {
                let mut entry = hand.entry(ids[0]);
                entry.submission_head = 0xfffe;
                hand.post(entry);
            },
            0,
            |_| Violation::Head(0xfffe),
        ),
        (
            |hand, ids| {
                let mut entry = hand.entry(ids[0]);
                entry.submission_queue = 0;
                hand.post(entry);
            },
            0,
            |_| Violation::Queue(0),
        ),
    ];
    for (act, done, violation) in rows {
        let (bench, identifiers) = bench();
        act(&mut bench.hand.borrow_mut(), &identifiers);
        bench.all_gone(done, &NvmeError::Violation(violation(&identifiers)));
    }
}

#[test]
fn a_controller_that_fails_or_vanishes_is_the_end() {
    for (status, failure) in [(3, NvmeError::Failed), (u32::MAX, NvmeError::Absent), (0, NvmeError::Failed)] {
        let (bench, _) = bench();
        bench.hand.borrow_mut().status = Some(status);
        bench.all_gone(0, &failure);
    }
}

#[test]
fn a_controller_that_does_not_stop_is_isolated() {
    let (mut bench, _) = bench();
    bench.hand.borrow_mut().never_stops = true;
    bench.pass(TIME_OUT * 2);
    assert_eq!(bench.pool.in_use_count(), COUNT as u32, "it may still write there");
    assert!(bench.completions.is_empty());
    bench.pass(Duration::from_secs(20));
    assert_eq!(bench.hand.borrow().isolated, 1);
    assert_eq!(bench.ends(), [Err(StorageError::Gone); COUNT as usize]);
    bench.settled(false);
}

#[test]
fn buffers_of_one_that_cannot_be_isolated_never_come_back() {
    let (mut bench, _) = bench();
    bench.hand.borrow_mut().never_stops = true;
    bench.hand.borrow_mut().isolates = false;
    bench.pass(TIME_OUT * 2);
    bench.pass(Duration::from_secs(20));
    assert!(bench.completions.iter().all(|completion| completion.frame.is_none()));
    assert_eq!(bench.ends(), [Err(StorageError::Gone); COUNT as usize]);
    assert_eq!((bench.pool.in_use_count(), bench.rig.nvme.withheld()), (COUNT as u32, COUNT));
}

#[test]
fn a_refused_command_is_its_requests_error() {
    let (mut bench, identifiers) = bench();
    for identifier in identifiers {
        let mut entry = bench.hand.borrow().entry(identifier);
        entry.status = Status::UNRECOVERED_READ_ERROR.without_retry();
        bench.hand.borrow_mut().post(entry);
    }
    bench.pass(TIME_OUT);
    assert_eq!(bench.ends(), [Err(StorageError::Medium); COUNT as usize]);
    drop(bench.rig);
    assert_eq!(bench.pool.in_use_count(), 0);
}

#[test]
fn one_that_does_not_come_up_is_an_error() {
    let (region, _pool) = buffers();
    let open = |status, namespace| {
        let hand = Hand::new(status);
        let options = NvmeOptions { namespace, ..choice().options };
        let opened = Choice { options, ..choice() };
        opened.open(&region, |loopback, controller| Device::new(loopback, controller, &hand)).err().unwrap()
    };
    assert!(matches!(open(Some(0), None), NvmeError::TimedOut { what: "become ready", .. }));
    assert!(matches!(open(Some(1), None), NvmeError::TimedOut { what: "stop", .. }));
    assert_eq!(open(Some(2), None), NvmeError::Failed);
    assert_eq!(open(Some(u32::MAX), None), NvmeError::Absent);
    assert!(matches!(open(None, Some(7)), NvmeError::Refused { .. }));
}
