//! [`Desk`]: where connections ask for pieces of a library's objects, and how many each peer may have at once.

use super::flat_range::Hold;
use crate::content::{FlatObject, Library, LibraryError, LibraryEvent, Shelf};
use qanat::stack::{Peer, PeerCounts};
use qanat::{Block, ConnectionId, Event, StorageCommands};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Pieces that a library is asked for at once, at most.
const READINGS_MAX: usize = 2_048;
/// What the operator is told of errors, at most, until it was read.
const NOTES_MAX: usize = 16;

/// Where a library is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LibraryState {
    Opening,
    Open,
    Failed,
}

/// A piece that was asked for.
#[derive(Clone, Copy, Debug)]
struct Reading {
    connection: ConnectionId,
    object: FlatObject,
    piece: u64,
}

/// A piece that has come, or can't.
#[derive(Debug)]
pub struct Arrived {
    pub connection: ConnectionId,
    pub piece: u64,
    pub result: Result<Block, LibraryError>,
}

/// See the module.
#[derive(Debug)]
pub struct Desk {
    library: Box<dyn Library>,
    state: LibraryState,
    /// By token, until the piece has come.
    readings: Vec<Option<Reading>>,
    free_tokens: Vec<usize>,
    /// Tokens of pieces that the library was not asked for yet.
    wanted: VecDeque<usize>,
    released: Rc<RefCell<Vec<FlatObject>>>,
    /// Pieces that peers have: asked for, or not acknowledged.
    held: PeerCounts,
    held_count: usize,
    pieces_max: usize,
    notes: Vec<String>,
    /// They asked before the library was open.
    waiting: Vec<ConnectionId>,
}

impl Desk {
    /// `pieces_max`: pieces in memory at once, those on their way from the disk and to peers.
    pub fn new(library: Box<dyn Library>, pieces_max: usize) -> Desk {
        Desk {
            library,
            state: LibraryState::Opening,
            readings: Vec::new(),
            free_tokens: Vec::new(),
            wanted: VecDeque::new(),
            released: Rc::default(),
            held: PeerCounts::default(),
            held_count: 0,
            pieces_max,
            notes: Vec::new(),
            waiting: Vec::new(),
        }
    }

    pub fn state(&self) -> LibraryState {
        self.state
    }

    /// Objects that are being sent, once for each range.
    pub fn streams(&self) -> usize {
        Rc::strong_count(&self.released) - 1
    }

    /// Pieces in memory, or asked for.
    pub fn held_count(&self) -> usize {
        self.held_count
    }

    /// Whether more than half of them are.
    pub fn is_scarce(&self) -> bool {
        self.held_count * 2 > self.pieces_max
    }

    /// Whether a peer may have one more: it may have as many as are left for all others (as of [windows](crate::content::window)).
    pub fn has_room(&self, peer: Peer) -> bool {
        (self.held.of(peer) as usize) < self.pieces_max.saturating_sub(self.held_count)
    }

    /// Whether there is one at all.
    pub fn has_any(&self) -> bool {
        self.held_count < self.pieces_max
    }

    /// A peer has one more.
    pub fn took(&mut self, peer: Peer) {
        self.held.add(peer);
        self.held_count += 1;
    }

    /// A peer has so many fewer.
    pub fn gave_back(&mut self, peer: Peer, count: u32) {
        (0..count).for_each(|_| self.held.remove(peer));
        self.held_count = self.held_count.saturating_sub(count as usize);
    }

    /// Begins to open the library.
    pub fn open(&mut self, storage: &mut dyn StorageCommands) -> Result<(), LibraryError> {
        self.library.open(storage)
    }

    /// Takes an event of the library's area. Gives back any other.
    pub fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event> {
        self.library.handle(event, storage)
    }

    /// A connection asked too early. Each waits once, as it asks for nothing else meanwhile.
    pub fn wait(&mut self, connection: ConnectionId) {
        self.waiting.push(connection);
    }

    /// Those that waited, if it is known by now what becomes of the library.
    pub fn take_waiting(&mut self) -> Vec<ConnectionId> {
        if self.state == LibraryState::Opening { Vec::new() } else { std::mem::take(&mut self.waiting) }
    }

    /// What is at a path.
    pub fn find(&mut self, path: &[u8]) -> Shelf {
        self.library.find(path)
    }

    /// Holds an object; `None`: it is gone.
    pub fn hold(&mut self, object: FlatObject) -> Option<Hold> {
        self.library.hold(object).then(|| Hold { object, released: Rc::clone(&self.released) })
    }

    /// Asks for a piece at the end of the turn.
    pub fn ask(&mut self, connection: ConnectionId, object: FlatObject, piece: u64) {
        let reading = Some(Reading { connection, object, piece });
        let token = match self.free_tokens.pop() {
            Some(token) => token,
            None => {
                self.readings.push(None);
                self.readings.len() - 1
            }
        };
        if let Some(place) = self.readings.get_mut(token) {
            *place = reading;
        }
        self.wanted.push_back(token);
    }

    /// Asks the library for what is wanted; returns what can't be had.
    pub fn submit(&mut self, storage: &mut dyn StorageCommands) -> Option<Arrived> {
        // Those that the library was asked for are all but the wanted ones.
        while self.readings.len() - self.free_tokens.len() - self.wanted.len() < READINGS_MAX
            && let Some(token) = self.wanted.pop_front()
        {
            let Some(reading) = self.readings.get(token).copied().flatten() else { continue };
            if let Err(error) = self.library.read(reading.object, reading.piece, token as u64, storage) {
                return self.ended(token as u64, Err(error));
            }
        }
        for object in self.released.take() {
            self.library.release(object);
        }
        None
    }

    /// What the library has to say that concerns a connection; `None`: nothing before its next event.
    pub fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<Arrived> {
        while let Some(event) = self.library.next(storage) {
            match event {
                LibraryEvent::Open => self.state = LibraryState::Open,
                LibraryEvent::Failed(error) => {
                    self.state = LibraryState::Failed;
                    self.note(&error);
                }
                LibraryEvent::Read { token, result } => {
                    let arrived = self.ended(token, result);
                    if arrived.is_some() {
                        return arrived;
                    }
                }
            }
        }
        None
    }

    fn ended(&mut self, token: u64, result: Result<Block, LibraryError>) -> Option<Arrived> {
        let token = usize::try_from(token).ok()?;
        let Reading { connection, piece, .. } = self.readings.get_mut(token)?.take()?;
        self.free_tokens.push(token);
        Some(Arrived { connection, piece, result })
    }

    /// The operator is to know of this.
    pub fn note(&mut self, error: &LibraryError) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(error.to_string());
        }
    }

    /// What the operator is to know, since it was asked last.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}
