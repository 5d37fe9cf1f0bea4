//! `qanat disk prepare`: a file or device becomes a disk.

use super::device;
use super::place::hexadecimal;
use super::size;
use crate::say;
use clap::Args;
use qanat_disk::area::Areas;
use qanat_disk::{DiskOptions, make_file};
use std::path::{Path, PathBuf};

/// Make an empty file or block device a disk. Whatever is on it already is refused, never overwritten
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk prepare fast.img --size 1G          makes the file
  sudo qanat disk prepare /dev/sdx               a whole device, or a partition
  sudo qanat disk prepare pci:0000:01:00.0       an NVMe function that vfio-pci has
  qanat disk prepare fast.img --size 1G --json   its size and identity, for programs")]
pub struct Arguments {
    /// The file, block device, NVMe generic device, or pci:ADDRESS. A file that is not there is made
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The size of a file that is to be made
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prepares it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let path = &arguments.path;
    let made = make(path, arguments.size)?;
    let outcome = prepare(path);
    if outcome.is_err() && made {
        // The file is ours alone, and of no use to anybody.
        let _ = std::fs::remove_file(path);
    }
    let (bytes, free, identity) = outcome?;
    let identity = hexadecimal(identity);
    let fields = serde_json::json!({ "path": path, "bytes": bytes, "free_bytes": free, "identity": identity });
    let text = format!("{}: a disk of {}, {} of it free", path.display(), size::text(bytes), size::text(free));
    say::done(arguments.json, &fields, &text);
    Ok(())
}

/// Makes the file, if there is none; whether it did.
fn make(path: &Path, size: Option<u64>) -> Result<bool, String> {
    let is_function = device::function_of(path)?.is_some();
    if is_function && size.is_some() {
        return Err(format!("{}: a function has the size that it has: leave --size out", path.display()));
    }
    match (path.exists() || is_function, size) {
        (true, None) => Ok(false),
        (false, None) => Err(format!("{} is not there: say how large it is to be with --size", path.display())),
        (_, Some(bytes)) => make_file(path, bytes, 0o666).map(|()| true).map_err(|error| error.to_string()),
    }
}

fn prepare(path: &Path) -> Result<(u64, u64, [u8; 16]), String> {
    let memory = device::table_memory()?;
    let options = DiskOptions { depth: 8, ..DiskOptions::default() };
    let (disk, _) = device::open(path, options, std::slice::from_ref(&memory)).map_err(|error| error.to_string())?;
    let random = qanat::entropy().map_err(|error| format!("random bytes: {error}"))?;
    let identity = *random.first_chunk::<16>().ok_or("too few random bytes")?;
    let areas = Areas::prepare(disk, &memory, identity).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((areas.disk_bytes(), areas.free_bytes(), identity))
}
