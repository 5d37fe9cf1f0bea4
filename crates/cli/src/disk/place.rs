//! The disk that a command is about, opened.

use crate::log;
use crate::progress::progress_bar;
use clap::Args;
use qanat_disk::area::{AreaDisk, AreaError, AreaName, Areas, Owner};
use qanat_disk::{DiskOptions, Uring};
use qanat_nic::Region;
use std::path::PathBuf;
use std::rc::Rc;

/// Which disk.
#[derive(Args)]
pub struct PlaceArguments {
    /// The disk: a file or block device that `qanat disk prepare` has prepared
    #[arg(long, value_name = "PATH")]
    pub on: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

impl PlaceArguments {
    /// Opens it, for this process alone; `buffers`: what requests besides the table's read into and write from. What had to be repaired is
    /// told.
    pub fn open(&self, options: DiskOptions, buffers: &[Rc<Region>]) -> Result<Areas<Uring>, String> {
        let memory = Areas::<Uring>::memory().map_err(|error| error.to_string())?;
        let regions: Vec<Rc<Region>> = buffers.iter().chain([&memory]).cloned().collect();
        let disk = Uring::open(&self.on, options, &regions).map_err(|error| error.to_string())?;
        let (areas, repairs) = Areas::open(disk, &memory).map_err(|error| match error {
            AreaError::Unprepared => format!("{}; `qanat disk prepare` makes it a disk", self.failed(&error)),
            error => self.failed(&error),
        })?;
        for repair in repairs {
            log::warning!("disk", "superblock {} was {}, and has been written again", repair.copy, repair.was);
        }
        Ok(areas)
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
    ) -> Result<AreaDisk<Uring>, String> {
        let find = || {
            let mut areas = self.open(options, &[])?;
            let area = areas.get(name).map_err(|error| self.failed(&error))?;
            let (extents, bytes) = (area.extents().to_vec(), area.bytes());
            Ok::<_, String>((areas.disk().file(), extents, bytes))
        };
        let found = std::thread::scope(|scope| scope.spawn(find).join());
        let (file, extents, bytes) = found.map_err(|_| "the thread that reads the disk's table died".to_owned())??;
        let disk = Uring::over(file, buffers).map_err(|error| error.to_string())?;
        Ok(AreaDisk::new(disk, &extents, bytes))
    }

    /// What is wrong, with the disk's name.
    pub fn failed(&self, error: &AreaError) -> String {
        format!("{}: {error}", self.on.display())
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
pub fn zero(areas: &mut Areas<Uring>, id: u64) -> Result<(), AreaError> {
    const STEP_BYTES: u64 = 64 << 20;
    let bar = progress_bar("zeroing");
    let total = areas.iter().find(|area| area.id() == id).map_or(0, |area| area.reserved_bytes());
    bar.set_length(total);
    loop {
        let left = areas.zero_some(id, STEP_BYTES)?;
        bar.set_position(total - left);
        if left == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
    }
}
