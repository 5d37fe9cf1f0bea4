//! [`Library`]: content that lies on a storage area instead of in files, as immutable objects. They are not held in memory: each piece is
//! read when its peer can take it (Atlas; thesis, chapter 4).

use super::flat::FlatObject;
use super::resource::Variant;
use qanat::{Block, Event, StorageCommands};
use std::rc::Rc;

/// What a library has at a path.
#[derive(Debug)]
pub enum Shelf {
    /// Nothing.
    Empty,
    /// More below it: the path with a slash is meant.
    Directory,
    /// This.
    Holds(Rc<Variant>),
}

/// Why a library, or something of it, can't be read.
#[derive(Debug, thiserror::Error)]
#[error("the library: {0}")]
pub struct LibraryError(Box<dyn std::error::Error + Send + Sync>);

impl LibraryError {
    /// For this reason.
    pub fn of(error: impl std::error::Error + Send + Sync + 'static) -> LibraryError {
        LibraryError(Box::new(error))
    }
}

/// What a library tells.
#[derive(Debug)]
pub enum LibraryEvent {
    /// It is open: what it has can be found.
    Open,
    /// What [`Library::read`] asked for.
    Read {
        /// The token that was given.
        token: u64,
        /// The piece, checked; else why it can't be had, for the operator.
        result: Result<Block, LibraryError>,
    },
    /// It can't go on: nothing more of it is read. This comes once.
    Failed(LibraryError),
}

/// Content on a storage area, which is the library's alone. Its methods are called by the service's thread and do not block.
pub trait Library: std::fmt::Debug {
    /// Begins to open it. [`LibraryEvent::Open`] or [`LibraryEvent::Failed`] follows.
    ///
    /// # Errors
    /// Why that can't even begin, for the operator.
    fn open(&mut self, storage: &mut dyn StorageCommands) -> Result<(), LibraryError>;

    /// Takes an event of its area. Gives back any other.
    fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event>;

    /// What it tells next. `None`: nothing before the next event. It is asked again whenever memory of the area may have come back.
    fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<LibraryEvent>;

    /// What is at a path: relative, normalised; one of a directory ends with a slash, or is empty.
    fn find(&mut self, path: &[u8]) -> Shelf;

    /// Keeps the room of an object from others until it is [released](Library::release); false: there is no such object any more.
    fn hold(&mut self, object: FlatObject) -> bool;

    /// Gives up one hold.
    fn release(&mut self, object: FlatObject);

    /// Reads a piece of an object that is held, the one from byte `piece` times [`PIECE_BYTES`](super::PIECE_BYTES) on. [`LibraryEvent::Read`] follows.
    ///
    /// # Errors
    /// Why not, for the operator.
    fn read(
        &mut self,
        object: FlatObject,
        piece: u64,
        token: u64,
        storage: &mut dyn StorageCommands,
    ) -> Result<(), LibraryError>;
}
