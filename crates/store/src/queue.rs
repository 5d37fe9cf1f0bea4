//! [`Queue`]: a durable queue, first in, first out, on a log.
//!
//! A record of the log is an element (a byte 1, then its bytes) or a list of elements that were acknowledged (a byte 2, then their positions,
//! 8 bytes each). Elements are read from the log when it is their turn; in memory there are their positions only.

use crate::chain::frame::RecordKind;
use crate::codec::u64_at;
use crate::error::StoreError;
use crate::kind::Kind;
use crate::layout::BASE_RESERVE_BYTES;
use crate::log::Log;
use crate::options::Options;
use crate::position::Position;
use crate::told::{Recovered, Told};
use qanat_api::{AreaId, Event, StorageCommands};
use std::collections::VecDeque;

/// What a record begins with.
const ELEMENT: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
/// Acknowledgements of one record, at most.
const ACKNOWLEDGED_MAX: usize = 4_096;
/// Elements that a queue has at most: 24 bytes each in memory.
const ELEMENTS_MAX: usize = 4 << 20;

/// What became of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    /// It was popped, or is being read for that.
    Given,
    Acknowledged,
}

#[derive(Clone, Copy, Debug)]
struct Element {
    position: Position,
    state: State,
}

/// What a queue tells.
#[derive(Debug)]
pub enum QueueEvent<'a> {
    /// The queue is there, with so many elements to be popped: those not acknowledged before, in order.
    Recovered {
        /// Elements.
        elements: usize,
        /// What its log was found to be.
        log: Recovered,
    },
    /// All elements before this are durable, and may be popped.
    Pushed {
        /// The first one that is not.
        before: Position,
    },
    /// What [`Queue::pop`] asked for.
    Popped {
        /// Which element.
        id: Position,
        /// What was pushed. An element that can't be read stays until it is acknowledged.
        result: Result<&'a [u8], StoreError>,
    },
    /// So many more acknowledgements are durable: those elements never come again.
    Acknowledged {
        /// How many.
        count: usize,
    },
    /// The queue can't go on. Nothing more is acknowledged; it is to be opened again. This comes once.
    Failed(StoreError),
}

/// A durable queue on a storage area, which is its alone.
///
/// It is opened and fed with events as a [`Log`]. An element that was pushed is popped once it is durable, in the order of pushes. It is the
/// caller's until it is [acknowledged](Queue::acknowledge) or [given back](Queue::give_back). What was popped and not acknowledged when
/// the process ends comes again at the next opening. Room is given up from the oldest element on that is not acknowledged.
#[derive(Debug)]
pub struct Queue {
    log: Log,
    elements: VecDeque<Element>,
    /// No element before this index waits.
    next: usize,
    /// Acknowledged, and not in the log yet.
    acknowledged: Vec<Position>,
    /// In the log and not durable yet: the record, and how many.
    acknowledging: VecDeque<(Position, usize)>,
    is_truncating: bool,
}

impl Queue {
    /// Opens the queue in an area, of which nothing may be under way.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open(area: AreaId, options: Options, storage: &mut dyn StorageCommands) -> Result<Queue, StoreError> {
        Ok(Queue {
            log: Log::open_kind(Kind::Queue, area, options, storage)?,
            elements: VecDeque::new(),
            next: 0,
            acknowledged: Vec::new(),
            acknowledging: VecDeque::new(),
            is_truncating: false,
        })
    }

    /// Its log, for figures.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Elements that are not acknowledged.
    pub fn len(&self) -> usize {
        self.elements.iter().filter(|element| element.state != State::Acknowledged).count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes an event of the area. Gives back one that is not this queue's.
    pub fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event> {
        self.log.handle(event, storage)
    }

    /// What the queue has to say next; `None`: nothing before the next event of the area.
    // It lends, so it is no iterator.
    #[allow(clippy::should_implement_trait, reason = "see above")]
    pub fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<QueueEvent<'_>> {
        let (id, result) = loop {
            match self.log.tell(storage)? {
                Told::Record(position, kind) => {
                    if !self.note(position, kind) {
                        let place = self.log.place(position);
                        self.log.fail(StoreError::Contradiction { place, what: "a record of the queue can't be read" });
                    }
                }
                Told::Whole => {}
                Told::Recovered(log) => {
                    self.trim(storage);
                    return Some(QueueEvent::Recovered { elements: self.len(), log });
                }
                Told::Durable => {
                    let before = self.log.durable();
                    let first = self.acknowledging.front().copied().filter(|(position, _)| *position < before);
                    return Some(match first {
                        Some((_, count)) => {
                            self.acknowledging.pop_front();
                            // The rest is told of the next time.
                            self.log.tell_again(Told::Durable);
                            QueueEvent::Acknowledged { count }
                        }
                        None => QueueEvent::Pushed { before },
                    });
                }
                Told::Truncated(_) | Told::Checkpointed(_) => {
                    self.is_truncating = false;
                    self.trim(storage);
                }
                Told::Fetched(id, result) => break (Position::from_number(id), result),
                Told::Failed(error) => return Some(QueueEvent::Failed(error)),
            }
        };
        Some(QueueEvent::Popped { id, result: result.map(|()| self.log.bytes_told().get(1..).unwrap_or_default()) })
    }

    /// Takes a record that was recovered; whether it is one of a queue.
    fn note(&mut self, position: Position, kind: RecordKind) -> bool {
        let bytes = self.log.bytes_told();
        match bytes.split_first() {
            Some((&ELEMENT, _)) if kind == RecordKind::Data && self.elements.len() < ELEMENTS_MAX => {
                self.elements.push_back(Element { position, state: State::Waiting });
                true
            }
            Some((&ACKNOWLEDGED, ids)) if kind == RecordKind::Data && ids.len().is_multiple_of(8) => {
                for id in (0..ids.len() / 8).filter_map(|index| u64_at(ids, 8 * index)) {
                    // Those that the log does not begin with any more were acknowledged, too.
                    let found = self.elements.binary_search_by_key(&Position::from_number(id), |it| it.position);
                    if let Some(element) = found.ok().and_then(|index| self.elements.get_mut(index)) {
                        element.state = State::Acknowledged;
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// Forgets what is acknowledged at the front, and gives up its room in the log now and then.
    fn trim(&mut self, storage: &mut dyn StorageCommands) {
        while self.elements.front().is_some_and(|element| element.state == State::Acknowledged) {
            self.elements.pop_front();
            self.next = self.next.saturating_sub(1);
        }
        let target =
            self.elements.front().map_or(self.log.durable(), |element| element.position).min(self.log.durable());
        let (start, (used, all)) = (self.log.start(), self.log.bytes());
        let gain = target.frame().saturating_sub(start.frame());
        if !self.is_truncating && used > all / 4 && gain >= all / 8 {
            self.is_truncating = self.log.truncate(target, storage).is_ok();
        }
    }

    /// Appends an element. It is written by the next [`commit`](Queue::commit).
    ///
    /// # Errors
    /// As [`Log::append`]; [`StoreError::Crowded`].
    pub fn push(&mut self, pieces: &[&[u8]], storage: &mut dyn StorageCommands) -> Result<Position, StoreError> {
        if self.elements.len() >= ELEMENTS_MAX {
            return Err(StoreError::Crowded { most: ELEMENTS_MAX });
        }
        let all: Vec<&[u8]> = [[ELEMENT].as_slice()].into_iter().chain(pieces.iter().copied()).collect();
        // Acknowledgements find room even if elements don't.
        let reserve = BASE_RESERVE_BYTES + self.log.bytes().1 / 8;
        let position = self.log.append_leaving(reserve, &all, storage)?;
        self.elements.push_back(Element { position, state: State::Waiting });
        Ok(position)
    }

    /// Asks for the next element that is durable and that nobody has: [`QueueEvent::Popped`] follows. Returns whether there is one.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn pop(&mut self, storage: &mut dyn StorageCommands) -> Result<bool, StoreError> {
        let waits = |element: &Element| element.state == State::Waiting;
        while self.elements.get(self.next).is_some_and(|element| !waits(element)) {
            self.next += 1;
        }
        let durable = self.log.durable();
        let Some(element) = self.elements.get_mut(self.next).filter(|element| element.position < durable) else {
            return Ok(false);
        };
        self.log.read(element.position, element.position.to_number(), storage)?;
        element.state = State::Given;
        Ok(true)
    }

    fn given(&mut self, id: Position) -> Result<(usize, &mut Element), StoreError> {
        let index =
            self.elements.binary_search_by_key(&id, |element| element.position).map_err(|_| StoreError::None)?;
        let element = self.elements.get_mut(index).filter(|element| element.state == State::Given);
        element.map(|element| (index, element)).ok_or(StoreError::None)
    }

    /// An element that was popped is done with. That is written by the next [`commit`](Queue::commit);
    /// [`QueueEvent::Acknowledged`] follows.
    ///
    /// # Errors
    /// [`StoreError::None`] if nobody has such an element.
    pub fn acknowledge(&mut self, id: Position) -> Result<(), StoreError> {
        self.given(id)?.1.state = State::Acknowledged;
        self.acknowledged.push(id);
        Ok(())
    }

    /// An element that was popped is to be popped again, before those behind it.
    ///
    /// # Errors
    /// [`StoreError::None`] if nobody has such an element.
    pub fn give_back(&mut self, id: Position) -> Result<(), StoreError> {
        let (index, element) = self.given(id)?;
        element.state = State::Waiting;
        self.next = self.next.min(index);
        Ok(())
    }

    /// What was pushed and acknowledged goes to the disk, as [`Log::commit`] has it. Acknowledgements for which there is no room now go with a
    /// later commit.
    pub fn commit(&mut self, storage: &mut dyn StorageCommands) {
        while !self.acknowledged.is_empty() {
            let count = self.acknowledged.len().min(ACKNOWLEDGED_MAX);
            let ids = self.acknowledged.iter().take(count).flat_map(|id| id.to_number().to_le_bytes());
            let record: Vec<u8> = [ACKNOWLEDGED].into_iter().chain(ids).collect();
            let Ok(position) = self.log.append_leaving(0, &[&record], storage) else { break };
            self.acknowledging.push_back((position, count));
            self.acknowledged.drain(..count);
        }
        self.log.commit(storage);
        self.trim(storage);
    }
}
