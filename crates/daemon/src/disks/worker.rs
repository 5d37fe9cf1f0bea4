//! The thread that has a disk. Whatever waits for the disk waits here, and never in the daemon's loop: the disk is opened, changes of
//! its table are made durable, and new space is zeroed, in steps between changes.

use super::records::{DiskRecord, Records};
use qanat_disk::area::{Area, AreaError, AreaLimits, AreaName, AreaState, Areas, Extent, Owner, Repair};
use qanat_disk::{DiskFile, DiskOptions, Geometry, OpenError, StorageError, Uring, Vsic, make_file};
use qanat_nic::Region;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Zeroed between two looks at what is asked: a change waits so long at most.
const STEP_BYTES: u64 = 8 << 20;
/// Requests of the table's and zeroes under way at once: one after the other.
const DEPTH: u32 = 8;
/// Before a disk that can't be opened is tried again: at first, and at most.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// Orders that wait. The loop gives one after the other.
const ORDERS_MAX: usize = 4;

/// How a disk is had.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// It is new: prepared if it is empty, made with so many bytes if that is said, and written down.
    pub(super) is_new: bool,
    pub(super) size: Option<u64>,
}

/// An area, as the loop knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AreaEntry {
    pub(crate) id: u64,
    pub(crate) name: AreaName,
    pub(crate) owner: Owner,
    pub(crate) limits: AreaLimits,
    pub(crate) is_doomed: bool,
    pub(crate) bytes: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) extents: Vec<Extent>,
    /// Why zeroing it has stopped.
    pub(crate) fault: Option<String>,
}

/// A disk that was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) geometry: Geometry,
    pub(super) areas: Vec<AreaEntry>,
    pub(super) repairs: Vec<Repair>,
    pub(super) was_prepared: bool,
    /// Another descriptor of the same opening: the disk is ours as long as anybody has one.
    pub(super) file: OwnedFd,
}

/// What the loop wants of a disk.
#[derive(Debug)]
pub(super) enum Order {
    /// A change of its table.
    Change(Change),
    /// Let go of the disk, and forget it.
    Remove,
}

/// A change of the table.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create {
        name: AreaName,
        owner: Owner,
        limits: AreaLimits,
        bytes: u64,
    },
    Grow {
        name: AreaName,
        bytes: u64,
    },
    Limit {
        name: AreaName,
        limits: AreaLimits,
    },
    Delete {
        name: AreaName,
        is_held: bool,
    },
    /// Free the space of a deleted area.
    Release {
        id: u64,
    },
}

/// What is new of a disk.
#[derive(Debug)]
pub(super) enum News {
    /// It is open, or can't be opened.
    Opened(Result<Box<Opened>, DiskError>),
    /// An order has been carried out, or not: the number of its area.
    Done(Result<u64, AreaError>),
    /// This is so from now on: `None`: the area is gone.
    Area { id: u64, entry: Option<Box<AreaEntry>>, free_bytes: u64 },
    /// The disk can't be used any more.
    Failed(AreaError),
    /// The disk has been let go of, and forgotten, unless that failed.
    Removed(io::Result<()>),
}

/// Why a disk can't be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    /// Its file or device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What is on it.
    #[error("{}: {error}", path.display())]
    Areas {
        /// Which.
        path: PathBuf,
        /// What.
        error: AreaError,
    },
    /// It has never been prepared, and it is not now that it is added.
    #[error("{}: the disk has not been prepared, though it was when it was added; is it another one?", path.display())]
    Unprepared {
        /// Which.
        path: PathBuf,
    },
    /// It can't be written down.
    #[error("{}: {error}; the daemon must be able to write there (disk_records in the policy)", directory.display())]
    Record {
        /// Where.
        directory: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Nothing to know it by.
    #[error("random bytes: {0}")]
    Random(io::Error),
}

impl DiskError {
    /// Whether the disk may be had later: somebody has it, or it is not there.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, DiskError::Open(OpenError::Busy { .. } | OpenError::Open { .. }))
    }
}

/// Where news go.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) news: SyncSender<(u32, News)>,
    /// Written after each.
    pub(super) bell: Arc<OwnedFd>,
}

impl Desk {
    /// Whether somebody is there to hear it.
    fn tell(&self, number: u32, news: News) -> bool {
        let told = self.news.send((number, news)).is_ok();
        // A full counter has rung already.
        let rung = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        told && matches!(rung, Ok(_) | Err(Errno::AGAIN))
    }
}

/// Starts the thread of a disk.
pub(super) fn start(opening: Opening, records: Records, desk: Desk) -> io::Result<(SyncSender<Order>, JoinHandle<()>)> {
    let (orders, next) = sync_channel(ORDERS_MAX);
    let work = move || {
        let number = opening.number;
        let Some((areas, opened)) = open_at_last(&opening, &records, &desk, &next) else { return };
        if desk.tell(number, News::Opened(Ok(Box::new(opened)))) {
            Worker { areas, opening, records, desk, faults: BTreeMap::new(), last: 0 }.work(&next);
        }
    };
    let thread = std::thread::Builder::new().name("qanat-disk".to_owned()).spawn(work)?;
    Ok((orders, thread))
}

/// Removes the record of a disk that no thread has, in a thread of its own.
pub(super) fn forget(number: u32, name: String, records: Records, desk: Desk) -> io::Result<JoinHandle<()>> {
    let work = move || {
        desk.tell(number, News::Removed(records.remove(&name)));
    };
    std::thread::Builder::new().name("qanat-disk".to_owned()).spawn(work)
}

/// Opens a disk. One that was added before, and can't be opened now because somebody has it or it is not there, is tried again until it
/// can, or nobody wants it any more: the core of a daemon that died may hold it for a while.
fn open_at_last(
    opening: &Opening,
    records: &Records,
    desk: &Desk,
    orders: &Receiver<Order>,
) -> Option<(Areas<Uring>, Opened)> {
    let (mut pause, mut is_told) = (AGAIN, false);
    loop {
        let error = match open(opening, records) {
            Ok(opened) => return Some(opened),
            Err(error) => error,
        };
        let is_tried_again = !opening.is_new && error.may_pass();
        // Why it fails is told once, and if it fails for good.
        if !std::mem::replace(&mut is_told, true) || !is_tried_again {
            desk.tell(opening.number, News::Opened(Err(error)));
        }
        if !is_tried_again {
            return None;
        }
        match orders.recv_timeout(pause) {
            Ok(Order::Remove) => {
                desk.tell(opening.number, News::Removed(records.remove(&opening.name)));
                return None;
            }
            // Nothing else is asked of a disk that is not open.
            Ok(Order::Change(_)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

fn open(opening: &Opening, records: &Records) -> Result<(Areas<Uring>, Opened), DiskError> {
    let path = &opening.path;
    if opening.is_new
        && let Some(bytes) = opening.size
    {
        make_file(path, bytes, 0o600)?;
    }
    let outcome = open_areas(path, opening.is_new).and_then(|opened| {
        if opening.is_new {
            let written = records.write(&opening.name, &DiskRecord { path: path.clone() });
            written.map_err(|error| DiskError::Record { directory: records.directory().to_owned(), error })?;
        }
        Ok(opened)
    });
    if outcome.is_err() && opening.is_new && opening.size.is_some() {
        // The file was made just now, and is of no use to anybody.
        let _ = std::fs::remove_file(path);
    }
    let Had { mut areas, repairs, was_prepared, file } = outcome?;
    let opened = Opened {
        bytes: areas.disk_bytes(),
        free_bytes: areas.free_bytes(),
        geometry: areas.disk().geometry(),
        areas: areas.iter().map(|area| entry(area, None)).collect(),
        repairs,
        was_prepared,
        file,
    };
    Ok((areas, opened))
}

/// A disk that is ours.
struct Had {
    areas: Areas<Uring>,
    repairs: Vec<Repair>,
    was_prepared: bool,
    file: OwnedFd,
}

/// Opens a disk; prepares it if it is empty and may be prepared.
fn open_areas(path: &Path, may_prepare: bool) -> Result<Had, DiskError> {
    let failed = |error| DiskError::Areas { path: path.to_owned(), error };
    let device = || -> Result<(Uring, Rc<Region>, OwnedFd), DiskError> {
        let memory = Areas::<Uring>::memory().map_err(failed)?;
        let file = DiskFile::open(path, DiskOptions { depth: DEPTH, ..DiskOptions::default() })?;
        let copy = file.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|error| OpenError::Open { path: path.to_owned(), error })?;
        Ok((Uring::over(file, std::slice::from_ref(&memory))?, memory, copy))
    };
    let (disk, memory, file) = device()?;
    match Areas::open(disk, &memory) {
        Ok((areas, repairs)) => Ok(Had { areas, repairs, was_prepared: false, file }),
        Err(AreaError::Unprepared) if may_prepare => {
            drop(file);
            let (disk, memory, file) = device()?;
            let areas = Areas::prepare(disk, &memory, identity()?).map_err(failed)?;
            Ok(Had { areas, repairs: Vec::new(), was_prepared: true, file })
        }
        Err(AreaError::Unprepared) => Err(DiskError::Unprepared { path: path.to_owned() }),
        Err(error) => Err(failed(error)),
    }
}

/// What a new disk is known by.
fn identity() -> Result<[u8; 16], DiskError> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(DiskError::Random)
}

fn entry(area: &Area, fault: Option<String>) -> AreaEntry {
    AreaEntry {
        id: area.id(),
        name: area.name().clone(),
        owner: area.owner(),
        limits: area.limits(),
        is_doomed: area.state() == AreaState::Doomed,
        bytes: area.bytes(),
        reserved_bytes: area.reserved_bytes(),
        extents: area.extents().to_vec(),
        fault,
    }
}

struct Worker {
    areas: Areas<Uring>,
    opening: Opening,
    records: Records,
    desk: Desk,
    /// Areas that could not be zeroed further.
    faults: BTreeMap<u64, String>,
    /// The area that was zeroed last: others have their turn.
    last: u64,
}

impl Worker {
    /// Until nobody gives orders any more, or the disk has failed.
    fn work(mut self, orders: &Receiver<Order>) {
        loop {
            let unready = self.next_unready();
            let order = match unready {
                Some(_) => orders.try_recv(),
                None => orders.recv().map_err(|_| TryRecvError::Disconnected),
            };
            let goes_on = match (order, unready) {
                (Ok(Order::Remove), _) => return self.remove(),
                (Ok(Order::Change(change)), _) => self.carry_out(change),
                (Err(TryRecvError::Empty), Some(id)) => self.zero(id),
                (Err(_), _) => return,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// An area that is not zeroed yet; after the last one, so that all have their turn.
    fn next_unready(&self) -> Option<u64> {
        let is_unready = |area: &&Area| {
            let is_whole = area.bytes() == area.reserved_bytes();
            !is_whole && area.state() == AreaState::Ready && !self.faults.contains_key(&area.id())
        };
        let ids = || self.areas.iter().filter(is_unready).map(Area::id);
        ids().find(|id| *id > self.last).or_else(|| ids().next())
    }

    fn zero(&mut self, id: u64) -> bool {
        self.last = id;
        match self.areas.zero_some(id, STEP_BYTES) {
            Ok(_) => self.tell_of(id),
            // Blocks that can't be written are this area's affair; it is tried again when it grows, and when the disk is opened.
            Err(error @ AreaError::Device { error: StorageError::Medium | StorageError::NoRoom, .. })
                if self.areas.failure().is_none() =>
            {
                self.faults.insert(id, error.to_string());
                self.tell_of(id)
            }
            Err(error) => self.fail(error),
        }
    }

    fn carry_out(&mut self, change: Change) -> bool {
        let outcome = self.perform(change);
        if let Ok(id) = &outcome
            && !self.tell_of(*id)
        {
            return false;
        }
        let told = self.desk.tell(self.opening.number, News::Done(outcome));
        match self.areas.failure() {
            Some(error) => self.fail(AreaError::Failed { error }),
            None => told,
        }
    }

    fn perform(&mut self, change: Change) -> Result<u64, AreaError> {
        match change {
            Change::Create { name, owner, limits, bytes } => self.areas.create_limited(name, owner, limits, bytes),
            Change::Grow { name, bytes } => {
                let id = self.areas.get(&name)?.id();
                self.areas.grow(&name, bytes)?;
                self.faults.remove(&id);
                Ok(id)
            }
            Change::Limit { name, limits } => {
                self.areas.set_limits(&name, limits)?;
                Ok(self.areas.get(&name)?.id())
            }
            Change::Delete { name, is_held } => {
                let id = self.areas.delete(&name)?;
                if !is_held {
                    self.areas.release(id)?;
                }
                Ok(id)
            }
            Change::Release { id } => self.areas.release(id).map(|()| id),
        }
    }

    fn tell_of(&self, id: u64) -> bool {
        let area = self.areas.iter().find(|area| area.id() == id);
        let entry = area.map(|area| Box::new(entry(area, self.faults.get(&id).cloned())));
        self.desk.tell(self.opening.number, News::Area { id, entry, free_bytes: self.areas.free_bytes() })
    }

    fn fail(&self, error: AreaError) -> bool {
        self.desk.tell(self.opening.number, News::Failed(error));
        false
    }

    fn remove(self) {
        let Worker { areas, opening, records, desk, .. } = self;
        // Whoever has heard that it is gone may open it.
        drop(areas);
        desk.tell(opening.number, News::Removed(records.remove(&opening.name)));
    }
}
