//! The thread that has a disk. Whatever waits for the disk waits here, and never in the daemon's loop: the disk is opened, changes of
//! its table are made durable, and new space is zeroed, in steps between changes.

use super::core::{DiskCoreStarter, StartedCore};
use super::error::DiskError;
use super::fences::{Fences, Means, Offer};
use super::function::{FunctionCore, WholeDisk, give_back};
use super::records::{DiskRecord, Records};
use qanat_disk::area::{
    Area, AreaError, AreaLimits, AreaName, AreaState, Areas, Extent, Fence, Owner, Repair, UNIT_BYTES,
};
use qanat_disk::fence::{AreaFiles, FenceError, Partitions};
use qanat_disk::{DiskFile, DiskOptions, Geometry, OpenError, Polling, StorageError, Uring, Vsic, make_file};
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
#[derive(Clone)]
pub(super) struct Opening {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) record: DiskRecord,
    /// It is new: prepared if it is empty, made with so many bytes if that is said, and written down.
    pub(super) is_new: bool,
    pub(super) size: Option<u64>,
    /// Where a node of a partition may be made for a moment.
    pub(super) scratch: PathBuf,
    /// Starts the core of a function.
    pub(super) starter: Option<DiskCoreStarter>,
}

/// An area, as the loop knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AreaEntry {
    pub(crate) id: u64,
    pub(crate) name: AreaName,
    pub(crate) owner: Owner,
    pub(crate) limits: AreaLimits,
    pub(crate) fence: Fence,
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
    pub(super) offer: Offer,
    pub(super) areas: Vec<AreaEntry>,
    pub(super) repairs: Vec<Repair>,
    pub(super) was_prepared: bool,
    /// How completions are noticed, of a file or device.
    pub(super) completions: Option<Polling>,
    /// Another descriptor of the same opening: the disk is ours as long as anybody has one. `None`: a function, which its core has.
    pub(super) file: Option<OwnedFd>,
    /// The core of a function.
    pub(super) core: Option<StartedCore>,
}

/// What the loop wants of a disk.
#[derive(Debug)]
pub(super) enum Order {
    /// A change of its table.
    Change(Change),
    /// A descriptor of an area that the kernel fences.
    Hand { id: u64, read_only: bool },
    /// The core of a function has ended: open the disk again.
    Open,
    /// Let go of the disk, and forget it.
    Remove,
}

/// A change of the table.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create {
        name: AreaName,
        owner: Owner,
        fence: Fence,
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
    /// A descriptor, or why there is none.
    Handed(Result<OwnedFd, AreaError>),
    /// An area's holder had so many bytes beyond the area, which were taken back.
    Outgrown { id: u64, bytes: u64 },
    /// This is so from now on: `None`: the area is gone.
    Area { id: u64, entry: Option<Box<AreaEntry>>, free_bytes: u64 },
    /// The disk can't be used any more.
    Failed(AreaError),
    /// The disk has been let go of, and forgotten, unless that failed.
    Removed(io::Result<()>),
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
    let (sender, orders) = sync_channel(ORDERS_MAX);
    let post = Post { opening, records, desk, orders };
    let work = move || match post.opening.record.function {
        None if post.opening.record.directory => post.serve(open_directory),
        None => post.serve(open_file),
        Some(_) => post.serve(open_function),
    };
    let thread = std::thread::Builder::new().name("qanat-disk".to_owned()).spawn(work)?;
    Ok((sender, thread))
}

/// Removes the record of a disk that no thread has, in a thread of its own.
pub(super) fn forget(number: u32, name: String, records: Records, desk: Desk) -> io::Result<JoinHandle<()>> {
    let work = move || {
        desk.tell(number, News::Removed(records.remove(&name)));
    };
    std::thread::Builder::new().name("qanat-disk".to_owned()).spawn(work)
}

/// How a disk is opened.
type Open<V> = fn(&Opening) -> Result<Had<V>, DiskError>;

/// What the thread of a disk has for as long as it lives, whether the disk is open or not.
struct Post {
    opening: Opening,
    records: Records,
    desk: Desk,
    orders: Receiver<Order>,
}

impl Post {
    /// Opens the disk, and serves it; again, if it is one that only its core has, and that has ended.
    fn serve<V: Vsic>(mut self, open: Open<V>) {
        while let Some((areas, fences, opened)) = self.open_at_last(open)
            && self.tell(News::Opened(Ok(Box::new(opened))))
        {
            (self.opening.is_new, self.opening.size) = (false, None);
            let worker = Worker { areas, fences, post: &self, faults: BTreeMap::new(), last: 0, is_cut_off: false };
            match worker.work() {
                End::Again => {}
                End::Over => return,
            }
        }
    }

    /// Opens the disk. One that was added before, and can't be opened now because somebody has it or it is not there, is tried again until
    /// it can, or nobody wants it any more: the core of a daemon that died may hold it for a while.
    fn open_at_last<V: Vsic>(&self, open: Open<V>) -> Option<(Areas<V>, Fences, Opened)> {
        let (mut pause, mut is_told) = (AGAIN, false);
        loop {
            let error = match begin(open, &self.opening, &self.records) {
                Ok(opened) => return Some(opened),
                Err(error) => error,
            };
            let is_tried_again = !self.opening.is_new && error.may_pass();
            // Why it fails is told once, and if it fails for good.
            if !std::mem::replace(&mut is_told, true) || !is_tried_again {
                self.tell(News::Opened(Err(error)));
            }
            if !is_tried_again {
                return None;
            }
            match self.orders.recv_timeout(pause) {
                Ok(Order::Remove) => {
                    self.forget();
                    return None;
                }
                // Nothing else is asked of a disk that is not open.
                Ok(Order::Open | Order::Change(_) | Order::Hand { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    /// Whether somebody is there to hear it.
    fn tell(&self, news: News) -> bool {
        self.desk.tell(self.opening.number, news)
    }

    /// The disk is the daemon's no more.
    fn forget(&self) {
        let Post { opening, records, .. } = self;
        let removed = records.remove(&opening.name);
        self.tell(News::Removed(removed.and_then(|()| opening.record.function.iter().try_for_each(give_back))));
    }
}

fn begin<V: Vsic>(
    open: Open<V>,
    opening: &Opening,
    records: &Records,
) -> Result<(Areas<V>, Fences, Opened), DiskError> {
    let DiskRecord { path, directory, .. } = &opening.record;
    if opening.is_new
        && !directory
        && let Some(bytes) = opening.size
    {
        make_file(path, bytes, 0o600)?;
    }
    let outcome = open(opening).and_then(|opened| {
        if opening.is_new {
            let written = records.write(&opening.name, &opening.record);
            written.map_err(|error| DiskError::Record { directory: records.directory().to_owned(), error })?;
        }
        Ok(opened)
    });
    if outcome.is_err() && opening.is_new {
        if opening.size.is_some() && !directory {
            // The file was made just now, and is of no use to anybody.
            let _ = std::fs::remove_file(path);
        }
        if let Some(function) = &opening.record.function {
            // Its core has ended, or will not be heard of.
            let _ = give_back(function);
        }
    }
    let Had { mut areas, fences, repairs, was_prepared, completions, file, core } = outcome?;
    let opened = Opened {
        bytes: areas.disk_bytes(),
        free_bytes: areas.free_bytes(),
        geometry: areas.disk().geometry(),
        offer: fences.offer(),
        areas: areas.iter().map(|area| entry(area, None)).collect(),
        repairs,
        was_prepared,
        completions,
        file,
        core,
    };
    Ok((areas, fences, opened))
}

/// A disk that is ours.
struct Had<V> {
    areas: Areas<V>,
    fences: Fences,
    repairs: Vec<Repair>,
    was_prepared: bool,
    completions: Option<Polling>,
    file: Option<OwnedFd>,
    core: Option<StartedCore>,
}

/// Opens a file or device.
fn open_file(opening: &Opening) -> Result<Had<Uring>, DiskError> {
    let path = &opening.record.path;
    let mut file = None;
    let mut device = || -> Result<(Uring, Rc<Region>), DiskError> {
        let failed = |error| DiskError::Areas { path: path.to_owned(), error };
        let memory = Areas::<Uring>::memory().map_err(failed)?;
        // The one before is let go of first: it is opened for us alone.
        file = None;
        let opened = DiskFile::open(path, DiskOptions { depth: DEPTH, ..DiskOptions::default() })?;
        let copy = opened.as_fd().try_clone_to_owned();
        file = Some(copy.map_err(|error| OpenError::Open { path: path.to_owned(), error })?);
        Ok((Uring::over(opened, std::slice::from_ref(&memory))?, memory))
    };
    let (mut areas, repairs, was_prepared) = open_areas(path, opening.is_new, &mut device)?;
    // A file, or a partition, has no partitions; all else goes on without.
    let partitions = file.as_ref().map(|file| Partitions::of(file.as_fd(), path, &opening.scratch));
    let means = partitions.and_then(Result::ok).map_or(Means::None, Means::Partitions);
    let fences = Fences::of(means, &areas)?;
    let completions = Some(areas.disk().polling());
    Ok(Had { areas, fences, repairs, was_prepared, completions, file, core: None })
}

/// Opens a directory of files: its table is a file like that of any disk, and nothing else of it is used.
fn open_directory(opening: &Opening) -> Result<Had<Uring>, DiskError> {
    let Opening { record: DiskRecord { path, .. }, is_new, size, .. } = opening;
    let files = AreaFiles::at(path, *is_new && size.is_some())?;
    let table = files.table();
    if *is_new && size.is_none() && !table.exists() {
        let what = "there are no areas in it yet: say by --size how much they may take together";
        return Err(FenceError::Directory { path: path.clone(), what }.into());
    }
    let is_made = *is_new && size.is_some();
    if let (true, Some(bytes)) = (is_new, size) {
        files.make_table(*bytes)?;
    }
    let of_table = DiskRecord { path: table.clone(), function: None, directory: false };
    let had = open_file(&Opening { record: of_table, ..opening.clone() });
    let fenced =
        had.and_then(|had| Ok(Had { fences: Fences::of(Means::Files(files), &had.areas)?, file: None, ..had }));
    fenced.inspect_err(|_| {
        if is_made {
            // It was made just now, and is of no use to anybody.
            let _ = std::fs::remove_file(&table);
        }
    })
}

/// Starts a function's core, and opens the disk by that.
fn open_function(opening: &Opening) -> Result<Had<WholeDisk>, DiskError> {
    let path = &opening.record.path;
    let none = || DiskError::Core { path: path.clone(), why: "this daemon starts no disk cores".to_owned() };
    let (Some(function), Some(starter)) = (&opening.record.function, &opening.starter) else { return Err(none()) };
    let mut core = FunctionCore::start(function, starter)?;
    let (areas, repairs, was_prepared) = open_areas(path, opening.is_new, &mut || core.whole())?;
    let fences = Fences::of(Means::None, &areas)?;
    Ok(Had { fences, areas, repairs, was_prepared, completions: None, file: None, core: core.hand_over() })
}

/// Opens a disk; prepares it if it is empty and may be prepared. `device`: has it, each time anew.
fn open_areas<V: Vsic>(
    path: &Path,
    may_prepare: bool,
    device: &mut dyn FnMut() -> Result<(V, Rc<Region>), DiskError>,
) -> Result<(Areas<V>, Vec<Repair>, bool), DiskError> {
    let failed = |error| DiskError::Areas { path: path.to_owned(), error };
    let (disk, memory) = device()?;
    match Areas::open(disk, &memory) {
        Ok((areas, repairs)) => Ok((areas, repairs, false)),
        Err(AreaError::Unprepared) if may_prepare => {
            let (disk, memory) = device()?;
            let areas = Areas::prepare(disk, &memory, identity()?).map_err(failed)?;
            Ok((areas, Vec::new(), true))
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
        fence: area.fence(),
        is_doomed: area.state() == AreaState::Doomed,
        bytes: area.bytes(),
        reserved_bytes: area.reserved_bytes(),
        extents: area.extents().to_vec(),
        fault,
    }
}

/// How a disk's thread is done with it.
enum End {
    /// It is to be opened again.
    Again,
    /// For good.
    Over,
}

struct Worker<'a, V> {
    areas: Areas<V>,
    fences: Fences,
    post: &'a Post,
    /// Areas that could not be zeroed further.
    faults: BTreeMap<u64, String>,
    /// The area that was zeroed last: others have their turn.
    last: u64,
    /// The core through which it had the disk has ended.
    is_cut_off: bool,
}

impl<V: Vsic> Worker<'_, V> {
    /// Until nobody gives orders any more, or the disk has failed.
    fn work(mut self) -> End {
        loop {
            let unready = self.next_unready();
            let look = self.fences.next_look();
            let order = match (unready, look) {
                (Some(_), _) => self.post.orders.try_recv(),
                (None, None) => self.post.orders.recv().map_err(|_| TryRecvError::Disconnected),
                (None, Some(pause)) => self.post.orders.recv_timeout(pause).map_err(|error| match error {
                    RecvTimeoutError::Timeout => TryRecvError::Empty,
                    RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                }),
            };
            let goes_on = match (order, unready) {
                (Ok(Order::Remove), _) => match self.fences.check_unused(&self.areas) {
                    Ok(()) => return self.remove(),
                    Err(error) => self.post.tell(News::Done(Err(error))),
                },
                (Ok(Order::Hand { id, read_only }), _) => self.hand(id, read_only),
                (Err(TryRecvError::Empty), _) if look == Some(Duration::ZERO) => self.look(),
                (Err(TryRecvError::Empty), None) => true,
                (Ok(Order::Open), _) => return End::Again,
                (Ok(Order::Change(change)), _) => self.carry_out(change),
                (Err(TryRecvError::Empty), Some(id)) => self.zero(id),
                (Err(_), _) => return End::Over,
            };
            if !goes_on {
                return End::Over;
            }
        }
    }

    /// An area that is not zeroed yet; after the last one, so that all have their turn.
    fn next_unready(&self) -> Option<u64> {
        if self.is_cut_off {
            return None;
        }
        let is_unready = |area: &&Area| {
            let is_whole = area.bytes() == area.reserved_bytes();
            !is_whole && area.state() == AreaState::Ready && !self.faults.contains_key(&area.id())
        };
        let ids = || self.areas.iter().filter(is_unready).map(Area::id);
        ids().find(|id| *id > self.last).or_else(|| ids().next())
    }

    fn zero(&mut self, id: u64) -> bool {
        self.last = id;
        match self.fences.zero(&mut self.areas, id, STEP_BYTES) {
            Ok(()) => self.tell_of(id),
            // Blocks that can't be written are this area's affair; it is tried again when it grows, and when the disk is opened.
            Err(
                error @ (AreaError::Device { error: StorageError::Medium | StorageError::NoRoom, .. }
                | AreaError::Fence { .. }),
            ) if self.areas.failure().is_none() => {
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
        let told = self.post.tell(News::Done(outcome));
        match self.areas.failure() {
            Some(error) => self.fail(AreaError::Failed { error }),
            None => told,
        }
    }

    fn perform(&mut self, change: Change) -> Result<u64, AreaError> {
        match change {
            Change::Create { name, owner, fence, bytes } => {
                // The ceiling of its user holds anyway.
                let id = self.areas.create_limited(name, owner, (AreaLimits::default(), fence), bytes)?;
                let area = self.areas.by_id(id).cloned();
                let reserved = area.map_or(Ok(()), |area| self.fences.reserve(&area, area.reserved_bytes()));
                if let Err(error) = reserved {
                    let name = self.areas.by_id(id).map(|area| area.name().clone());
                    name.map_or(Ok(id), |name| self.areas.delete(&name))?;
                    self.fences.release(&mut self.areas, id)?;
                    return Err(error);
                }
                Ok(id)
            }
            Change::Grow { name, bytes } => {
                let area = self.areas.get(&name)?.clone();
                let id = area.id();
                // If the growth is refused, what is there too much is taken back when the area is used.
                self.fences.reserve(&area, bytes.max(area.reserved_bytes()).next_multiple_of(UNIT_BYTES))?;
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
                    self.release(id)?;
                }
                Ok(id)
            }
            Change::Release { id } => self.release(id).map(|()| id),
        }
    }

    /// Frees a deleted area's space, or notes that somebody still has it.
    fn release(&mut self, id: u64) -> Result<(), AreaError> {
        match self.fences.release(&mut self.areas, id) {
            Ok(_) | Err(AreaError::Fence { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn hand(&mut self, id: u64, read_only: bool) -> bool {
        let area = self.areas.by_id(id).filter(|area| area.state() == AreaState::Ready);
        let gone = || AreaError::NoArea { name: format!("number {id}") };
        let handed = area.ok_or_else(gone).and_then(|area| self.fences.hand(area, read_only));
        self.post.tell(News::Handed(handed))
    }

    /// Looks who has what of the areas that the kernel fences.
    fn look(&mut self) -> bool {
        match self.fences.look(&mut self.areas) {
            Ok((gone, outgrown)) => {
                let told = gone.into_iter().all(|id| self.tell_of(id));
                told && outgrown.into_iter().all(|(id, bytes)| self.post.tell(News::Outgrown { id, bytes }))
            }
            Err(error) => self.fail(error),
        }
    }

    fn tell_of(&self, id: u64) -> bool {
        let area = self.areas.iter().find(|area| area.id() == id);
        let entry = area.map(|area| Box::new(entry(area, self.faults.get(&id).cloned())));
        self.post.tell(News::Area { id, entry, free_bytes: self.areas.free_bytes() })
    }

    /// Whether the thread goes on nevertheless.
    fn fail(&mut self, error: AreaError) -> bool {
        // The core of a function has ended. The loop hears of that, too, and has the disk opened again.
        let is_core = self.post.opening.record.function.is_some();
        let is_gone = matches!(
            error,
            AreaError::Device { error: StorageError::Gone, .. } | AreaError::Failed { error: StorageError::Gone }
        );
        if is_core && is_gone {
            self.is_cut_off = true;
            return true;
        }
        self.post.tell(News::Failed(error));
        false
    }

    fn remove(self) -> End {
        // Whoever has heard that it is gone may open it.
        drop(self.fences);
        drop(self.areas);
        self.post.forget();
        End::Over
    }
}
