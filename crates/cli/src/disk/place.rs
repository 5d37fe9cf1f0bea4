//! The disk that a command is about, opened.

use crate::log;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use qanat_disk::area::{Areas, Owner};
use qanat_disk::{DiskOptions, Uring};
use std::path::PathBuf;

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
    /// Opens it, for this process alone. What had to be repaired is told.
    pub fn open(&self, options: DiskOptions) -> Result<Areas<Uring>, String> {
        let memory = Areas::<Uring>::memory().map_err(|error| error.to_string())?;
        let disk = Uring::open(&self.on, options, std::slice::from_ref(&memory)).map_err(|error| error.to_string())?;
        let (areas, repairs) = Areas::open(disk, &memory).map_err(|error| match error {
            qanat_disk::area::AreaError::Unprepared => {
                format!("{}: {error}; `qanat disk prepare` makes it a disk", self.on.display())
            }
            error => format!("{}: {error}", self.on.display()),
        })?;
        for repair in repairs {
            log::warning!("disk", "superblock {} was {}, and has been written again", repair.copy, repair.was);
        }
        Ok(areas)
    }
}

/// Who runs this: areas are theirs.
pub fn owner() -> Owner {
    Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}

/// Zeroes all that is reserved for an area and not zeroed yet, with a bar that shows how far it is.
pub fn zero(areas: &mut Areas<Uring>, id: u64) -> Result<(), String> {
    const STEP_BYTES: u64 = 64 << 20;
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent}% {eta}").expect("the template is constant");
    bar.set_style(style.progress_chars("=> "));
    bar.set_message("zeroing");
    let total = areas.iter().find(|area| area.id() == id).map_or(0, |area| area.reserved_bytes());
    bar.set_length(total);
    loop {
        let left = areas.zero_some(id, STEP_BYTES).map_err(|error| error.to_string())?;
        bar.set_position(total - left);
        if left == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
    }
}
