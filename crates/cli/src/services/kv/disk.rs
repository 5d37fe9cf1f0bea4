//! The disk of a store, for commands that work on it while the service is stopped.

use crate::disk::area_name;
use crate::services::area;
use clap::Args;
use qanat::disk::AreaName;
use qanat::{AreaBuffers, Storage};
use std::path::PathBuf;

/// Buffers of the log, each as large as a frame of it.
pub const BUFFERS: AreaBuffers = AreaBuffers { count: 64, bytes: 64 << 10 };

/// Which store.
#[derive(Args)]
pub struct DiskArguments {
    /// The disk of the store, whose service is stopped: a file, a block device, or one of the daemon's by its name
    #[arg(long, value_name = "DISK")]
    pub disk: PathBuf,
    /// The area on it
    #[arg(long, value_name = "NAME", default_value = "kv", value_parser = area_name)]
    pub area: AreaName,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Opens it. `made`: the size of a file that is made if there is none; without it nothing is made or changed.
pub fn open_stopped(arguments: &DiskArguments, made: Option<u64>) -> Result<Storage, String> {
    area::open_stopped(&arguments.disk, &arguments.area, made, BUFFERS)
}
