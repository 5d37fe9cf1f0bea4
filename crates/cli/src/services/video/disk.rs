//! The disk of films: which, and opened for a command while nobody serves them.

use crate::disk::area_name;
use crate::services::area;
use clap::Args;
use qanat::disk::AreaName;
use qanat::{AreaBuffers, Storage, entropy};
use qanat_video::offline::Session;
use qanat_web::content::PIECE_BYTES;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const BUFFERS: AreaBuffers = AreaBuffers { count: 128, bytes: PIECE_BYTES as u32 };

/// Where the films are.
#[derive(Args)]
pub struct DiskArguments {
    /// The disk: a file, a block device, or one of the daemon's by its name
    #[arg(long, value_name = "DISK", global = true)]
    pub disk: Option<PathBuf>,
    /// The area on it
    #[arg(long, value_name = "NAME", default_value = "films", value_parser = area_name, global = true)]
    pub area: AreaName,
}

impl DiskArguments {
    /// The disk, which has to be named.
    pub fn disk(&self) -> Result<&PathBuf, String> {
        self.disk
            .as_ref()
            .ok_or_else(|| "say --disk: the file, the block device or the daemon's disk with the films".to_owned())
    }
}

fn storage(disk: &DiskArguments, made: Option<u64>) -> Result<Storage, String> {
    area::open_stopped(disk.disk()?, &disk.area, made, BUFFERS)
}

/// Opens the films to read them.
pub fn open(disk: &DiskArguments) -> Result<Session, String> {
    Session::open(storage(disk, None)?).map_err(|error| failed(disk, error))
}

/// Opens them to be changed. `made`: the size of a file that is made if there is none.
pub fn open_to_change(disk: &DiskArguments, made: Option<u64>) -> Result<Session, String> {
    let random = entropy().map_err(|error| format!("no entropy: {error}"))?;
    let identity = random.first_chunk::<16>().ok_or("too few random bytes")?;
    Session::open_to_change(storage(disk, made)?, *identity).map_err(|error| failed(disk, error))
}

/// What went wrong, and where.
pub fn failed(disk: &DiskArguments, error: impl std::fmt::Display) -> String {
    let place = disk.disk.as_ref().map(|disk| disk.display().to_string()).unwrap_or_default();
    format!("{place}, area {}: {error}", disk.area)
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
