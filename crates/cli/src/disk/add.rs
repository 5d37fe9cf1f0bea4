//! `qanat disk add` and `remove`: the disks that the daemon has.

use super::size;
use crate::daemon::{DaemonArguments, TellArguments};
use crate::say::done;
use clap::Args;
use qanat_control::protocol::{DiskWish, FunctionWish, Request};
use qanat_nic::vfio::PciAddress;
use serde_json::json;
use std::path::PathBuf;

/// Have the daemon take a file or block device as a disk, on which users have areas by the policy
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat disk add fast --file /var/lib/qanat/fast.img --size 4G    makes the file
  sudo qanat disk add nvme --file /dev/nvme1n1                         a whole device, or a partition
  sudo qanat disk add site --directory /var/lib/qanat/site --size 4G   each area a file, used without a disk core
  sudo qanat disk add through --file /dev/ng1n1                        an NVMe namespace, its commands passed through
  sudo qanat disk add pci --pci 0000:01:00.0 --take                    an NVMe function, without the kernel
It is prepared if it is empty. Whatever is on it already is refused, never overwritten. The daemon opens it again whenever it starts.")]
pub struct AddArguments {
    /// What it is called
    name: String,
    /// The file, block device or NVMe generic device (/dev/ng0n1)
    #[arg(long, value_name = "PATH", required_unless_present_any = ["pci", "directory"])]
    file: Option<PathBuf>,
    /// A directory instead, in which each area is a file that its user drives without a disk core. It is made if it is missing. The
    /// user of such an area can take more of the file system for a moment: give it to those who may
    #[arg(long, value_name = "PATH", conflicts_with_all = ["file", "pci"])]
    directory: Option<PathBuf>,
    /// An NVMe function instead, driven by the disk's core over VFIO. vfio-pci must have it, or --take
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["file", "size"])]
    pci: Option<PciAddress>,
    /// Take the function from the kernel's driver, if nothing uses it there, and give it back when the disk is removed
    #[arg(long, requires = "pci")]
    take: bool,
    /// The function's namespace (default: the first)
    #[arg(long, value_name = "NUMBER", requires = "pci", value_parser = clap::value_parser!(u32).range(1..))]
    namespace: Option<u32>,
    /// The size of a file that is to be made; of a new directory, of all its areas together
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    #[command(flatten)]
    daemon: DaemonArguments,
    #[command(flatten)]
    tell: TellArguments,
}

/// Have the daemon let go of a disk. What is on it stays
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat disk remove fast    its areas stay on it: `qanat disk add` brings them back")]
pub struct RemoveArguments {
    /// Which
    name: String,
    #[command(flatten)]
    daemon: DaemonArguments,
    #[command(flatten)]
    tell: TellArguments,
}

/// Adds one.
pub fn add(arguments: &AddArguments) -> Result<(), String> {
    let AddArguments { name, file, directory, pci, take, namespace, size, daemon, tell } = arguments;
    let function = pci.map(|address| FunctionWish { address, namespace: *namespace, take: *take });
    let path = match (&function, file.as_ref().or(directory.as_ref())) {
        (Some(function), _) => function.path(),
        (None, Some(file)) => {
            let path = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
            // The same file is the same disk, whatever it is called.
            path.canonicalize().unwrap_or(path)
        }
        (None, None) => return Err("name a disk by --file, --directory or --pci".to_owned()),
    };
    let directory = directory.is_some();
    daemon.order(Request::AddDisk(DiskWish {
        name: name.clone(),
        path: path.clone(),
        size: *size,
        function,
        directory,
    }))?;
    let disks = daemon.session()?.disks().map_err(|error| error.to_string())?;
    let disk = disks.into_iter().find(|disk| disk.name == *name).ok_or_else(|| format!("the disk {name} is gone"))?;
    let (bytes, free) = (disk.bytes, disk.free_bytes);
    let fields = json!({ "disk": name, "path": path, "bytes": bytes, "free_bytes": free, "areas": disk.area_count });
    let text = format!(
        "{name}: a disk of {} with {} areas, {} of it free",
        size::text(bytes),
        disk.area_count,
        size::text(free)
    );
    done(tell.json, &fields, &text);
    Ok(())
}

/// Removes one.
pub fn remove(arguments: &RemoveArguments) -> Result<(), String> {
    let RemoveArguments { name, daemon, tell } = arguments;
    daemon.order(Request::RemoveDisk { disk: name.clone() })?;
    done(
        tell.json,
        &json!({ "disk": name }),
        &format!("The daemon has let go of the disk {name}; what is on it stays."),
    );
    Ok(())
}
