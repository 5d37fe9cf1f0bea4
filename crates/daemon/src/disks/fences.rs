//! Areas that the kernel fences, as a disk's thread has them: partitions of the disk, or files of a directory. The kernel is asked who still
//! has a descriptor, so what a daemon that died had handed out is known to the next one.

use super::error::DiskError;
use qanat_control::protocol::AreaFence;
use qanat_disk::area::{Area, AreaError, AreaState, Areas, Fence, UNIT_BYTES};
use qanat_disk::fence::{AreaFiles, FenceError, Partitions};
use qanat_disk::{StorageError, Vsic};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Between two looks at who has what.
const LOOK: Duration = Duration::from_secs(1);

/// What fences areas on a disk.
#[derive(Debug, Default)]
pub(super) enum Means {
    /// Nothing but its core.
    #[default]
    None,
    Partitions(Partitions),
    Files(AreaFiles),
}

/// What may be had on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Offer {
    #[default]
    None,
    /// Partitions; `only_root`: the device's driver lets a partition's holder do too much.
    Partitions {
        only_root: bool,
    },
    Files,
}

impl Offer {
    /// As it is shown.
    pub(super) fn fence(self) -> Option<AreaFence> {
        match self {
            Offer::None => None,
            Offer::Partitions { .. } => Some(AreaFence::Partition),
            Offer::Files => Some(AreaFence::File),
        }
    }
}

/// The areas of a disk that the kernel fences.
#[derive(Debug)]
pub(super) struct Fences {
    means: Means,
    /// Deleted, and perhaps still open somewhere.
    leaving: BTreeSet<u64>,
    /// Files that somebody may have open.
    lent: BTreeSet<u64>,
    looked_at: Instant,
}

fn start_of(area: &Area) -> u64 {
    area.extents().first().map_or(0, |extent| extent.unit * UNIT_BYTES)
}

fn failed(area: &Area, error: &FenceError) -> AreaError {
    AreaError::Fence { name: area.name().to_string(), why: error.to_string() }
}

/// What the disk itself would have said.
fn of_device(area: &Area, error: &FenceError) -> AreaError {
    match error {
        FenceError::File { error, .. } if error.kind() == io::ErrorKind::StorageFull => {
            AreaError::Device { place: area.bytes(), error: StorageError::NoRoom }
        }
        error => failed(area, error),
    }
}

impl Fences {
    /// By what a disk has, with all that a daemon before this one left.
    ///
    /// # Errors
    /// [`DiskError::Fence`], [`DiskError::Partition`] if somebody uses a partition that no area has.
    pub(super) fn of<V: Vsic>(means: Means, areas: &Areas<V>) -> Result<Fences, DiskError> {
        let (mut leaving, mut lent) = (BTreeSet::new(), BTreeSet::new());
        for area in areas.iter().filter(|area| area.fence() != Fence::Core && area.state() == AreaState::Doomed) {
            leaving.insert(area.id());
        }
        match &means {
            Means::None => {}
            Means::Partitions(partitions) => {
                for found in partitions.all()? {
                    let is_it = |area: &&Area| area.fence() == Fence::Partition && start_of(area) == found.start;
                    let area = areas.iter().find(is_it);
                    // One that nobody uses is made again when somebody does.
                    let is_gone = partitions.remove(found.number)?;
                    match area {
                        Some(area) if !is_gone && area.state() == AreaState::Ready => {
                            partitions.lay(found.start, area.bytes())?;
                        }
                        None if !is_gone => return Err(DiskError::Partition { name: found.name }),
                        _ => {}
                    }
                }
            }
            Means::Files(files) => {
                for id in files.all()? {
                    match areas.by_id(id) {
                        Some(_) => drop(lent.insert(id)),
                        None => files.remove(id)?,
                    }
                }
            }
        }
        Ok(Fences { means, leaving, lent, looked_at: Instant::now() })
    }

    /// What may be had.
    pub(super) fn offer(&self) -> Offer {
        match &self.means {
            Means::None => Offer::None,
            Means::Partitions(partitions) => Offer::Partitions { only_root: !partitions.fence() },
            Means::Files(_) => Offer::Files,
        }
    }

    /// Has room for a file's bytes.
    ///
    /// # Errors
    /// [`AreaError::Device`] if the file system is full.
    pub(super) fn reserve(&self, area: &Area, bytes: u64) -> Result<(), AreaError> {
        match &self.means {
            Means::Files(files) if area.fence() == Fence::File => {
                files.reserve(area.id(), bytes).map_err(|error| of_device(area, &error))
            }
            _ => Ok(()),
        }
    }

    /// Zeroes some of an area, durably, and lets it be used.
    ///
    /// # Errors
    /// [`AreaError`].
    pub(super) fn zero<V: Vsic>(&self, areas: &mut Areas<V>, id: u64, bytes_max: u64) -> Result<(), AreaError> {
        let Some(area) = areas.by_id(id).cloned() else { return Ok(()) };
        match &self.means {
            Means::Files(files) if area.fence() == Fence::File => {
                let bytes = (area.reserved_bytes() - area.bytes()).min(bytes_max);
                // A daemon may have died before it made the file.
                self.reserve(&area, area.reserved_bytes())?;
                files.zero(id, area.bytes(), bytes).map_err(|error| of_device(&area, &error))?;
                areas.note_zeroed(id, bytes).map(drop)
            }
            Means::Partitions(partitions) if area.fence() == Fence::Partition => {
                areas.zero_some(id, bytes_max)?;
                let start = start_of(&area);
                let bytes = areas.by_id(id).map_or(0, Area::bytes);
                let grown = match partitions.at(start) {
                    Ok(Some(_)) => partitions.lay(start, bytes).map(drop),
                    found => found.map(drop),
                };
                grown.map_err(|error| failed(&area, &error))
            }
            _ => areas.zero_some(id, bytes_max).map(drop),
        }
    }

    /// A descriptor of an area.
    ///
    /// # Errors
    /// [`AreaError::Fence`].
    pub(super) fn hand(&mut self, area: &Area, read_only: bool) -> Result<OwnedFd, AreaError> {
        let opened = match &self.means {
            Means::Files(files) if area.fence() == Fence::File => {
                self.lent.insert(area.id());
                files.open(area.id(), (area.bytes(), area.reserved_bytes()), read_only)
            }
            Means::Partitions(partitions) if area.fence() == Fence::Partition => {
                let laid = partitions.lay(start_of(area), area.bytes());
                laid.and_then(|partition| partitions.open(&partition, read_only))
            }
            _ => {
                let why = "it has no descriptor of its own on this disk".to_owned();
                return Err(AreaError::Fence { name: area.name().to_string(), why });
            }
        };
        opened.map_err(|error| failed(area, &error))
    }

    /// Has a deleted area's space free as soon as nobody has a descriptor of it: whether it is now.
    ///
    /// # Errors
    /// [`AreaError`]; it is tried again.
    pub(super) fn release<V: Vsic>(&mut self, areas: &mut Areas<V>, id: u64) -> Result<bool, AreaError> {
        let Some(area) = areas.by_id(id).filter(|area| area.state() == AreaState::Doomed) else { return Ok(true) };
        if area.fence() != Fence::Core {
            self.leaving.insert(id);
            if self.is_held(area).map_err(|error| failed(area, &error))? {
                return Ok(false);
            }
            if let Means::Files(files) = &self.means {
                files.remove(id).map_err(|error| failed(area, &error))?;
            }
        }
        areas.release(id)?;
        self.leaving.remove(&id);
        self.lent.remove(&id);
        Ok(true)
    }

    /// Whether somebody has a descriptor of an area. If not, its partition is gone.
    fn is_held(&self, area: &Area) -> Result<bool, FenceError> {
        match &self.means {
            Means::Files(files) => files.is_held(area.id()),
            Means::Partitions(partitions) => match partitions.at(start_of(area))? {
                Some(found) => partitions.remove(found.number).map(|is_gone| !is_gone),
                None => Ok(false),
            },
            Means::None => Ok(false),
        }
    }

    /// Whether the disk may be let go of: nobody has a partition of it. Files are their holders' whether they have names or not.
    ///
    /// # Errors
    /// [`AreaError::Held`], which says whose.
    pub(super) fn check_unused<V: Vsic>(&self, areas: &Areas<V>) -> Result<(), AreaError> {
        let Means::Partitions(_) = &self.means else { return Ok(()) };
        for area in areas.iter().filter(|area| area.fence() == Fence::Partition) {
            if self.is_held(area).map_err(|error| failed(area, &error))? {
                return Err(AreaError::Held { name: area.name().to_string() });
            }
        }
        Ok(())
    }

    /// When to look next; `None`: there is nothing to look at.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let is_any = !self.leaving.is_empty() || !self.lent.is_empty();
        is_any.then(|| LOOK.saturating_sub(self.looked_at.elapsed()))
    }

    /// Looks who has what: the areas that are gone, and those whose holders had more than their area, with how much that was.
    ///
    /// # Errors
    /// [`AreaError`], as for any change of the table.
    pub(super) fn look<V: Vsic>(&mut self, areas: &mut Areas<V>) -> Result<(Vec<u64>, Vec<(u64, u64)>), AreaError> {
        self.looked_at = Instant::now();
        let (mut gone, mut outgrown) = (Vec::new(), Vec::new());
        for id in self.leaving.clone() {
            match self.release(areas, id) {
                Ok(true) => gone.push(id),
                // What the kernel does not say now, it may say later.
                Ok(false) | Err(AreaError::Fence { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let Means::Files(files) = &self.means else { return Ok((gone, outgrown)) };
        self.lent.retain(|id| {
            let Some(area) = areas.by_id(*id) else { return false };
            // A file that can't be looked at is looked at again.
            let beyond = files.cut(*id, (area.bytes(), area.reserved_bytes())).unwrap_or(0);
            outgrown.extend((beyond > 0).then_some((*id, beyond)));
            files.is_held(*id).unwrap_or(true)
        });
        Ok((gone, outgrown))
    }
}
