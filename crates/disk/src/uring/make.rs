//! A file that is to be a disk, made.

use crate::error::OpenError;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a file of `bytes`, all of them its own from now on; `mode`: its permissions. Whatever fails leaves no file behind.
///
/// # Errors
/// [`OpenError::Exists`] if there is one, [`OpenError::Open`] with what the kernel says.
pub fn make_file(path: &Path, bytes: u64, mode: u32) -> Result<(), OpenError> {
    let failed = |error: io::Error| OpenError::Open { path: path.to_owned(), error };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => OpenError::Exists { path: path.to_owned() },
        _ => failed(error),
    })?;
    // A disk whose file system is full later would lose writes.
    reserve(&file, bytes).and_then(|()| sync_directory(path)).map_err(|error| {
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

/// Makes the file's name durable: what is on a disk that has no name is lost with it.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    fallocate(file, FallocateFlags::empty(), 0, bytes)?;
    file.sync_all()
}
