//! [`QueuePair`]: a submission queue and its completion queue, from the driver's side.
//!
//! ```text
//!  submission  | entry | entry | …   tail: ours, told by a doorbell      head: the controller's, told in completions (SQHD)
//!  completion  | entry | entry | …   a phase bit says what is new        head: ours, told by a doorbell
//! ```
//! The controller is not believed: what names a command that is not under way, another queue, or a head that can't be is a
//! [`Violation`], and then nothing it says counts any more.

use super::commands::Commands;
use super::memory::Piece;
use super::spec::{Command, CompletionEntry};

/// The controller said what can't be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// A completion of a command that is not under way.
    #[error("a completion of command {0:#x}, which is not under way")]
    Command(u16),
    /// A completion of another submission queue's.
    #[error("a completion of submission queue {0}")]
    Queue(u16),
    /// A head of the submission queue that is not between the one before and the tail.
    #[error("a head of {0} of the submission queue")]
    Head(u16),
}

/// Where commands are put.
struct SubmissionQueue {
    memory: Piece,
    entries: u32,
    tail: u32,
    /// The controller's, as last told.
    head: u32,
}

impl SubmissionQueue {
    /// Entries from `from` on to `to`.
    #[inline]
    fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.entries - from }
    }

    /// Puts a command; `false`: it is full, as far as is known.
    #[inline]
    fn push(&mut self, command: &Command) -> bool {
        if self.distance(self.head, self.tail) + 1 >= self.entries {
            return false;
        }
        let start = self.tail as usize * 8;
        for (index, word) in command.to_words().into_iter().enumerate() {
            self.memory.store(start + index, word);
        }
        self.tail = if self.tail + 1 == self.entries { 0 } else { self.tail + 1 };
        true
    }

    #[inline]
    fn told_head(&mut self, head: u16) -> Result<(), Violation> {
        let told = u32::from(head);
        if told >= self.entries || self.distance(self.head, told) > self.distance(self.head, self.tail) {
            return Err(Violation::Head(head));
        }
        self.head = told;
        Ok(())
    }
}

/// Where completions come.
struct CompletionQueue {
    memory: Piece,
    entries: u32,
    head: u32,
    /// That of an entry that is new.
    phase: bool,
}

impl CompletionQueue {
    /// Whether there is a new entry.
    fn has_next(&self) -> bool {
        CompletionEntry::is_of_phase(self.memory.load(self.head as usize * 2 + 1), self.phase)
    }

    #[inline]
    fn pop(&mut self) -> Option<CompletionEntry> {
        let place = self.head as usize * 2;
        let upper = self.memory.load(place + 1);
        if !CompletionEntry::is_of_phase(upper, self.phase) {
            return None;
        }
        let lower = self.memory.load(place);
        self.head += 1;
        if self.head == self.entries {
            self.head = 0;
            self.phase = !self.phase;
        }
        Some(CompletionEntry::from_words(lower, upper))
    }
}

/// A queue pair, and what is under way in it.
pub(super) struct QueuePair<T> {
    identifier: u16,
    submission: SubmissionQueue,
    completion: CompletionQueue,
    commands: Commands<T>,
}

impl<T> QueuePair<T> {
    /// Bytes of a submission and a completion queue for `depth` commands.
    pub(super) fn bytes(depth: u32) -> (usize, usize) {
        ((depth as usize + 1) * 64, (depth as usize + 1) * 16)
    }

    /// Of zeroed memory as [`QueuePair::bytes`] said; `depth` is at most [`super::commands::COMMANDS_MAX`].
    pub(super) fn new(identifier: u16, depth: u32, submission: Piece, completion: Piece) -> QueuePair<T> {
        let entries = depth + 1;
        QueuePair {
            identifier,
            submission: SubmissionQueue { memory: submission, entries, tail: 0, head: 0 },
            completion: CompletionQueue { memory: completion, entries, head: 0, phase: true },
            commands: Commands::new(depth),
        }
    }

    /// Makes it empty, for a controller that starts anew. Nothing is under way.
    pub(super) fn reset(&mut self) {
        self.submission.memory.clear();
        self.completion.memory.clear();
        (self.submission.tail, self.submission.head) = (0, 0);
        (self.completion.head, self.completion.phase) = (0, true);
    }

    pub(super) fn identifier(&self) -> u16 {
        self.identifier
    }

    /// Entries of each of the two.
    pub(super) fn entries(&self) -> u32 {
        self.submission.entries
    }

    /// The device's addresses of both.
    pub(super) fn addresses(&self) -> (u64, u64) {
        (self.submission.memory.address(), self.completion.memory.address())
    }

    /// The tail of the submission queue.
    #[inline]
    pub(super) fn tail(&self) -> u32 {
        self.submission.tail
    }

    /// The head of the completion queue.
    #[inline]
    pub(super) fn head(&self) -> u32 {
        self.completion.head
    }

    /// Whether [`next`](QueuePair::next) has something.
    pub(super) fn has_next(&self) -> bool {
        self.completion.has_next()
    }

    /// Commands under way.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.commands.under_way()
    }

    /// The number that the next command will have; `None`: there is no room.
    #[inline]
    pub(super) fn next_index(&self) -> Option<usize> {
        self.commands.next_index()
    }

    /// Puts a command, of which `value` is to be remembered.
    ///
    /// # Errors
    /// Gives `value` back if there is no room.
    #[inline]
    pub(super) fn submit(&mut self, command: Command, value: T) -> Result<(), T> {
        let identifier = self.commands.put(value)?;
        if self.submission.push(&command.with_identifier(identifier)) {
            return Ok(());
        }
        match self.commands.take(identifier) {
            Some(value) => Err(value),
            None => Ok(()),
        }
    }

    /// The next completion, and what was remembered of its command; `None`: there is none now.
    ///
    /// # Errors
    /// [`Violation`]; the entry is used up.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(CompletionEntry, T)>, Violation> {
        let Some(entry) = self.completion.pop() else { return Ok(None) };
        if entry.submission_queue != self.identifier {
            return Err(Violation::Queue(entry.submission_queue));
        }
        self.submission.told_head(entry.submission_head)?;
        let value = self.commands.take(entry.identifier).ok_or(Violation::Command(entry.identifier))?;
        Ok(Some((entry, value)))
    }

    /// What is under way.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.commands.iter_mut()
    }

    /// Ends one that is under way, as if it had completed: the controller does not know it any more.
    pub(super) fn take_any(&mut self) -> Option<T> {
        self.commands.take_any()
    }

    pub(super) fn give_up(&self) {
        self.submission.memory.give_up();
        self.completion.memory.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::memory::{Allocator, Mapping};
    use crate::nvme::spec::Status;
    use qanat_nic::Region;

    fn pair(depth: u32) -> QueuePair<u32> {
        let region = Region::new(1, 16_384).unwrap();
        let frame = region.pool(1).unwrap().allocate(0).unwrap();
        let mut allocator = Allocator::new(&Mapping { region, address: 0 }, frame).unwrap();
        let (submission, completion) = QueuePair::<u32>::bytes(depth);
        let (submission, completion) = (allocator.pages(submission).unwrap(), allocator.pages(completion).unwrap());
        QueuePair::new(1, depth, submission, completion)
    }

    /// What a controller would do: fetches and completes.
    struct Device {
        head: u32,
        tail: u32,
        phase: bool,
    }

    impl Device {
        fn new() -> Device {
            Device { head: 0, tail: 0, phase: true }
        }

        fn fetch(&mut self, pair: &QueuePair<u32>) -> Command {
            let start = self.head as usize * 8;
            self.head = (self.head + 1) % pair.entries();
            Command::from_words(std::array::from_fn(|index| pair.submission.memory.load(start + index)))
        }

        fn post(&mut self, pair: &QueuePair<u32>, identifier: u16, head: u32, queue: u16) {
            let (lower, upper) = CompletionEntry {
                result: 0,
                submission_head: head as u16,
                submission_queue: queue,
                identifier,
                phase: self.phase,
                status: Status::SUCCESS,
            }
            .to_words();
            let place = 2 * self.tail as usize;
            pair.completion.memory.store(place, lower);
            pair.completion.memory.store(place + 1, upper);
            self.tail = (self.tail + 1) % pair.entries();
            self.phase ^= self.tail == 0;
        }
    }

    #[test]
    fn commands_end_in_any_order_through_many_rounds() {
        let (mut pair, mut device) = (pair(3), Device::new());
        for round in 0..50_u32 {
            for index in 0..3 {
                pair.submit(Command::flush(1), round * 3 + index).unwrap();
            }
            assert_eq!(pair.submit(Command::flush(1), 0), Err(0), "a queue of 4 holds 3");
            let identifiers: Vec<u16> = (0..3).map(|_| device.fetch(&pair).identifier()).collect();
            for index in [2, 0, 1] {
                device.post(&pair, identifiers[index], device.head, 1);
            }
            let ended: Vec<u32> = std::iter::from_fn(|| pair.next().unwrap()).map(|(_, value)| value % 3).collect();
            assert_eq!(ended, [2, 0, 1]);
            assert_eq!((pair.under_way(), pair.head(), pair.tail()), (0, device.tail, device.head));
        }
    }

    #[test]
    fn what_cannot_be_is_a_violation() {
        type Case = Box<dyn Fn(&QueuePair<u32>, &mut Device, u16)>;
        let cases: Vec<Case> = vec![
            Box::new(|pair, device, identifier| device.post(pair, identifier ^ 0x100, 1, 1)),
            Box::new(|pair, device, identifier| device.post(pair, identifier ^ 1, 1, 1)),
            Box::new(|pair, device, _| device.post(pair, 0xffff, 1, 1)),
            Box::new(|pair, device, identifier| device.post(pair, identifier, 1, 0)),
            Box::new(|pair, device, identifier| device.post(pair, identifier, 2, 1)),
            Box::new(|pair, device, identifier| device.post(pair, identifier, 4, 1)),
            Box::new(|pair, device, identifier| device.post(pair, identifier, 0xffff, 1)),
        ];
        for case in cases {
            let (mut pair, mut device) = (pair(3), Device::new());
            pair.submit(Command::flush(1), 5).unwrap();
            let identifier = device.fetch(&pair).identifier();
            case(&pair, &mut device, identifier);
            assert!(pair.next().is_err());
            assert_eq!((pair.take_any(), pair.take_any()), (Some(5), None));
        }
    }

    #[test]
    fn a_completion_counts_once() {
        let (mut pair, mut device) = (pair(3), Device::new());
        pair.submit(Command::flush(1), 5).unwrap();
        let identifier = device.fetch(&pair).identifier();
        device.post(&pair, identifier, 1, 1);
        device.post(&pair, identifier, 1, 1);
        assert_eq!(pair.next().unwrap().unwrap().1, 5);
        // Even if its number is in use again.
        pair.submit(Command::flush(1), 6).unwrap();
        assert_eq!(pair.next().unwrap_err(), Violation::Command(identifier));
        pair.take_any();
        pair.reset();
        assert!(pair.next().unwrap().is_none());
    }
}
