//! Middleware that does to requests what disks do: fails, forgets, tears, rots, misdirects, delays and reorders, by a seed.
//!
//! What a disk reports is told as an error. What it does not report (lost, misdirected and torn writes, rot) is for the layers above to
//! detect: their checksums must, and a test that uses this shows it.

use crate::error::StorageError;
use crate::slots::Slots;
use crate::vsic::{Completion, Operation, Request, Vsic, VsicStatistics};
use qanat_api::Geometry;
use qanat_nic::Random;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// How often what happens. Rates are in parts per million of the requests they can happen to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Any request fails and is not done ([`StorageError::Medium`]).
    pub error_ppm: u32,
    /// Any request is not done and ends late, after others ([`StorageError::TimedOut`]).
    pub time_out_ppm: u32,
    /// Any request's completion is held back until others have passed.
    pub reorder_ppm: u32,
    /// That many others, at most (at least 1).
    pub reorder_requests_max: u32,
    /// A write is done in part, a run of blocks at its beginning, and fails.
    pub tear_ppm: u32,
    /// A write or flush is said to be done and is not.
    pub lose_ppm: u32,
    /// A byte of what is read is changed.
    pub rot_ppm: u32,
    /// A read or write goes to other blocks of the device.
    pub misdirect_ppm: u32,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Requests seen.
    pub requests: u64,
    /// Failed.
    pub failed: u64,
    /// Timed out.
    pub timed_out: u64,
    /// Held back past others.
    pub reordered: u64,
    /// Writes done in part.
    pub torn: u64,
    /// Said to be done and not done.
    pub lost: u64,
    /// Reads with a byte changed.
    pub rotten: u64,
    /// Reads and writes of other blocks.
    pub misdirected: u64,
}

/// What is to become of a request's completion.
struct Fate {
    token: u64,
    /// The frame's length as submitted, if a part of it was written: the request fails.
    torn: Option<usize>,
    /// The byte to change, and how.
    rot: Option<(u64, u8)>,
    /// So many others pass first.
    hold: u32,
}

/// Any device, with faults.
pub struct Fault<V> {
    inner: V,
    rates: FaultRates,
    random: Random,
    counters: FaultCounters,
    fates: Slots<Fate>,
    /// Completions, and how many others must pass first.
    held: VecDeque<(u32, Completion)>,
    ready: VecDeque<Completion>,
    /// The inner device's, on their way through.
    passing: Vec<Completion>,
}

impl<V: Vsic> Fault<V> {
    /// Faults over `inner`; the same seed and the same requests give the same faults.
    pub fn new(inner: V, rates: FaultRates, seed: u64) -> Fault<V> {
        let (held, ready, passing) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let (random, counters) = (Random::new(seed), FaultCounters::default());
        Fault { inner, rates, random, counters, fates: Slots::new(), held, ready, passing }
    }

    /// What happened so far.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// From here on other rates.
    pub fn set_rates(&mut self, rates: FaultRates) {
        self.rates = rates;
    }

    /// The device below.
    pub fn inner_mut(&mut self) -> &mut V {
        &mut self.inner
    }

    /// The device below.
    pub(crate) fn inner(&self) -> &V {
        &self.inner
    }

    /// The inner device, alone.
    pub fn into_inner(self) -> V {
        self.inner
    }

    /// A completion comes: those held back are one nearer to their turn.
    fn pass(&mut self, hold: u32, completion: Completion) {
        self.held.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(1));
        if hold > 0 {
            self.held.push_back((hold, completion));
        } else {
            self.ready.push_back(completion);
        }
        self.release(|left| left == 0);
    }

    fn release(&mut self, due: impl Fn(u32) -> bool) {
        for (left, completion) in std::mem::take(&mut self.held) {
            if due(left) {
                self.ready.push_back(completion);
            } else {
                self.held.push_back((left, completion));
            }
        }
    }

    /// A place for the same number of blocks somewhere else.
    fn elsewhere(geometry: &Geometry, block: u64, blocks: u64, random: u64) -> u64 {
        let places = geometry.blocks.saturating_sub(blocks).saturating_add(1);
        let place = random % places.max(1);
        if place == block { (place + 1) % places.max(1) } else { place }
    }
}

impl<V: Vsic> Vsic for Fault<V> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn room(&self) -> usize {
        (self.geometry().depth as usize).saturating_sub(self.in_flight())
    }

    fn submit(&mut self, mut request: Request) -> Result<(), Request> {
        if self.room() == 0 {
            return Err(request);
        }
        self.counters.requests += 1;
        // All dice are thrown for every request: the fate of the next doesn't hang on the kind of this.
        let (rates, random) = (self.rates, &mut self.random);
        let [error, time_out, reorder, tear, lose, rot, misdirect] = [
            rates.error_ppm,
            rates.time_out_ppm,
            rates.reorder_ppm,
            rates.tear_ppm,
            rates.lose_ppm,
            rates.rot_ppm,
            rates.misdirect_ppm,
        ]
        .map(|rate| random.chance(rate));
        let distance = 1 + random.below(u64::from(rates.reorder_requests_max.max(1))) as u32;
        let (place, flip, part) = (random.next(), 1 + random.below(255) as u8, random.next());
        let geometry = self.inner.geometry();
        if request.check(&geometry).is_err() {
            let token = self.fates.put(Fate { token: request.token, torn: None, rot: None, hold: 0 });
            return self.inner.submit(Request { token, ..request }).map_err(|refused| self.undo(refused));
        }
        let hold = if reorder {
            self.counters.reordered += 1;
            distance
        } else {
            0
        };
        if error {
            self.counters.failed += 1;
            self.pass(hold, request.refused(StorageError::Medium));
            return Ok(());
        }
        if time_out {
            self.counters.timed_out += 1;
            self.pass(distance, request.refused(StorageError::TimedOut));
            return Ok(());
        }
        if lose && matches!(request.operation, Operation::Write { .. } | Operation::Flush) {
            self.counters.lost += 1;
            let completion = Completion { token: request.token, frame: request.operation.into_frame(), result: Ok(()) };
            self.pass(hold, completion);
            return Ok(());
        }
        let (mut torn, mut rotten) = (None, None);
        let block_bytes = geometry.block_bytes as usize;
        match &mut request.operation {
            Operation::Read { block, frame } => {
                if misdirect {
                    self.counters.misdirected += 1;
                    *block = Self::elsewhere(&geometry, *block, (frame.len() / block_bytes) as u64, place);
                }
                if rot {
                    self.counters.rotten += 1;
                    rotten = Some((place, flip));
                }
            }
            Operation::Write { block, frame, .. } => {
                let blocks = frame.len() / block_bytes;
                if misdirect {
                    self.counters.misdirected += 1;
                    *block = Self::elsewhere(&geometry, *block, blocks as u64, place);
                }
                if tear && blocks > 1 {
                    self.counters.torn += 1;
                    torn = Some(frame.len());
                    frame.truncate((1 + part as usize % (blocks - 1)) * block_bytes);
                }
            }
            Operation::Flush | Operation::WriteZeroes { .. } => {}
        }
        let token = self.fates.put(Fate { token: request.token, torn, rot: rotten, hold });
        self.inner.submit(Request { token, ..request }).map_err(|refused| self.undo(refused))
    }

    fn ring(&mut self) {
        self.inner.ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let mut passing = std::mem::take(&mut self.passing);
        self.inner.complete(&mut passing, completions_max);
        for mut completion in passing.drain(..) {
            let Some(fate) = self.fates.take(completion.token) else { continue };
            completion.token = fate.token;
            if let (Some(length), Some(frame)) = (fate.torn, &mut completion.frame) {
                frame.resize(length);
                completion.result = Err(StorageError::Medium);
            }
            if let (Some((place, flip)), Some(frame)) = (fate.rot, &mut completion.frame) {
                let index = place as usize % frame.len().max(1);
                frame.bytes_mut().get_mut(index).into_iter().for_each(|byte| *byte ^= flip);
            }
            self.pass(fate.hold, completion);
        }
        self.passing = passing;
        if self.inner.in_flight() == 0 && self.ready.is_empty() {
            // Nothing is left that could pass.
            self.release(|_| true);
        }
        let count = self.ready.len().min(completions_max);
        completions.extend(self.ready.drain(..count));
        count
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len() + self.ready.len()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        // What is held back here rings no bell.
        None
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn statistics(&self) -> VsicStatistics {
        self.inner.statistics()
    }
}

impl<V> Fault<V> {
    /// A request that the inner device did not take, as it came.
    fn undo(&mut self, mut request: Request) -> Request {
        if let Some(fate) = self.fates.take(request.token) {
            request.token = fate.token;
            if let (Some(length), Operation::Write { frame, .. }) = (fate.torn, &mut request.operation) {
                frame.resize(length);
            }
        }
        request
    }
}

impl<V: std::fmt::Debug> std::fmt::Debug for Fault<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fault({:?}, {:?})", self.inner, self.counters)
    }
}
