//! The area of a service: opened for it, or for a command that works on it while the service is stopped.

use crate::daemon::DaemonArguments;
use crate::disk::{DiskPlace, PlaceArguments, daemon_area, own_area};
use qanat::disk::{AreaName, DiskOptions};
use qanat::{AreaBuffers, Storage, StorageArea};
use qanat_control::protocol::AreaPath;
use qanat_nic::Region;
use std::path::Path;

/// Opens the area. `made`: the size of a file that is made if there is none; without it nothing is made or changed.
pub fn open(disk: &Path, area: &AreaName, made: Option<u64>, buffers: AreaBuffers) -> Result<Storage, String> {
    let place = PlaceArguments { on: disk.to_owned(), json: false, daemon: DaemonArguments::default() };
    let mut storage = Storage::default();
    if let DiskPlace::Daemon(_, name) = place.find() {
        let path = AreaPath { disk: name, area: area.to_string() };
        storage.add(daemon_area::open(&place.daemon, path, buffers)?);
        return Ok(storage);
    }
    let AreaBuffers { count, bytes } = buffers;
    let region = Region::new(count, bytes).map_err(|error| format!("memory for buffers: {error}"))?;
    let pool = region.pool(count).ok_or("no buffers")?;
    let options = DiskOptions { depth: buffers.depth(), ..DiskOptions::default() };
    let regions = std::slice::from_ref(&region);
    storage.add(match made {
        Some(size) => StorageArea::new(Box::new(own_area::open(disk, area, size, options, regions)?), pool),
        None if !disk.exists() => {
            return Err(format!(
                "{}: there is no such file; --disk is what the service was started with",
                disk.display()
            ));
        }
        None => StorageArea::new(Box::new(place.open_area(area, options, regions)?), pool),
    });
    Ok(storage)
}

/// The same, for a command that needs the service to be stopped.
pub fn open_stopped(disk: &Path, area: &AreaName, made: Option<u64>, buffers: AreaBuffers) -> Result<Storage, String> {
    let hint = "; the service has to be stopped first, if it runs";
    open(disk, area, made, buffers).map_err(|error| format!("{error}{hint}"))
}
