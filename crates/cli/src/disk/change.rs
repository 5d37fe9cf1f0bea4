//! `qanat disk create`, `grow`, `delete`, `limit`: changes of a disk's areas.

use super::asked;
use super::place::{Place, PlaceArguments, name, owner, zero};
use super::size;
use crate::daemon::parse_number;
use crate::say;
use clap::Args;
use qanat_control::protocol::{AreaPath, DiskRate, Request};
use qanat_disk::area::{AreaError, AreaLimits, AreaName, Areas};
use qanat_disk::{DiskOptions, Vsic};

/// Create an area: reserved, zeroed and recorded on the disk when this returns
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk create logs --on fast --size 512M           on a disk of the daemon's, by the policy
  qanat disk create logs --on ./fast.img --size 256M     on a file of one's own
  qanat disk create logs --on nvme --size 8G --fenced    a partition, which its user drives without the disk core
  qanat disk create logs --on fast --size 64G --no-wait --json")]
pub struct CreateArguments {
    /// Its name, unique on the disk
    #[arg(value_parser = name)]
    name: AreaName,
    /// Its size
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    /// On a disk of the daemon's that is a whole device: the kernel fences the area, as a partition. Its user needs no disk core, and has no
    /// limits. (On a directory, every area is a file of its own.)
    #[arg(long)]
    fenced: bool,
    /// On a disk of the daemon's: return when the area is recorded; zeroing goes on (`qanat disk status` says how far)
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Make an area larger. What is new is zeroed
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk grow logs --on fast --size 1G          to 1 GiB in all, while it is used
  qanat disk grow logs --on ./fast.img --size 512M")]
pub struct GrowArguments {
    /// Which
    #[arg(value_parser = name)]
    name: AreaName,
    /// Its size from now on
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    /// On a disk of the daemon's: return when the growth is recorded
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Delete an area, with all that is in it
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk delete logs --on fast          its space is free once nobody uses it
  qanat disk delete logs --on ./fast.img")]
pub struct DeleteArguments {
    /// Which
    #[arg(value_parser = name)]
    name: AreaName,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Limit what may be asked of an area
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk limit logs --on fast --requests 20k --bytes 200M    a second
  qanat disk limit logs --on fast                                no limit but the policy's for all of a user's areas (disk_rate)")]
pub struct LimitArguments {
    /// Which
    #[arg(value_parser = name)]
    name: AreaName,
    /// Requests a second
    #[arg(long, value_name = "RATE", value_parser = parse_number, default_value = "0", hide_default_value = true)]
    requests: u64,
    /// Bytes a second
    #[arg(long, value_name = "RATE", value_parser = parse_number, default_value = "0", hide_default_value = true)]
    bytes: u64,
    #[command(flatten)]
    place: PlaceArguments,
}

fn told(place: &PlaceArguments, name: &AreaName, bytes: u64, what: &str) {
    let fields = serde_json::json!({ "disk": place.on, "area": name.as_str(), "bytes": bytes });
    say::done(place.json, &fields, &format!("{}: the area {name} {what}", place.on.display()));
}

/// Zeroes what is new of an area; its bytes.
fn zeroed(areas: &mut Areas<impl Vsic>, name: &AreaName) -> Result<u64, AreaError> {
    let id = areas.get(name)?.id();
    zero(areas, id)?;
    Ok(areas.get(name)?.bytes())
}

fn path(disk: String, name: &AreaName) -> AreaPath {
    AreaPath { disk, area: name.to_string() }
}

/// Creates one.
pub fn create(arguments: &CreateArguments) -> Result<(), String> {
    let CreateArguments { name, size, fenced, no_wait, place } = arguments;
    let bytes = match place.find() {
        Place::Daemon(session, disk) => {
            let path = path(disk, name);
            let area =
                asked::area(&session, Request::CreateArea { path: path.clone(), bytes: *size, fenced: *fenced })?;
            if *no_wait {
                let what = format!("has {}, and is being zeroed", size::text(area.reserved_bytes));
                told(place, name, area.reserved_bytes, &what);
                return Ok(());
            }
            asked::zeroed(&session, &path, area.number)?.bytes
        }
        Place::File(_) if *fenced => {
            return Err(format!(
                "{}: no disk of the daemon's, and only the daemon has the kernel fence areas: leave --fenced out, or                  `sudo qanat disk add` the device",
                place.on.display()
            ));
        }
        Place::File(_) => {
            let mut areas = place.open(DiskOptions::default(), &[])?;
            let created = areas.create(name.clone(), owner(), *size).and_then(|_| zeroed(&mut areas, name));
            created.map_err(|error| place.failed(&error))?
        }
    };
    told(place, name, bytes, &format!("has {}, zeroed", size::text(bytes)));
    Ok(())
}

/// Makes one larger.
pub fn grow(arguments: &GrowArguments) -> Result<(), String> {
    let GrowArguments { name, size, no_wait, place } = arguments;
    let bytes = match place.find() {
        Place::Daemon(session, disk) => {
            let path = path(disk, name);
            let area = asked::area(&session, Request::GrowArea { path: path.clone(), bytes: *size })?;
            if *no_wait { area.reserved_bytes } else { asked::zeroed(&session, &path, area.number)?.bytes }
        }
        Place::File(_) => {
            let mut areas = place.open(DiskOptions::default(), &[])?;
            let grown = areas.grow(name, *size).and_then(|()| zeroed(&mut areas, name));
            grown.map_err(|error| place.failed(&error))?
        }
    };
    told(place, name, bytes, &format!("has {} now", size::text(bytes)));
    Ok(())
}

/// Deletes one.
pub fn delete(arguments: &DeleteArguments) -> Result<(), String> {
    let DeleteArguments { name, place } = arguments;
    if let Place::Daemon(session, disk) = place.find() {
        let area = asked::area(&session, Request::DeleteArea { path: path(disk, name) })?;
        let what = match area.handles {
            0 if area.reserved_bytes == 0 => "is gone".to_owned(),
            0 => "is deleted; its space is free once nobody uses it (somebody still has a descriptor of it)".to_owned(),
            held => format!("is deleted; its space is free once nobody uses it ({held} handles are open)"),
        };
        told(place, name, area.reserved_bytes, &what);
        return Ok(());
    }
    let mut areas = place.open(DiskOptions::default(), &[])?;
    let failed = |error: AreaError| place.failed(&error);
    let bytes = areas.get(name).map_err(failed)?.bytes();
    // The disk is open exclusively: nobody holds the area.
    let id = areas.delete(name).map_err(failed)?;
    areas.release(id).map_err(failed)?;
    told(place, name, bytes, &format!("is gone; {} are free", size::text(areas.free_bytes())));
    Ok(())
}

/// Limits one.
pub fn limit(arguments: &LimitArguments) -> Result<(), String> {
    let LimitArguments { name, requests, bytes, place } = arguments;
    let rate = DiskRate { requests_per_s: *requests, bytes_per_s: *bytes };
    match place.find() {
        Place::Daemon(session, disk) => {
            asked::area(&session, Request::LimitArea { path: path(disk, name), rate })?;
        }
        Place::File(_) => {
            let limits = AreaLimits { requests_per_second: *requests, bytes_per_second: *bytes };
            let mut areas = place.open(DiskOptions::default(), &[])?;
            areas.set_limits(name, limits).map_err(|error| place.failed(&error))?;
        }
    }
    let fields = serde_json::json!({ "disk": place.on, "area": name.as_str(), "rate": rate });
    say::done(place.json, &fields, &format!("{}: the area {name} has {rate}", place.on.display()));
    Ok(())
}
