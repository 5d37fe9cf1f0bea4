//! `qanat disk create`, `grow`, `delete`: changes of a disk's areas.

use super::place::{PlaceArguments, name, owner, zero};
use super::size;
use crate::say;
use clap::Args;
use qanat_disk::area::{AreaError, AreaName, Areas};
use qanat_disk::{DiskOptions, Uring};

/// Create an area: reserved, zeroed and recorded on the disk when this returns
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk create logs --on fast.img --size 256M
  qanat disk create logs --on fast.img --size 256M --json")]
pub struct CreateArguments {
    /// Its name, unique on the disk
    #[arg(value_parser = name)]
    name: AreaName,
    /// Its size
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Make an area larger. What is new is zeroed
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk grow logs --on fast.img --size 512M    to 512 MiB in all")]
pub struct GrowArguments {
    /// Which
    #[arg(value_parser = name)]
    name: AreaName,
    /// Its size from now on
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Delete an area, with all that is in it
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk delete logs --on fast.img")]
pub struct DeleteArguments {
    /// Which
    #[arg(value_parser = name)]
    name: AreaName,
    #[command(flatten)]
    place: PlaceArguments,
}

fn told(place: &PlaceArguments, name: &AreaName, bytes: u64, what: &str) {
    let fields = serde_json::json!({ "disk": place.on, "area": name.as_str(), "bytes": bytes });
    say::done(place.json, &fields, &format!("{}: the area {name} {what}", place.on.display()));
}

/// Zeroes what is new of an area; its bytes.
fn zeroed(areas: &mut Areas<Uring>, name: &AreaName) -> Result<u64, AreaError> {
    let id = areas.get(name)?.id();
    zero(areas, id)?;
    Ok(areas.get(name)?.bytes())
}

/// Creates one.
pub fn create(arguments: &CreateArguments) -> Result<(), String> {
    let CreateArguments { name, size, place } = arguments;
    let mut areas = place.open(DiskOptions::default(), &[])?;
    let created = areas.create(name.clone(), owner(), *size).and_then(|_| zeroed(&mut areas, name));
    let bytes = created.map_err(|error| place.failed(&error))?;
    told(place, name, bytes, &format!("has {}, zeroed", size::text(bytes)));
    Ok(())
}

/// Makes one larger.
pub fn grow(arguments: &GrowArguments) -> Result<(), String> {
    let GrowArguments { name, size, place } = arguments;
    let mut areas = place.open(DiskOptions::default(), &[])?;
    let grown = areas.grow(name, *size).and_then(|()| zeroed(&mut areas, name));
    let bytes = grown.map_err(|error| place.failed(&error))?;
    told(place, name, bytes, &format!("has {} now", size::text(bytes)));
    Ok(())
}

/// Deletes one.
pub fn delete(arguments: &DeleteArguments) -> Result<(), String> {
    let DeleteArguments { name, place } = arguments;
    let mut areas = place.open(DiskOptions::default(), &[])?;
    let failed = |error: AreaError| place.failed(&error);
    let bytes = areas.get(name).map_err(failed)?.bytes();
    // The disk is open exclusively: nobody holds the area.
    let id = areas.delete(name).map_err(failed)?;
    areas.release(id).map_err(failed)?;
    told(place, name, bytes, &format!("is gone; {} are free", size::text(areas.free_bytes())));
    Ok(())
}
