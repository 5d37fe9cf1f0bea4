//! [`Oracle`]: what was asked of a log and what it answered, and so what may be found after a crash.

use qanat_store::{Position, RecordKind, Recovered, UNIT_BYTES};

/// A record as it was appended or found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub position: Position,
    pub kind: RecordKind,
    pub bytes: Vec<u8>,
}

/// See the module.
#[derive(Clone, Default, Debug)]
pub struct Oracle {
    /// Everything appended that may be found, in order.
    pub entries: Vec<Entry>,
    /// So many of them are known to be durable.
    pub durable: usize,
    /// The log begins with this one, the first of its frame.
    pub start: usize,
    /// The log may already begin with one of these: what was asked for and not answered.
    pub later_starts: Vec<usize>,
}

impl Oracle {
    pub fn append(&mut self, position: Position, kind: RecordKind, bytes: &[u8]) {
        assert!(self.entries.last().is_none_or(|last| last.position < position), "positions count up");
        self.entries.push(Entry { position, kind, bytes: bytes.to_vec() });
    }

    pub fn durable_before(&mut self, before: Position) {
        let durable = self.entries.partition_point(|entry| entry.position < before);
        assert!(durable >= self.durable, "what was durable is not any more");
        self.durable = durable;
    }

    /// The first record that is not before the frame of `position`.
    pub fn first_from(&self, position: Position) -> usize {
        let frame = position.to_number() - position.to_number() % UNIT_BYTES;
        self.entries.partition_point(|entry| entry.position.to_number() < frame)
    }

    /// The log begins with `start`: what was asked for and is not behind that is done.
    pub fn started(&mut self, start: Position) {
        self.start = self.first_from(start);
        let recorded = self.start;
        self.later_starts.retain(|later| *later > recorded);
    }

    /// The log was found so after a crash: everything acknowledged is there, and nothing that was not appended.
    pub fn found(&mut self, found: &[Entry], recovered: Recovered) {
        assert_eq!(recovered.records as usize, found.len());
        let first = match found.first() {
            Some(first) => self.entries.iter().position(|entry| entry == first).expect("a record that was appended"),
            // Then it may begin with what was not durable.
            None => self.durable,
        };
        let mut starts = [self.start].into_iter().chain(self.later_starts.iter().copied());
        let is_start = starts.any(|start| start == first || (found.is_empty() && start >= self.durable));
        assert!(is_start, "it begins with {first}, and should with {} or {:?}", self.start, self.later_starts);
        let expected = self.entries.get(first..first + found.len()).expect("no more than was appended");
        let differs = expected.iter().zip(found).position(|(expected, found)| expected != found);
        assert!(
            differs.is_none(),
            "{differs:?} of {} found is not what was appended: {} durable, {first} first",
            found.len(),
            self.durable
        );
        assert!(
            first + found.len() >= self.durable,
            "{} of {} acknowledged records",
            first + found.len(),
            self.durable
        );
        *self = Oracle { entries: found.to_vec(), durable: found.len(), start: 0, later_starts: Vec::new() };
    }
}
