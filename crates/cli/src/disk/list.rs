//! `qanat disk list`: the areas of a disk.

use super::place::{PlaceArguments, hexadecimal};
use super::size;
use crate::say::sayln;
use clap::Args;
use qanat_disk::area::Area;
use qanat_disk::{DiskOptions, Vsic};

/// Show a disk's areas, what it is like, and what is free
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk list --on fast.img
  qanat disk list --on fast.img --json    with extents, for programs")]
pub struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,
}

fn fields(area: &Area) -> serde_json::Value {
    let extents: Vec<_> = area.extents().iter().map(|extent| [extent.unit, extent.units]).collect();
    serde_json::json!({
        "name": area.name().as_str(),
        "bytes": area.bytes(),
        "reserved_bytes": area.reserved_bytes(),
        "uid": area.owner().uid,
        "gid": area.owner().gid,
        "extents": extents,
    })
}

/// Shows them.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let place = &arguments.place;
    let mut areas = place.open(DiskOptions::default(), &[])?;
    let (total, free, epoch) = (areas.disk_bytes(), areas.free_bytes(), areas.epoch());
    let identity = hexadecimal(areas.identity());
    let geometry = areas.disk().geometry();
    if place.json {
        let list: Vec<_> = areas.iter().map(fields).collect();
        sayln!(
            "{}",
            serde_json::json!({
                "disk": place.on, "identity": identity, "epoch": epoch, "bytes": total, "free_bytes": free,
                "block_bytes": geometry.block_bytes, "volatile_cache": geometry.volatile_cache,
                "forced_unit_access": geometry.forced_unit_access, "areas": list,
            })
        );
        return Ok(());
    }
    let cache = if geometry.volatile_cache { "with a volatile cache" } else { "without a volatile cache" };
    sayln!("{}  {}, {} free", place.on.display(), size::text(total), size::text(free));
    sayln!("blocks of {} bytes, {cache}; identity {identity}, epoch {epoch}", geometry.block_bytes);
    let width = areas.iter().map(|area| area.name().as_str().len()).max().unwrap_or(0);
    for area in areas.iter() {
        let state = match area.reserved_bytes() - area.bytes() {
            0 => String::new(),
            left => format!(", {} still to be zeroed", size::text(left)),
        };
        let pieces = match area.extents().len() {
            1 => "in one piece".to_owned(),
            count => format!("in {count} pieces"),
        };
        let name = area.name().as_str();
        sayln!("  {name:width$}  {}, {pieces}, of user {}{state}", size::text(area.bytes()), area.owner().uid);
    }
    Ok(())
}
