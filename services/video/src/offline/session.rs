//! [`Session`]: the store of an area, and the disk it is on, driven by whoever waits for it.

use crate::name::NameError;
use qanat::{AreaId, Block, Storage, StorageCommands};
use qanat_store::{ObjectEvent, ObjectId, ObjectInfo, Objects, Options, PIECE_BYTES, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// The disk is looked at again after so long if it says nothing.
const PATIENCE: Duration = Duration::from_millis(100);
/// Nothing is under way, and the store says nothing: it waits for what never comes.
const STUCK: &str = "the store waits, and nothing of the disk is under way";
const AREA: AreaId = AreaId::new(0, 0);

/// Why films can't be changed or looked at.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The store.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// A film of that name is there.
    #[error("there is a film {0:?} already: remove it first, or give another --name")]
    Exists(String),
    /// No film of that name is there.
    #[error("there is no film {0:?}; `list` shows which there are")]
    Missing(String),
    /// A file to be added.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It was told to stop.
    #[error("stopped: nothing was added")]
    Stopped,
    /// A folder to be added has no files.
    #[error("{}: there are no files in it", .0.display())]
    NoFiles(PathBuf),
}

/// See the module.
pub struct Session {
    storage: Storage,
    pub(super) objects: Objects,
    /// What has come of reads, by token.
    came: BTreeMap<u64, Result<Block, StoreError>>,
    /// Objects whose end was told.
    stored: BTreeSet<ObjectId>,
    failed: BTreeMap<ObjectId, StoreError>,
    removed: usize,
    is_open: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

impl Session {
    /// Opens the films of an area to read them.
    ///
    /// # Errors
    /// [`OfflineError::Store`].
    pub fn open(storage: Storage) -> Result<Session, OfflineError> {
        Session::open_with(storage, Options::default().read_only())
    }

    /// Opens them to be changed. If the area is empty, a store is made; `identity`: 16 random bytes.
    ///
    /// # Errors
    /// [`OfflineError::Store`].
    pub fn open_to_change(storage: Storage, identity: [u8; 16]) -> Result<Session, OfflineError> {
        Session::open_with(storage, Options::default().make_if_empty(identity))
    }

    fn open_with(mut storage: Storage, options: Options) -> Result<Session, OfflineError> {
        let objects = Objects::open(AREA, options, &mut storage)?;
        let (came, stored, failed) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let mut session = Session { storage, objects, came, stored, failed, removed: 0, is_open: false };
        session.hear()?;
        while !session.is_open {
            session.wait()?;
        }
        Ok(session)
    }

    /// Hears what the store has to say.
    fn hear(&mut self) -> Result<(), StoreError> {
        while let Some(event) = self.objects.next(&mut self.storage) {
            match event {
                ObjectEvent::Recovered { .. } => self.is_open = true,
                ObjectEvent::Stored { object } => drop(self.stored.insert(object)),
                ObjectEvent::NotStored { object, error } => drop(self.failed.insert(object, error)),
                ObjectEvent::Removed { .. } => self.removed += 1,
                ObjectEvent::Read { token, result } => drop(self.came.insert(token, result)),
                ObjectEvent::Failed(error) => return Err(error),
                ObjectEvent::Written { .. } => {}
            }
        }
        Ok(())
    }

    /// Lets the disk go on, and hears what came of it.
    pub(super) fn wait(&mut self) -> Result<(), StoreError> {
        let Session { storage, objects, .. } = self;
        let is_busy = storage.is_busy();
        let took = storage.turn(PATIENCE, |event, storage| drop(objects.handle(event, storage)));
        if !took && !is_busy {
            return Err(StoreError::Contradiction { place: 0, what: STUCK });
        }
        self.hear()
    }

    /// Makes an object, to be [written](Session::write).
    pub(super) fn create(&mut self, name: &[u8], bytes: u64) -> Result<ObjectId, StoreError> {
        self.objects.create(name, bytes)
    }

    /// Memory for a piece.
    pub(super) fn block(&mut self) -> Result<Block, StoreError> {
        loop {
            match self.storage.area_block(AREA) {
                Ok(block) => return Ok(block),
                Err(_) => self.wait()?,
            }
        }
    }

    /// Writes the next piece of an object.
    pub(super) fn write(&mut self, object: ObjectId, mut block: Block) -> Result<(), StoreError> {
        loop {
            match self.objects.write(object, block, &mut self.storage) {
                Ok(()) => return Ok(()),
                Err((StoreError::Busy { .. }, back)) => block = back,
                Err((error, _)) => return Err(error),
            }
            self.wait()?;
        }
    }

    /// Waits until at most `most` of these objects are not durable; the others go from the list.
    pub(super) fn wait_for(&mut self, objects: &mut Vec<ObjectId>, most: usize) -> Result<(), StoreError> {
        loop {
            if let Some((_, error)) = self.failed.pop_first() {
                return Err(error);
            }
            let stored = &mut self.stored;
            objects.retain(|object| !stored.remove(object));
            if objects.len() <= most {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Gives up an object that is being written.
    pub(super) fn give_up(&mut self, object: ObjectId) {
        // Refused only if it is durable, or nearly: then it is removed by its name.
        let _ = self.objects.give_up(object, &mut self.storage);
    }

    /// Removes objects, and waits until they are gone for good.
    pub(super) fn remove(&mut self, names: &[Vec<u8>]) -> Result<(), StoreError> {
        self.removed = 0;
        for name in names {
            loop {
                match self.objects.remove(name, &mut self.storage) {
                    Ok(()) => break,
                    // After a checkpoint there is room.
                    Err(StoreError::Busy { .. } | StoreError::Full { .. }) => self.wait()?,
                    Err(error) => return Err(error),
                }
            }
        }
        while self.removed < names.len() {
            self.wait()?;
        }
        Ok(())
    }

    /// Reads all pieces of an object, some at the same time, in order. `take`: has each, or why it can't be read, and whether to go on.
    pub(super) fn read(
        &mut self,
        name: &[u8],
        mut take: impl FnMut(u64, Result<Block, StoreError>) -> bool,
    ) -> Result<(), StoreError> {
        const AT_ONCE: u64 = 32;
        let ObjectInfo { id, bytes } = self.objects.hold(name)?;
        let pieces = bytes.div_ceil(PIECE_BYTES);
        let (mut asked, mut next, mut is_wanted) = (0, 0, true);
        while next < asked || is_wanted && next < pieces {
            while is_wanted && asked < pieces && asked - next < AT_ONCE {
                self.objects.read(id, asked, asked, &mut self.storage)?;
                asked += 1;
            }
            match self.came.remove(&next) {
                Some(result) => {
                    is_wanted = is_wanted && take(next, result);
                    next += 1;
                }
                None => {
                    // What is in memory already is told without the disk.
                    self.hear()?;
                    if !self.came.contains_key(&next) {
                        self.wait()?;
                    }
                }
            }
        }
        self.objects.release(id);
        Ok(())
    }
}
