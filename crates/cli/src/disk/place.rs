//! The disk that a command is about: one of the daemon's, or a file or device, opened.

use super::device::{self, Device, DeviceError};
use super::size;
use crate::daemon::DaemonArguments;
use crate::log;
use crate::progress::progress_bar;
use clap::Args;
use qanat_control::client::Session;
use qanat_control::protocol::DiskStatus;
use qanat_disk::area::{AreaDisk, AreaError, AreaName, Areas, Owner};
use qanat_disk::{DiskOptions, OpenError, Uring, Vsic};
use qanat_nic::Region;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Which disk.
#[derive(Args)]
pub struct PlaceArguments {
    /// The disk: one of the daemon's by its name, or a file, device or function (pci:ADDRESS) that `qanat disk prepare` has prepared
    #[arg(long, value_name = "DISK")]
    pub on: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: DaemonArguments,
}

/// Where a disk is.
pub enum Place {
    /// The daemon has it, by this name.
    Daemon(Session, String),
    /// It is a file, device or function, by its path or name.
    File(PathBuf),
}

/// Where the disk `on` is: a name without `/` and `:` is that of a disk of the daemon's, if it has one of that name.
pub fn find(on: &Path, daemon: &DaemonArguments) -> Place {
    let file = || Place::File(on.to_owned());
    let Some(name) = on.to_str().filter(|name| !name.contains(['/', ':'])) else { return file() };
    // Without a daemon, files are what there is.
    let Ok(session) = daemon.session() else { return file() };
    match session.disks() {
        Ok(disks) if disks.iter().any(|disk| disk.name == name) => Place::Daemon(session, name.to_owned()),
        _ => file(),
    }
}

impl PlaceArguments {
    /// Where it is.
    pub fn find(&self) -> Place {
        find(&self.on, &self.daemon)
    }

    /// Opens the file or device, for this process alone; `buffers`: what requests besides the table's read into and write from. What had
    /// to be repaired is told.
    pub fn open(&self, options: DiskOptions, buffers: &[Rc<Region>]) -> Result<Areas<Device>, String> {
        open(&self.on, &self.daemon, options, buffers).map(|(areas, _)| areas)
    }

    /// Opens an area for a service that is about to give up its rights; `buffers`: what it reads into and writes from.
    ///
    /// The table is read on a thread that ends. io_uring has workers of its own in each thread that was kept waiting by a ring, and they
    /// keep the rights that the thread had then.
    pub fn open_area(
        &self,
        name: &AreaName,
        options: DiskOptions,
        buffers: &[Rc<Region>],
    ) -> Result<AreaDisk<Device>, String> {
        if device::function_of(&self.on)?.is_some() {
            let areas = self.open(options, buffers)?;
            return areas.into_area(name).map_err(|error| self.failed(&error));
        }
        let find = || {
            let memory = device::table_memory()?;
            let disk = self.uring(options, std::slice::from_ref(&memory))?;
            let mut areas = areas_of(disk, &self.on, &memory)?;
            let area = areas.get(name).map_err(|error| self.failed(&error))?;
            let (extents, bytes) = (area.extents().to_vec(), area.bytes());
            Ok::<_, String>((areas.disk().file(), extents, bytes))
        };
        let found = std::thread::scope(|scope| scope.spawn(find).join());
        let (file, extents, bytes) = found.map_err(|_| "the thread that reads the disk's table died".to_owned())??;
        let disk = Uring::over(file, buffers).map_err(|error| error.to_string())?;
        log::info!("disk", "{}: {}", self.on.display(), disk.polling());
        Ok(AreaDisk::new(Box::new(disk) as Device, &extents, bytes))
    }

    fn uring(&self, options: DiskOptions, memory: &[Rc<Region>]) -> Result<Uring, String> {
        Uring::open(&self.on, options, memory).map_err(|error| {
            let remedy = remedy(&self.on, &self.daemon, &error).unwrap_or_default();
            format!("{error}{remedy}")
        })
    }

    /// What is wrong, with the disk's name.
    pub fn failed(&self, error: &AreaError) -> String {
        failed(&self.on, error)
    }
}

fn failed(path: &Path, error: &AreaError) -> String {
    format!("{}: {error}", path.display())
}

/// Opens a file, device or function; how its completions are noticed.
pub fn open(
    path: &Path,
    daemon: &DaemonArguments,
    options: DiskOptions,
    buffers: &[Rc<Region>],
) -> Result<(Areas<Device>, String), String> {
    let memory = device::table_memory()?;
    let regions: Vec<Rc<Region>> = buffers.iter().chain([&memory]).cloned().collect();
    let (disk, completions) = device::open(path, options, &regions).map_err(|error| {
        let remedy = match &error {
            DeviceError::File(error) => remedy(path, daemon, error),
            DeviceError::Function(_) | DeviceError::Name(_) => None,
        };
        format!("{error}{}", remedy.unwrap_or_default())
    })?;
    Ok((areas_of(disk, path, &memory)?, completions))
}

/// The areas of an open disk. What had to be repaired is told.
fn areas_of<V: Vsic>(disk: V, path: &Path, memory: &Rc<Region>) -> Result<Areas<V>, String> {
    let (areas, repairs) = Areas::open(disk, memory).map_err(|error| match error {
        AreaError::Unprepared => format!("{}; `qanat disk prepare` makes it a disk", failed(path, &error)),
        error => failed(path, &error),
    })?;
    for repair in repairs {
        log::warning!("disk", "superblock {} was {}, and has been written again", repair.copy, repair.was);
    }
    Ok(areas)
}

/// What to do if a file can't be opened because of the daemon, or because it is none.
fn remedy(path: &Path, daemon: &DaemonArguments, error: &OpenError) -> Option<String> {
    let disks = || -> Option<Vec<DiskStatus>> { daemon.session().ok()?.disks().ok() };
    match error {
        OpenError::Busy { .. } => {
            let path = path.canonicalize().ok()?;
            let disk = disks()?.into_iter().find(|disk| disk.path.canonicalize().is_ok_and(|own| own == path))?;
            Some(format!("; it is the daemon's disk {name}: say --on {name}", name = disk.name))
        }
        OpenError::Open { .. } if !path.exists() && path.components().count() == 1 => match disks() {
            Some(_) => Some(format!(
                "; nor has the daemon a disk of that name (`qanat disk list`): `sudo qanat disk add {name} --file PATH --size SIZE` \
                 makes one",
                name = path.display()
            )),
            None => Some("; nor is there a daemon that might have a disk of that name (`sudo qanat up`)".to_owned()),
        },
        _ => None,
    }
}

/// An area's name as it is typed.
pub fn name(text: &str) -> Result<AreaName, String> {
    AreaName::new(text).map_err(|error| error.to_string())
}

/// What a disk is known by, as it is shown.
pub fn hexadecimal(identity: [u8; 16]) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Who runs this: areas are theirs.
pub fn owner() -> Owner {
    Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}

/// Zeroes all that is reserved for an area and not zeroed yet, with a bar that shows how far it is.
pub fn zero(areas: &mut Areas<impl Vsic>, id: u64) -> Result<(), AreaError> {
    const STEP_BYTES: u64 = 64 << 20;
    let bar = progress_bar("zeroing");
    let total = areas.iter().find(|area| area.id() == id).map_or(0, |area| area.reserved_bytes());
    bar.set_length(total);
    let is_long = areas.iter().any(|area| area.id() == id && area.reserved_bytes() > area.bytes() + STEP_BYTES);
    if is_long && bar.is_hidden() {
        // There is no terminal, and it may take seconds.
        log::info!("disk", "{} are being zeroed, once", size::text(total));
    }
    loop {
        let left = areas.zero_some(id, STEP_BYTES)?;
        bar.set_position(total - left);
        if left == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
    }
}
