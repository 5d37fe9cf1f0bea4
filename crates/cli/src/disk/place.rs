//! The disk that a command is about, opened.

use crate::log;
use crate::progress::progress_bar;
use clap::Args;
use qanat_disk::area::{AreaError, AreaName, Areas, Owner};
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
