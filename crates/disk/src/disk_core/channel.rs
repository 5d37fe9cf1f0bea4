//! [`Channel`]: a tenant's requests on their way to the disk and back, which the tenant's controller takes for a disk.

use super::meter::Meters;
use super::window::{Company, HEAVY_FOR, LIGHT_MAX, Window};
use crate::slots::Slots;
use crate::vsic::{Completion, Kind, Operation, Request, Vsic, VsicStatistics};
use qanat_api::Geometry;
use qanat_api::StorageError;
use qanat_nic::Time;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Bytes of zeroes that are one turn of a tenant's: a longer request goes to the disk in pieces.
const ZEROES_BYTES_MAX: u64 = 1 << 20;

/// What the disk has.
struct AtDisk {
    token: u64,
    kind: Kind,
    /// Of this piece.
    bytes: u64,
    /// Of zeroes: where they go on, and how many blocks are left.
    rest: Option<(u64, u64)>,
    since: Time,
    company: Company,
}

/// Requests of one tenant, in the disk's own addresses. None of its queues grows beyond the depth.
pub(super) struct Channel {
    geometry: Geometry,
    waiting: VecDeque<Request>,
    under_way: Slots<AtDisk>,
    ended: VecDeque<Completion>,
    at_disk: u32,
    bytes_at_disk: u64,
    in_flight: usize,
    meters: Meters,
    /// It has had more at once than a light tenant has.
    heavy_until: Option<Time>,
    /// When the first that waits may go on.
    due: Option<Time>,
    /// How often any was told to wait: each time has another `due`.
    holds: u32,
    held: u64,
    statistics: VsicStatistics,
}

impl Channel {
    /// To a disk like this; `depth`: requests at once; `meters`: what each request is counted by.
    pub(super) fn new(disk: Geometry, depth: u32, meters: Meters) -> Channel {
        let room = depth as usize;
        Channel {
            geometry: Geometry { depth, ..disk },
            waiting: VecDeque::with_capacity(room),
            under_way: Slots::new(),
            ended: VecDeque::with_capacity(room),
            at_disk: 0,
            bytes_at_disk: 0,
            in_flight: 0,
            meters,
            heavy_until: None,
            due: None,
            holds: 0,
            held: 0,
            statistics: VsicStatistics::default(),
        }
    }

    /// The limits of its meters have changed.
    pub(super) fn is_limited_anew(&mut self) {
        self.due = None;
    }

    pub(super) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Notes whether it floods. To be called each turn.
    #[inline]
    pub(super) fn look(&mut self, now: Time) {
        if self.waiting.len() + self.at_disk as usize > LIGHT_MAX {
            self.heavy_until = Some(now + HEAVY_FOR);
        } else if self.heavy_until.is_some_and(|until| until <= now) {
            self.heavy_until = None;
        }
    }

    /// Whether it floods, or did so just now.
    #[inline]
    pub(super) fn is_heavy(&self) -> bool {
        self.heavy_until.is_some()
    }

    /// Requests that the disk has.
    pub(super) fn at_disk(&self) -> u32 {
        self.at_disk
    }

    /// Bytes of their transfers.
    pub(super) fn bytes_at_disk(&self) -> u64 {
        self.bytes_at_disk
    }

    /// Whether any request waits for its turn.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether any end waits for the tenant's controller.
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// When the first that waits may go on, if the limits hold it.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// How often any was told to wait, and how long it has to from now on.
    pub(super) fn holds(&self, now: Time) -> (u32, Duration) {
        (self.holds, self.due.map_or(Duration::ZERO, |due| due.since(now)))
    }

    /// Requests that were held by the limits.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// The next for the disk, with the number it is known by here; `None`: there is none, or the limits hold it. `heavy`: what those who
    /// flood have at the disk.
    pub(super) fn next(&mut self, now: Time, window: &mut Window, heavy: u32) -> Option<Request> {
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        let first = self.waiting.front()?;
        let (kind, whole) = (first.operation.kind(), first.bytes());
        let block_bytes = u64::from(self.geometry.block_bytes);
        let some = (ZEROES_BYTES_MAX / block_bytes).max(1);
        let bytes = match &first.operation {
            Operation::WriteZeroes { blocks, .. } => (*blocks).min(some) * block_bytes,
            _ => whole,
        };
        if let Err(due) = self.meters.take(bytes, now) {
            // Once for each that is held.
            self.held += u64::from(self.due.is_none());
            self.holds = self.holds.wrapping_add(1);
            self.due = Some(due);
            return None;
        }
        self.due = None;
        let Request { token, operation } = self.waiting.pop_front()?;
        let (operation, rest) = match operation {
            Operation::WriteZeroes { block, blocks } if blocks > some => {
                (Operation::WriteZeroes { block, blocks: some }, Some((block + some, blocks - some)))
            }
            operation => (operation, None),
        };
        self.at_disk += 1;
        self.bytes_at_disk += bytes;
        let company = if self.is_heavy() { window.submitted_heavy() } else { window.submitted(heavy, now) };
        let token = self.under_way.put(AtDisk { token, kind, bytes, rest, since: now, company });
        Some(Request { token, operation })
    }

    /// The disk has ended what it had by this number.
    pub(super) fn end(&mut self, completion: Completion, now: Time, window: &mut Window, depth: u32) {
        let Some(at_disk) = self.under_way.take(completion.token) else { return };
        let AtDisk { token, kind, bytes, rest, since, company } = at_disk;
        window.ended(kind, bytes, company, now.since(since), depth);
        self.at_disk = self.at_disk.saturating_sub(1);
        self.bytes_at_disk = self.bytes_at_disk.saturating_sub(bytes);
        if let Some((block, blocks)) = rest.filter(|_| completion.result.is_ok()) {
            self.waiting.push_back(Request { token, operation: Operation::WriteZeroes { block, blocks } });
            return;
        }
        self.statistics.count(kind, bytes, completion.result);
        self.ended.push_back(Completion { token, ..completion });
    }

    /// What waits is not done any more, and what has ended is forgotten; what the disk has is waited for.
    pub(super) fn abandon(&mut self) {
        self.waiting.clear();
        self.ended.clear();
        self.due = None;
    }
}

impl Vsic for Channel {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        (self.geometry.depth as usize).saturating_sub(self.in_flight)
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        if self.room() == 0 {
            return Err(request);
        }
        self.in_flight += 1;
        match request.check(&self.geometry) {
            Ok(()) => self.waiting.push_back(request),
            Err(error) => self.refuse(request, error),
        }
        Ok(())
    }

    /// The disk core rings, when all tenants have had their turn.
    fn ring(&mut self) {}

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let count = self.ended.len().min(completions_max);
        completions.extend(self.ended.drain(..count));
        self.in_flight -= count;
        count
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn statistics(&self) -> VsicStatistics {
        self.statistics
    }
}

impl Channel {
    fn refuse(&mut self, request: Request, error: StorageError) {
        self.statistics.failures += 1;
        self.ended.push_back(request.refused(error));
    }
}
