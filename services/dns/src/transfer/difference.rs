//! What changed from one version of a zone to the next (RFC 1995), and as much of that history as is worth keeping.

use crate::zone::{RecordView, Zone, rtype};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Versions kept at most.
const VERSIONS_MAX: usize = 100;

/// A record on its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRecord {
    /// Its name in wire format, as it was written.
    pub owner: Box<[u8]>,
    /// Its type.
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Its data in wire format.
    pub data: Box<[u8]>,
}

impl OwnedRecord {
    /// A copy.
    pub fn of(record: &RecordView<'_>) -> OwnedRecord {
        OwnedRecord { owner: record.owner.into(), rtype: record.rtype, ttl: record.ttl, data: record.data.into() }
    }

    /// A look at it.
    pub fn view(&self) -> RecordView<'_> {
        RecordView { owner: &self.owner, rtype: self.rtype, ttl: self.ttl, data: &self.data }
    }

    fn length(&self) -> usize {
        self.owner.len() + self.data.len() + 10
    }
}

/// Records to take away from version `from` and to add for version `to`; SOA records first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Serial number of the older version.
    pub from: u32,
    /// Serial number of the newer version.
    pub to: u32,
    /// The older SOA record, then what is gone.
    pub removed: Vec<OwnedRecord>,
    /// The newer SOA record, then what is new.
    pub added: Vec<OwnedRecord>,
    bytes: usize,
}

fn order(left: &RecordView<'_>, right: &RecordView<'_>) -> Ordering {
    crate::name::canonical_order(left.owner, right.owner)
        .then(left.rtype.cmp(&right.rtype))
        .then_with(|| left.data.cmp(right.data))
}

impl Difference {
    /// From `old` to `new`; `None`: one of them has no SOA record.
    pub fn between(old: &Zone, new: &Zone) -> Option<Difference> {
        let owned = |zone: &Zone, index: usize| zone.spelled_record(index).map(|record| OwnedRecord::of(&record));
        let mut removed = vec![owned(old, old.soa_index()?)?];
        let mut added = vec![owned(new, new.soa_index()?)?];
        let mut olds = old.records().enumerate().filter(|(_, record)| record.rtype != rtype::SOA).peekable();
        let mut news = new.records().enumerate().filter(|(_, record)| record.rtype != rtype::SOA).peekable();
        // Both are in canonical order: each turn takes a record of one of them.
        loop {
            let turn = match (olds.peek(), news.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((_, left)), Some((_, right))) => order(left, right),
            };
            let gone = if turn.is_le() { olds.next() } else { None };
            let come = if turn.is_ge() { news.next() } else { None };
            if gone.map(|(_, record)| record) == come.map(|(_, record)| record) {
                continue;
            }
            removed.extend(gone.and_then(|(index, _)| owned(old, index)));
            added.extend(come.and_then(|(index, _)| owned(new, index)));
        }
        let bytes = removed.iter().chain(&added).map(OwnedRecord::length).sum();
        Some(Difference { from: old.serial(), to: new.serial(), removed, added, bytes })
    }
}

/// Differences from version to version, the oldest first, each from where the one before led to.
#[derive(Clone, Debug, Default)]
pub struct History {
    steps: VecDeque<Arc<Difference>>,
    bytes: usize,
}

impl History {
    /// This history with one more step. A step that does not follow the last one begins a new history. The oldest steps go if all
    /// together are larger than the zone, or more than a hundred.
    #[must_use]
    pub fn with(&self, step: Difference, zone_bytes: usize) -> History {
        let mut history = self.clone();
        if history.steps.back().is_some_and(|last| last.to != step.from) {
            history = History::default();
        }
        history.bytes += step.bytes;
        history.steps.push_back(Arc::new(step));
        while history.bytes > zone_bytes || history.steps.len() > VERSIONS_MAX {
            let Some(oldest) = history.steps.pop_front() else { break };
            history.bytes -= oldest.bytes;
        }
        history
    }

    /// The steps from version `serial` to the newest; `None`: not known, or none.
    pub fn since(&self, serial: u32) -> Option<Vec<Arc<Difference>>> {
        let first = self.steps.iter().position(|step| step.from == serial)?;
        Some(self.steps.iter().skip(first).cloned().collect())
    }

    /// Steps kept.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Whether serial number `new` is newer than `old` (RFC 1982, section 3.2); of two exactly opposite ones neither is.
pub fn is_newer(new: u32, old: u32) -> bool {
    let ahead = new.wrapping_sub(old);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::name::Name;
    use crate::zone::parse::read_text;
    use std::path::Path;

    pub(crate) fn zone(serial: u32, records: &str) -> Zone {
        let text =
            format!("$TTL 60\n@ SOA ns hostmaster {serial} 3600 900 1209600 300\n@ NS ns\nns A 10.0.0.1\n{records}");
        let apex = Name::absolute("example").unwrap();
        read_text(&apex, Path::new("test"), &text).unwrap_or_else(|error| panic!("{error}: {text}")).0
    }

    #[test]
    fn what_came_and_what_went() {
        let old = zone(1, "a A 10.0.0.2\nb A 10.0.0.3\nc TXT \"same\"\nd 70 A 10.0.0.9\n");
        let new = zone(2, "a A 10.0.0.2\na A 10.0.0.4\nc TXT \"same\"\nd 80 A 10.0.0.9\n");
        let step = Difference::between(&old, &new).unwrap();
        let names = |records: &[OwnedRecord]| -> Vec<u8> { records.iter().map(|record| record.owner[1]).collect() };
        assert_eq!((step.from, step.to), (1, 2));
        assert_eq!((names(&step.removed), names(&step.added)), (b"ebd".to_vec(), b"ead".to_vec()));
        assert_eq!((step.removed[2].ttl, step.added[2].ttl), (70, 80));
    }

    #[test]
    fn history_is_bounded_and_connected() {
        let zones: Vec<Zone> = (1..=5).map(|serial| zone(serial, &format!("v A 10.0.1.{serial}\n"))).collect();
        let step = |from: usize, to: usize| Difference::between(&zones[from], &zones[to]).unwrap();
        let history = History::default().with(step(0, 1), 10_000).with(step(1, 2), 10_000);
        assert_eq!(history.since(1).map(|steps| steps.len()), Some(2));
        assert_eq!(history.since(2).map(|steps| steps.len()), Some(1));
        assert!(history.since(3).is_none() && history.since(9).is_none());
        let gap = history.with(step(3, 4), 10_000);
        assert!(gap.since(1).is_none() && gap.len() == 1);
        assert!(history.with(step(2, 3), 1).is_empty(), "larger than the zone");
    }

    #[test]
    fn serial_numbers_go_round() {
        assert!(is_newer(2, 1) && is_newer(0, u32::MAX) && is_newer(1 << 31, 1));
        assert!(!is_newer(1, 1) && !is_newer(1, 2) && !is_newer(1 << 31, 0) && !is_newer(0, 1 << 31));
    }
}
