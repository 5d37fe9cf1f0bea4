//! What was sent and is not yet cumulatively acknowledged: one record per segment, with its SACK state (RFC 6675's
//! scoreboard, RFC 8985's per-segment times).
//!
//! ```text
//!  SND.UNA                                                   SND.NXT
//!     | record 0 | record 1 | record 2 | record 3 | record 4 |
//!                   LOST       SACKED     RETRANSMITTED (and LOST before)
//!  pipe = outstanding − sacked − lost + retransmitted          (RFC 6675 §4 SetPipe, in bytes)
//! ```
//!
//! Records are contiguous: each keeps only its end, and starts where the one before it ends. SYN and FIN count one.

use crate::tcp::sequence::SequenceNumber;
use qanat_nic::Time;
use std::collections::VecDeque;

/// The segment was selectively acknowledged.
pub const SACKED: u8 = 1;
/// The segment was found lost (stays set when it is retransmitted).
pub const LOST: u8 = 2;
/// A retransmission of the segment is in flight.
pub const RETRANSMITTED: u8 = 4;
/// The segment was sent more than once (Karn: no RTT sample without a timestamp).
pub const EVER_RETRANSMITTED: u8 = 8;

/// Records a scoreboard may hold; sending stops beyond. Bounds the work a single ACK can cause.
pub const RECORDS_MAX: usize = 4_096;
/// Capacity kept by an idle connection.
const RECORDS_KEPT: usize = 16;

/// One transmitted segment.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Record {
    /// Last transmission.
    pub sent_at: Time,
    /// Sequence number after its last octet.
    pub end: SequenceNumber,
    /// `SACKED`, `LOST`, ….
    pub flags: u8,
}

impl Record {
    /// Whether any of `flags` is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// Consecutive records.
pub type Records = VecDeque<Record>;

/// The records between SND.UNA and SND.NXT, and their sums.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Scoreboard {
    records: Records,
    /// SND.UNA.
    start: SequenceNumber,
    /// Bytes sacked.
    sacked: u32,
    /// Bytes lost (retransmitted or not).
    lost: u32,
    /// Bytes retransmitted and thought in flight.
    retransmitted: u32,
    /// No record before this index is lost and waiting for retransmission.
    retransmit_hint: u32,
}

impl Scoreboard {
    /// Empty, with SND.UNA = `start`.
    pub fn new(start: SequenceNumber) -> Scoreboard {
        Scoreboard { records: VecDeque::new(), start, sacked: 0, lost: 0, retransmitted: 0, retransmit_hint: 0 }
    }

    /// Uses the memory of `records`, which are empty, if it has none of its own.
    pub fn adopt(&mut self, records: Records) {
        if self.records.capacity() == 0 {
            self.records = records;
        }
    }

    /// Gives up its records' memory; of no use afterwards.
    pub fn retire(&mut self) -> Records {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        if records.capacity() > RECORDS_KEPT { Records::new() } else { records }
    }

    /// SND.UNA.
    #[inline]
    pub fn start(&self) -> SequenceNumber {
        self.start
    }

    /// Whether nothing is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Records held.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether another segment may be recorded.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.records.len() < RECORDS_MAX
    }

    /// Octets outstanding (SND.NXT − SND.UNA).
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.records.back().map_or(0, |last| last.end.distance_from(self.start))
    }

    /// RFC 6675's pipe: octets thought in the network.
    #[inline]
    pub fn pipe(&self) -> u32 {
        self.outstanding().wrapping_sub(self.sacked).wrapping_sub(self.lost).wrapping_add(self.retransmitted)
    }

    /// Octets sacked.
    #[inline]
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Octets marked lost.
    #[inline]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Octets retransmitted and in flight.
    #[inline]
    pub fn retransmitted(&self) -> u32 {
        self.retransmitted
    }

    /// Records an octet run just sent for the first time, up to `end`.
    #[inline]
    pub fn push(&mut self, end: SequenceNumber, now: Time) {
        debug_assert!(end.after(self.start));
        self.records.push_back(Record { sent_at: now, end, flags: 0 });
    }

    /// The first sequence number of record `index`.
    #[inline]
    pub fn start_of(&self, index: usize) -> SequenceNumber {
        match index.checked_sub(1).and_then(|previous| self.records.get(previous)) {
            Some(previous) => previous.end,
            None => self.start,
        }
    }

    /// Record `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Record> {
        self.records.get(index)
    }

    fn length_of(&self, index: usize) -> u32 {
        self.records.get(index).map_or(0, |record| record.end.distance_from(self.start_of(index)))
    }

    fn forget(&mut self, flags: u8, length: u32) {
        if flags & SACKED != 0 {
            self.sacked -= length;
        }
        if flags & LOST != 0 {
            self.lost -= length;
        }
        if flags & RETRANSMITTED != 0 {
            self.retransmitted -= length;
        }
    }

    /// Cumulative acknowledgement up to `ack`: calls `each` for every record wholly acknowledged, in order; returns the
    /// octets newly delivered (not sacked before).
    pub fn acknowledge(&mut self, ack: SequenceNumber, mut each: impl FnMut(&Record)) -> u32 {
        let mut delivered = 0;
        while let Some(&record) = self.records.front() {
            if record.end.after(ack) {
                // Part of a record: the rest stays, shorter.
                if ack.after(self.start) {
                    let length = ack.distance_from(self.start);
                    self.forget(record.flags, length);
                    delivered += if record.has(SACKED) { 0 } else { length };
                    self.start = ack;
                }
                return delivered;
            }
            let length = record.end.distance_from(self.start);
            self.forget(record.flags, length);
            delivered += if record.has(SACKED) { 0 } else { length };
            self.start = record.end;
            self.records.pop_front();
            self.retransmit_hint = self.retransmit_hint.saturating_sub(1);
            each(&record);
        }
        if self.records.capacity() > 2 * RECORDS_KEPT {
            // Idle connections keep little memory: a burst's records are given back with its last ACK.
            self.records.shrink_to(RECORDS_KEPT);
        }
        delivered
    }

    /// Selective acknowledgement of `[start, end)`: calls `each` for every record newly and wholly covered; returns the
    /// octets newly sacked.
    pub fn sack(&mut self, start: SequenceNumber, end: SequenceNumber, mut each: impl FnMut(&Record)) -> u32 {
        let mut newly = 0;
        // The first record that ends after the block's start; it counts only if it does not begin before it.
        let mut index = self.records.partition_point(|record| record.end.at_or_before(start));
        if self.start_of(index).before(start) {
            index += 1;
        }
        while let Some(&record) = self.records.get(index) {
            if record.end.after(end) {
                break;
            }
            if !record.has(SACKED) {
                let length = self.length_of(index);
                newly += length;
                self.forget(record.flags, length);
                self.sacked += length;
                if let Some(slot) = self.records.get_mut(index) {
                    slot.flags = (slot.flags & EVER_RETRANSMITTED) | SACKED;
                }
                each(&record);
            }
            index += 1;
        }
        newly
    }

    /// Marks record `index` lost; a retransmission of it in flight counts as lost too.
    pub fn mark_lost(&mut self, index: usize) -> u32 {
        let length = self.length_of(index);
        let Some(record) = self.records.get_mut(index) else { return 0 };
        if record.has(SACKED) {
            return 0;
        }
        if record.has(RETRANSMITTED) {
            record.flags &= !RETRANSMITTED;
            self.retransmitted -= length;
        } else if record.has(LOST) {
            return 0;
        }
        if !record.has(LOST) {
            record.flags |= LOST;
            self.lost += length;
        }
        self.retransmit_hint = self.retransmit_hint.min(index as u32);
        length
    }

    /// Marks everything not sacked as lost, retransmissions included (RTO).
    pub fn mark_all_lost(&mut self) {
        for index in 0..self.records.len() {
            self.mark_lost(index);
        }
    }

    /// Takes every loss mark back (a spurious recovery is undone).
    pub fn unmark_lost(&mut self) {
        for record in &mut self.records {
            record.flags &= !(LOST | RETRANSMITTED);
        }
        self.lost = 0;
        self.retransmitted = 0;
    }

    /// Forgets all SACK information (the receiver reneged: RFC 2018 §8).
    pub fn forget_sacks(&mut self) {
        for record in &mut self.records {
            record.flags &= !SACKED;
        }
        self.sacked = 0;
    }

    /// The first record that is lost and not yet retransmitted.
    #[inline]
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.lost == self.retransmitted {
            // RETRANSMITTED implies LOST: everything lost is in flight again.
            return None;
        }
        let from = self.retransmit_hint as usize;
        for (index, record) in self.records.range(from.min(self.records.len())..).enumerate() {
            if record.flags & (LOST | RETRANSMITTED | SACKED) == LOST {
                self.retransmit_hint = (from + index) as u32;
                return Some(from + index);
            }
        }
        self.retransmit_hint = self.records.len() as u32;
        None
    }

    /// Notes a retransmission of record `index`.
    pub fn mark_retransmitted(&mut self, index: usize, now: Time) {
        let length = self.length_of(index);
        let Some(record) = self.records.get_mut(index) else { return };
        record.sent_at = now;
        if !record.has(RETRANSMITTED) {
            self.retransmitted += length;
            if !record.has(LOST) {
                // A tail loss probe: the original is taken as lost, so the pair counts once in the pipe.
                record.flags |= LOST;
                self.lost += length;
            }
        }
        record.flags |= RETRANSMITTED | EVER_RETRANSMITTED;
    }

    /// Cuts record `index` after `length` octets, so that its head can be retransmitted alone (the MSS shrank).
    pub fn split(&mut self, index: usize, length: u32) {
        let start = self.start_of(index);
        let Some(&record) = self.records.get(index) else { return };
        let middle = start + length;
        if length == 0 || middle.at_or_after(record.end) {
            return;
        }
        self.records.insert(index, Record { end: middle, ..record });
        if self.retransmit_hint as usize > index {
            self.retransmit_hint += 1;
        }
    }

    /// The records, in sequence order.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// Heap memory held, bytes.
    pub fn memory(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sequence(raw: u32) -> SequenceNumber {
        SequenceNumber(raw)
    }

    fn filled(count: u32) -> Scoreboard {
        let mut board = Scoreboard::new(sequence(0));
        for index in 1..=count {
            board.push(sequence(index * 100), Time::from_millis(u64::from(index)));
        }
        board
    }

    #[test]
    fn record_is_small() {
        assert_eq!(size_of::<Record>(), 16);
    }

    #[test]
    fn pipe_follows_sack_loss_and_retransmission() {
        let mut board = filled(5);
        assert_eq!(board.pipe(), 500);
        assert_eq!(board.sack(sequence(200), sequence(400), |_| {}), 200);
        assert_eq!(board.pipe(), 300);
        assert_eq!(board.mark_lost(0), 100);
        assert_eq!(board.mark_lost(0), 0, "lost once");
        assert_eq!(board.pipe(), 200);
        assert_eq!(board.next_lost(), Some(0));
        board.mark_retransmitted(0, Time::from_millis(50));
        assert_eq!(board.pipe(), 300);
        assert_eq!(board.next_lost(), None);
        assert_eq!(board.mark_lost(0), 100, "its retransmission is lost too");
        assert_eq!(board.pipe(), 200);
        let mut seen = 0;
        assert_eq!(board.acknowledge(sequence(400), |_| seen += 1), 200);
        assert_eq!((seen, board.pipe(), board.sacked(), board.lost()), (4, 100, 0, 0));
    }

    #[test]
    fn partial_acknowledgement_shortens_a_record() {
        let mut board = filled(2);
        board.mark_lost(0);
        assert_eq!(board.acknowledge(sequence(30), |_| panic!("nothing whole")), 30);
        assert_eq!((board.lost(), board.outstanding(), board.pipe()), (70, 170, 100));
        assert_eq!(board.start_of(0), sequence(30));
    }

    #[test]
    fn partly_covered_records_are_not_sacked() {
        let mut board = filled(3);
        assert_eq!(board.sack(sequence(50), sequence(250), |_| {}), 100);
        assert!(!board.get(0).unwrap().has(SACKED) && board.get(1).unwrap().has(SACKED));
    }

    #[test]
    fn split_keeps_the_sums() {
        let mut board = filled(3);
        board.mark_lost(1);
        board.split(1, 40);
        assert_eq!(board.len(), 4);
        assert_eq!((board.lost(), board.outstanding()), (100, 300));
        assert_eq!(board.start_of(2), sequence(140));
        board.mark_retransmitted(1, Time::ZERO);
        assert_eq!(board.next_lost(), Some(2));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u8),
        Ack(u16),
        Sack(u16, u16),
        Lost(u8),
        Retransmit,
        Split(u8, u8),
        AllLost,
        Undo,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1u8..).prop_map(Step::Push),
            any::<u16>().prop_map(Step::Ack),
            any::<(u16, u16)>().prop_map(|(a, b)| Step::Sack(a, b)),
            any::<u8>().prop_map(Step::Lost),
            Just(Step::Retransmit),
            any::<(u8, u8)>().prop_map(|(a, b)| Step::Split(a, b)),
            Just(Step::AllLost),
            Just(Step::Undo),
        ]
    }

    proptest! {
        /// The sums equal a recount over the records, whatever happens, also across the wrap.
        #[test]
        fn sums_match_a_recount(origin in prop_oneof![Just(0u32), Just(u32::MAX - 500)],
                                steps in proptest::collection::vec(step(), 0..60)) {
            let mut board = Scoreboard::new(sequence(origin));
            let mut next = sequence(origin);
            for step in steps {
                let outstanding = board.outstanding();
                let at = |offset: u16| board.start() + u32::from(offset) % (outstanding + 1);
                match step {
                    Step::Push(length) => {
                        next += u32::from(length);
                        board.push(next, Time::ZERO);
                    }
                    Step::Ack(offset) => {
                        let ack = at(offset);
                        board.acknowledge(ack, |_| {});
                    }
                    Step::Sack(a, b) => {
                        let (a, b) = (at(a), at(b));
                        board.sack(a.earlier(b), a.later(b), |_| {});
                    }
                    Step::Lost(index) => {
                        if !board.is_empty() {
                            board.mark_lost(usize::from(index) % board.len());
                        }
                    }
                    Step::Retransmit => {
                        let expected = board.iter().position(|r| r.flags & (LOST | RETRANSMITTED | SACKED) == LOST);
                        let found = board.next_lost();
                        prop_assert_eq!(found, expected);
                        if let Some(index) = found {
                            board.mark_retransmitted(index, Time::ZERO);
                        }
                    }
                    Step::Split(index, length) => {
                        if !board.is_empty() {
                            board.split(usize::from(index) % board.len(), u32::from(length));
                        }
                    }
                    Step::AllLost => board.mark_all_lost(),
                    Step::Undo => board.unmark_lost(),
                }
                let (mut sacked, mut lost, mut retransmitted, mut start) = (0, 0, 0, board.start());
                for record in board.iter() {
                    let length = record.end.distance_from(start);
                    prop_assert!(length > 0);
                    prop_assert!(!(record.has(SACKED) && record.has(LOST | RETRANSMITTED)));
                    sacked += if record.has(SACKED) { length } else { 0 };
                    lost += if record.has(LOST) { length } else { 0 };
                    retransmitted += if record.has(RETRANSMITTED) { length } else { 0 };
                    start = record.end;
                }
                prop_assert_eq!((sacked, lost, retransmitted),
                                (board.sacked(), board.lost(), board.retransmitted()));
                prop_assert_eq!(board.start() + board.outstanding(), next);
                prop_assert!(board.pipe() <= board.outstanding());
            }
        }
    }
}
