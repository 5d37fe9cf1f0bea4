//! `qanat disk list`: the areas of a disk, or the disks of the daemon.

use super::place::{Place, find, hexadecimal, open};
use super::size;
use crate::columns::fitted;
use crate::daemon::DaemonArguments;
use crate::log;
use crate::say::{say, sayln};
use clap::Args;
use qanat_control::name::printable;
use qanat_control::protocol::{AreaFence, AreaStatus, DiskState, DiskStatus};
use qanat_disk::area::{Area, AreaState, Fence};
use qanat_disk::{DiskOptions, Vsic};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Show disks and their areas, what is free, and how far new areas are zeroed
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk list                        the daemon's disks, with one's own areas; root sees all
  qanat disk list --on fast              one of them
  qanat disk list --on ./fast.img        of a file or device
  sudo qanat disk list --on pci:01:00.0  of an NVMe function that vfio-pci has
  qanat disk list --on ./fast.img --json   with extents, for programs")]
pub struct Arguments {
    /// One disk: of the daemon's by its name, or a file or block device
    #[arg(long, value_name = "DISK")]
    on: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArguments,
}

/// Shows them.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments { on, json, daemon } = arguments;
    let (session, name) = match on {
        None => (daemon.session()?, None),
        Some(on) => match find(on, daemon) {
            Place::Daemon(session, name) => (session, Some(name)),
            Place::File(path) => return list_file(&path, daemon, *json),
        },
    };
    let mut disks = session.disks().map_err(|error| error.to_string())?;
    if *json && let Some(name) = name {
        let disk = disks.iter().find(|disk| disk.name == name).ok_or_else(|| format!("the disk {name} is gone"))?;
        sayln!("{}", disk_json(disk));
        return Ok(());
    }
    disks.retain(|disk| name.as_ref().is_none_or(|name| disk.name == *name));
    if *json {
        sayln!("{}", disks_json(&disks));
    } else if disks.is_empty() {
        log::info!("disk-list", "no disks that you may know of: root adds one by `qanat disk add`");
    } else {
        disks.iter().for_each(|disk| say!("{}", fitted(&disk_text(disk))));
    }
    Ok(())
}

/// Disks of the daemon's, for programs.
pub fn disks_json(disks: &[DiskStatus]) -> Value {
    disks.iter().map(disk_json).collect()
}

fn disk_json(disk: &DiskStatus) -> Value {
    let (state, why) = match &disk.state {
        DiskState::Opening => ("opening", None),
        DiskState::Ready => ("ready", None),
        DiskState::Failed(why) => ("failed", Some(why)),
    };
    let areas: Vec<Value> = disk.areas.iter().map(area_json).collect();
    json!({
        "disk": disk.name, "path": disk.path, "state": state, "why": why, "bytes": disk.bytes, "free_bytes": disk.free_bytes,
        "block_bytes": disk.block_bytes, "fenced": disk.fenced, "volatile_cache": disk.volatile_cache, "completions": disk.completions,
        "area_count": disk.area_count, "areas": areas,
    })
}

fn area_json(area: &AreaStatus) -> Value {
    json!({
        "name": area.name, "number": area.number, "uid": area.user, "bytes": area.bytes,
        "reserved_bytes": area.reserved_bytes, "pieces": area.pieces, "rate": area.rate, "fence": area.fence, "handles": area.handles,
        "is_deleted": area.is_deleted, "fault": area.fault,
    })
}

/// A disk of the daemon's, some lines.
pub fn disk_text(disk: &DiskStatus) -> String {
    let path = printable(&disk.path.to_string_lossy()).into_owned();
    let name = printable(&disk.name);
    let mut text = match &disk.state {
        DiskState::Opening => format!("Disk {name} ({path}): it is being opened\n"),
        DiskState::Failed(why) => format!("Disk {name} ({path}): it can't be used: {}\n", printable(why)),
        DiskState::Ready => {
            let (bytes, free) = (size::text(disk.bytes), size::text(disk.free_bytes));
            format!("Disk {name} ({path}): {bytes}, {free} free, {} areas\n", disk.area_count)
        }
    };
    if let Some(completions) = &disk.completions {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}", printable(completions));
    }
    let width = disk.areas.iter().map(|area| area.name.len()).max().unwrap_or(0);
    for area in &disk.areas {
        let AreaStatus { name, user, bytes, reserved_bytes, .. } = area;
        // Writing to a String cannot fail.
        let _ = write!(text, "  {name:width$}  {}, of user {user}", size::text(*reserved_bytes));
        if area.fence != AreaFence::Core {
            let _ = write!(text, ", {}", area.fence);
        }
        if bytes < reserved_bytes {
            let _ = write!(text, ", {} % zeroed", bytes * 100 / (*reserved_bytes).max(1));
        }
        if area.rate.requests_per_s > 0 || area.rate.bytes_per_s > 0 {
            let _ = write!(text, ", at most {}", area.rate);
        }
        if area.handles > 0 {
            let _ = write!(text, ", {} handles", area.handles);
        }
        if area.is_deleted {
            text.push_str(", deleted: its space is free once nobody uses it");
        }
        if let Some(fault) = &area.fault {
            let _ = write!(text, ", which could not be zeroed: {}", printable(fault));
        }
        text.push('\n');
    }
    text
}

fn fields(area: &Area) -> Value {
    let extents: Vec<_> = area.extents().iter().map(|extent| [extent.unit, extent.units]).collect();
    json!({
        "name": area.name().as_str(),
        "number": area.id(),
        "is_deleted": area.state() == AreaState::Doomed,
        "fence": match area.fence() {
            Fence::Core => AreaFence::Core,
            Fence::Partition => AreaFence::Partition,
            Fence::File => AreaFence::File,
        },
        "bytes": area.bytes(),
        "reserved_bytes": area.reserved_bytes(),
        "uid": area.owner().uid,
        "gid": area.owner().gid,
        "extents": extents,
    })
}

fn list_file(path: &Path, daemon: &DaemonArguments, is_json: bool) -> Result<(), String> {
    let (mut areas, completions) = open(path, daemon, DiskOptions::default(), &[])?;
    let (total, free, epoch) = (areas.disk_bytes(), areas.free_bytes(), areas.epoch());
    let identity = hexadecimal(areas.identity());
    let geometry = areas.disk().geometry();
    if is_json {
        let list: Vec<_> = areas.iter().map(fields).collect();
        sayln!(
            "{}",
            json!({
                "disk": path, "identity": identity, "epoch": epoch, "bytes": total, "free_bytes": free,
                "block_bytes": geometry.block_bytes, "volatile_cache": geometry.volatile_cache,
                "forced_unit_access": geometry.forced_unit_access, "completions": completions, "areas": list,
            })
        );
        return Ok(());
    }
    let cache = if geometry.volatile_cache { "with a volatile cache" } else { "without a volatile cache" };
    sayln!("{}  {}, {} free", path.display(), size::text(total), size::text(free));
    sayln!("blocks of {} bytes, {cache}; identity {identity}, epoch {epoch}", geometry.block_bytes);
    sayln!("{completions}");
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
        let state = match area.state() {
            AreaState::Ready => state,
            AreaState::Doomed => ", deleted: the daemon frees its space once nobody uses it".to_owned(),
        };
        let name = area.name().as_str();
        sayln!("  {name:width$}  {}, {pieces}, of user {}{state}", size::text(area.bytes()), area.owner().uid);
    }
    Ok(())
}
