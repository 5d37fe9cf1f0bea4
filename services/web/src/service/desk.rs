//! [`Desk`]: where connections ask for pieces of a library's objects, how many each peer may have at once, and which are kept.

use super::flat_range::{Come, Hold};
use crate::config::Caching;
use crate::content::{FlatObject, Library, LibraryError, LibraryEvent, PIECE_BYTES, Shelf};
use qanat::stack::{Peer, PeerCounts};
use qanat::{Block, ConnectionId, Event, FilledBlock, StorageCommands};
use qanat_store::{ReadCache, ReadCacheFigures};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
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
#[derive(Debug)]
struct Reading {
    connection: ConnectionId,
    object: FlatObject,
    piece: u64,
    /// Others that asked for it meanwhile, if it is to be kept.
    more: Vec<ConnectionId>,
}

/// A piece that has come, or can't.
#[derive(Debug)]
pub struct Arrived {
    pub connection: ConnectionId,
    pub piece: u64,
    pub result: Result<Come, LibraryError>,
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
    /// Pieces that are kept for who asks next, and the tokens of those that will be.
    cache: Option<ReadCache<(FlatObject, u64), FilledBlock>>,
    awaited: HashMap<(FlatObject, u64), usize>,
    arrived: VecDeque<Arrived>,
    /// Pieces that were read, and their bytes.
    read: (u64, u64),
}

impl Desk {
    /// `pieces_max`: pieces in memory at once, those on their way from the disk and to peers; those that are kept come on top.
    pub fn new(library: Box<dyn Library>, pieces_max: usize, caching: &Caching) -> Desk {
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
            cache: caching.cache(PIECE_BYTES as usize),
            awaited: HashMap::new(),
            arrived: VecDeque::new(),
            read: (0, 0),
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

    /// A piece that is kept.
    pub fn kept(&mut self, object: FlatObject, piece: u64) -> Option<Come> {
        self.cache.as_mut()?.get(&(object, piece)).cloned().map(Come::Kept)
    }

    /// Asks for a piece at the end of the turn.
    pub fn ask(&mut self, connection: ConnectionId, object: FlatObject, piece: u64) {
        let awaited = self.awaited.get(&(object, piece)).and_then(|token| self.readings.get_mut(*token));
        if let Some(reading) = awaited.and_then(Option::as_mut) {
            return reading.more.push(connection);
        }
        let reading = Some(Reading { connection, object, piece, more: Vec::new() });
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
        if self.cache.is_some() {
            self.awaited.insert((object, piece), token);
        }
        self.wanted.push_back(token);
    }

    /// Asks the library for what is wanted; returns what can't be had.
    pub fn submit(&mut self, storage: &mut dyn StorageCommands) -> Option<Arrived> {
        // Those that the library was asked for are all but the wanted ones.
        while self.readings.len() - self.free_tokens.len() - self.wanted.len() < READINGS_MAX
            && let Some(token) = self.wanted.pop_front()
        {
            let Some(Reading { object, piece, .. }) = self.readings.get(token).and_then(Option::as_ref) else {
                continue;
            };
            if let Err(error) = self.library.read(*object, *piece, token as u64, storage) {
                self.ended(token as u64, Err(error));
            }
        }
        for object in self.released.take() {
            self.library.release(object);
        }
        self.arrived.pop_front()
    }

    /// What the library has to say that concerns a connection; `None`: nothing before its next event.
    pub fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<Arrived> {
        while self.arrived.is_empty()
            && let Some(event) = self.library.next(storage)
        {
            match event {
                LibraryEvent::Open => self.state = LibraryState::Open,
                LibraryEvent::Failed(error) => {
                    self.state = LibraryState::Failed;
                    self.note(&error);
                }
                LibraryEvent::Read { token, result } => self.ended(token, result),
            }
        }
        self.arrived.pop_front()
    }

    /// A reading has ended: all who wait for it are told. If it failed, each reads for itself.
    fn ended(&mut self, token: u64, result: Result<Block, LibraryError>) {
        let place = usize::try_from(token).ok().and_then(|token| Some((token, self.readings.get_mut(token)?.take()?)));
        let Some((token, Reading { connection, object, piece, more })) = place else { return };
        self.free_tokens.push(token);
        if self.cache.is_some() {
            self.awaited.remove(&(object, piece));
        }
        let block = match (result, &mut self.cache) {
            (Ok(block), None) => {
                self.note_read(block.len());
                return self.arrived.push_back(Arrived { connection, piece, result: Ok(Come::Alone(block)) });
            }
            (Ok(block), Some(cache)) => {
                let block = block.filled();
                cache.insert((object, piece), block.clone());
                block
            }
            (Err(error), _) => {
                self.arrived.push_back(Arrived { connection, piece, result: Err(error) });
                return more.into_iter().for_each(|waiter| self.ask(waiter, object, piece));
            }
        };
        self.note_read(block.bytes().len());
        for connection in std::iter::once(connection).chain(more) {
            self.arrived.push_back(Arrived { connection, piece, result: Ok(Come::Kept(block.clone())) });
        }
    }

    fn note_read(&mut self, bytes: usize) {
        let (pieces, all_bytes) = self.read;
        self.read = (pieces + 1, all_bytes + bytes as u64);
    }

    /// Pieces that were read so far, and their bytes.
    pub fn read(&self) -> (u64, u64) {
        self.read
    }

    pub fn cache_figures(&self) -> ReadCacheFigures {
        self.cache.as_ref().map(ReadCache::figures).unwrap_or_default()
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
