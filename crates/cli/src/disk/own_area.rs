//! A file that is one service's: it is made if it is not there, and so is the area on it.

use super::place::{owner, zero};
use super::prepare;
use qanat_disk::area::{AreaDisk, AreaError, AreaName, Areas, Extent};
use qanat_disk::{DiskFile, DiskOptions, Uring, make_file};
use qanat_nic::Region;
use std::path::Path;
use std::rc::Rc;

/// Opens the area `name` on the disk `path` for a service that is about to give up its rights; `buffers`: what it reads into and writes
/// from. If there is no file, one of `bytes` is made; if it is empty, it becomes a disk; if it has no such area, one of all that is
/// free. Whatever was killed in between is finished.
pub fn open(
    path: &Path,
    name: &AreaName,
    bytes: u64,
    options: DiskOptions,
    buffers: &[Rc<Region>],
) -> Result<AreaDisk<Uring>, String> {
    let (path, name) = (path.to_owned(), name.clone());
    // As with `PlaceArguments::open_area`: on a thread that ends.
    let found = std::thread::scope(|scope| scope.spawn(|| find(&path, &name, bytes, options)).join());
    let (file, extents, bytes) = found.map_err(|_| "the thread that reads the disk's table died".to_owned())??;
    let disk = Uring::over(file, buffers).map_err(|error| error.to_string())?;
    Ok(AreaDisk::new(disk, &extents, bytes))
}

fn find(
    path: &Path,
    name: &AreaName,
    bytes: u64,
    options: DiskOptions,
) -> Result<(DiskFile, Vec<Extent>, u64), String> {
    if !path.exists() {
        make_file(path, bytes, 0o600).map_err(|error| error.to_string())?;
    }
    let failed = |error: AreaError| format!("{}: {error}", path.display());
    let open = || {
        // Each attempt takes its memory with it.
        let memory = Areas::<Uring>::memory().map_err(failed)?;
        let disk = Uring::open(path, options, std::slice::from_ref(&memory)).map_err(|error| error.to_string())?;
        Ok::<_, String>(Areas::open(disk, &memory))
    };
    let mut areas = match open()? {
        Ok((areas, _)) => areas,
        Err(AreaError::Unprepared) => {
            prepare::prepare(path)?;
            open()?.map_err(failed)?.0
        }
        Err(error) => return Err(failed(error)),
    };
    if areas.get(name).is_err() {
        let free = areas.free_bytes();
        areas.create(name.clone(), owner(), free).map_err(failed)?;
    }
    let id = areas.get(name).map_err(failed)?.id();
    zero(&mut areas, id).map_err(failed)?;
    let area = areas.get(name).map_err(failed)?;
    let (extents, bytes) = (area.extents().to_vec(), area.bytes());
    Ok((areas.disk().file(), extents, bytes))
}
