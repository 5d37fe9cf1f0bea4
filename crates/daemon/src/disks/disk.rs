//! The disks that the daemon has, as the loop knows them.

use super::core::{DiskCore, DiskCoreStarter, Tenant};
use super::errands::Errands;
use super::fences::Offer;
use super::records::{DiskRecord, Records};
use super::worker::{AreaEntry, Desk, News, Opened, Opening, Order, forget, start};
use crate::clients::peer::Peer;
use crate::error::{DaemonError, say};
use qanat_control::protocol::{AreaFence, AreaStatus, DiskRate, DiskState, DiskStatus, FunctionWish};
use qanat_disk::area::{AreaLimits, Fence};
use qanat_disk::{Geometry, Polling};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Disks at most.
pub(super) const DISKS_MAX: usize = 64;
/// News that the loop has not heard yet. A disk's thread waits with the next.
const NEWS_MAX: usize = 256;
/// How long the daemon's own end waits for a disk's.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// A disk.
pub(super) struct Disk {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// What the kernel fences there.
    pub(super) offer: Offer,
    /// It is a PCI function, which its core has and nobody else.
    pub(super) function: Option<FunctionWish>,
    pub(super) state: DiskState,
    /// When its core had ended last, and it was opened again.
    pub(super) reopened_at: Option<Instant>,
    /// Who waits for it to be opened: the number of an endpoint.
    pub(super) awaited_by: Option<(u64, Peer)>,
    pub(super) orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    pub(super) bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) geometry: Option<Geometry>,
    /// How completions of a file or device are noticed.
    pub(super) completions: Option<Polling>,
    pub(super) areas: BTreeMap<u64, AreaEntry>,
    pub(super) errands: Errands,
    /// The disk itself, for its core: whoever has a copy keeps others from it.
    pub(super) file: Option<OwnedFd>,
    pub(super) core: Option<DiskCore>,
    /// Applications that have areas, by their numbers.
    pub(super) tenants: BTreeMap<u64, Tenant>,
    /// Applications that were cut off.
    pub(super) offences: u64,
}

impl Disk {
    /// One that nothing is known of but its name, and that no thread has.
    fn new(number: u32, name: String, path: PathBuf, state: DiskState) -> Disk {
        Disk {
            number,
            name,
            path,
            offer: Offer::None,
            function: None,
            state,
            reopened_at: None,
            awaited_by: None,
            orders: None,
            thread: None,
            bytes: 0,
            free_bytes: 0,
            geometry: None,
            completions: None,
            areas: BTreeMap::new(),
            errands: Errands::default(),
            file: None,
            core: None,
            tenants: BTreeMap::new(),
            offences: 0,
        }
    }

    /// It is open.
    pub(super) fn is_now(&mut self, opened: Opened) {
        self.state = DiskState::Ready;
        (self.file, self.offer, self.completions) = (opened.file, opened.offer, opened.completions);
        (self.bytes, self.free_bytes, self.geometry) = (opened.bytes, opened.free_bytes, Some(opened.geometry));
        self.areas = opened.areas.into_iter().map(|area| (area.id, area)).collect();
    }

    /// The area of that name.
    pub(super) fn by_name(&self, name: &str) -> Option<&AreaEntry> {
        self.areas.values().find(|area| !area.is_doomed && area.name.as_str() == name)
    }

    /// How it is, without its areas.
    pub(super) fn status(&self) -> DiskStatus {
        DiskStatus {
            number: self.number,
            name: self.name.clone(),
            path: self.path.clone(),
            state: self.state.clone(),
            bytes: self.bytes,
            free_bytes: self.free_bytes,
            block_bytes: self.geometry.map_or(0, |geometry| geometry.block_bytes),
            volatile_cache: self.geometry.is_some_and(|geometry| geometry.volatile_cache),
            completions: self.completions.map(|completions| completions.to_string()),
            area_count: self.areas.values().filter(|area| !area.is_doomed).count() as u32,
            fenced: self.offer.fence(),
            areas: Vec::new(),
        }
    }
}

/// By which way an area is used, in the protocol.
fn fence_of(fence: Fence) -> AreaFence {
    match fence {
        Fence::Core => AreaFence::Core,
        Fence::Partition => AreaFence::Partition,
        Fence::File => AreaFence::File,
    }
}

/// What an area's limits are in the protocol.
pub(super) fn rate_of(limits: AreaLimits) -> DiskRate {
    let AreaLimits { requests_per_second, bytes_per_second } = limits;
    DiskRate { requests_per_s: requests_per_second, bytes_per_s: bytes_per_second }
}

/// What a rate of the protocol is on the disk.
pub(super) fn limits_of(rate: DiskRate) -> AreaLimits {
    let DiskRate { requests_per_s, bytes_per_s } = rate;
    AreaLimits { requests_per_second: requests_per_s, bytes_per_second: bytes_per_s }
}

impl AreaEntry {
    /// How it is.
    pub(super) fn status(&self, handles: u32) -> AreaStatus {
        AreaStatus {
            number: self.id,
            name: self.name.to_string(),
            user: self.owner.uid,
            bytes: self.bytes,
            reserved_bytes: self.reserved_bytes,
            pieces: self.extents.len() as u32,
            rate: rate_of(self.limits),
            fence: fence_of(self.fence),
            handles,
            is_deleted: self.is_doomed,
            fault: self.fault.clone(),
        }
    }
}

/// All of them, by their numbers.
pub(crate) struct Disks {
    pub(super) all: BTreeMap<u32, Disk>,
    next_number: u32,
    pub(super) records: Records,
    desk: Desk,
    pub(super) news: Receiver<(u32, News)>,
    pub(super) bell: Arc<OwnedFd>,
    pub(super) starter: Option<DiskCoreStarter>,
    /// The number of the last application: none has it again.
    pub(super) last_tenant: u64,
    /// Processes that have been told to end. Nobody waits for one: it may hang in the kernel.
    pub(super) dying: Vec<Child>,
}

impl Disks {
    /// None yet. `directory`: where they are written down.
    pub(crate) fn at(directory: PathBuf) -> Result<Disks, DaemonError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|error| say("make an event descriptor", error))?);
        let (sender, news) = sync_channel(NEWS_MAX);
        let desk = Desk { news: sender, bell: Arc::clone(&bell) };
        let records = Records::at(directory);
        let (all, starter, dying) = (BTreeMap::new(), None, Vec::new());
        Ok(Disks { all, next_number: 1, records, desk, news, bell, starter, last_tenant: 0, dying })
    }

    /// The descriptor that the loop waits for.
    pub(crate) fn bell(&self) -> Result<OwnedFd, DaemonError> {
        self.bell.try_clone().map_err(|error| say("keep a descriptor", error))
    }

    /// Whether a process has been told to end, and is still there.
    pub(crate) fn is_one_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// The number of the disk of that name.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.all.values().find(|disk| disk.name == name).map(|disk| disk.number)
    }

    /// Has a thread open a disk. What comes of it is among the news.
    pub(super) fn open(
        &mut self,
        (name, record): (String, DiskRecord),
        (is_new, size): (bool, Option<u64>),
        awaited_by: Option<(u64, Peer)>,
    ) -> Result<u32, DaemonError> {
        let number = self.next_number;
        let (DiskRecord { path, function, .. }, starter) = (record.clone(), self.starter.clone());
        let scratch = self.records.directory().to_owned();
        let opening = Opening { number, name: name.clone(), record, is_new, size, scratch, starter };
        let started = start(opening, self.records.clone(), self.desk.clone());
        let (orders, thread) = started.map_err(|error| say("start a thread for a disk", error))?;
        self.next_number += 1;
        let disk = Disk {
            awaited_by,
            function,
            orders: Some(orders),
            thread: Some(thread),
            ..Disk::new(number, name, path, DiskState::Opening)
        };
        self.all.insert(number, disk);
        Ok(number)
    }

    /// Removes the record of a disk whose thread has ended.
    pub(super) fn forget(&mut self, number: u32) -> Result<(), DaemonError> {
        let disk = self.all.get_mut(&number).ok_or("the disk is gone")?;
        let thread = forget(number, disk.name.clone(), self.records.clone(), self.desk.clone());
        disk.thread = Some(thread.map_err(|error| say("start a thread for a disk", error))?);
        Ok(())
    }

    /// A disk that could not be known at all: it is listed with the reason.
    pub(super) fn note_unknown(&mut self, name: String, why: String) {
        let number = self.next_number;
        self.next_number += 1;
        self.all.insert(number, Disk::new(number, name, PathBuf::new(), DiskState::Failed(why)));
    }
}

/// They are let go of with the daemon, so that the next one finds them free. One that hangs is left to the kernel.
impl Drop for Disks {
    fn drop(&mut self) {
        // Nobody waits to be heard any more.
        let (_, nobody) = sync_channel(0);
        drop(std::mem::replace(&mut self.news, nobody));
        for disk in self.all.values_mut() {
            // The core first: it has the disk as well.
            if let Some(DiskCore { mut child, .. }) = disk.core.take() {
                let _ = child.kill();
                self.dying.push(child);
            }
            disk.file = None;
        }
        let threads = self.all.values_mut().filter_map(|disk| {
            disk.orders = None;
            disk.thread.take()
        });
        let threads: Vec<JoinHandle<()>> = threads.collect();
        let begun = Instant::now();
        let mut are_there = true;
        while are_there && begun.elapsed() < LAST_PATIENCE {
            self.dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            are_there = !self.dying.is_empty() || !threads.iter().all(JoinHandle::is_finished);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
