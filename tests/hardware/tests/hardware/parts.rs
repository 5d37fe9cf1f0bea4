//! What the machine is made of, which `tools/hardware-machine` gets.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where it puts what is not installed.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/hardware");

pub struct Parts {
    pub qemu: PathBuf,
    pub kernel: PathBuf,
    /// Below it are the kernel's modules.
    pub modules: PathBuf,
    /// Programs of this machine that the other gets, too.
    pub programs: Vec<PathBuf>,
}

/// A program that is installed.
fn program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
}

impl Parts {
    /// # Errors
    /// What is missing, and the remedy.
    pub fn find() -> Result<Parts, String> {
        let remedy = "run tools/hardware-machine (Debian), which gets it";
        let needed = |name: &str| program(name).ok_or_else(|| format!("there is no {name}: {remedy}"));
        let root = Path::new(DIRECTORY);
        let (kernel, modules) = (root.join("kernel/vmlinuz"), root.join("kernel/modules"));
        if !kernel.exists() || !modules.exists() {
            return Err(format!("there is no kernel in {}: {remedy}", root.display()));
        }
        let qemu = needed("qemu-system-x86_64")?;
        let devices = Command::new(&qemu).args(["-device", "help"]).output();
        let devices = devices.map_err(|error| format!("{}: {error}", qemu.display()))?;
        if !String::from_utf8_lossy(&devices.stdout).contains("\"igb\"") {
            return Err(format!("{} has no igb (QEMU 8.0 or newer has): {remedy}", qemu.display()));
        }
        let qanat = match std::env::var_os("QANAT_BIN") {
            Some(path) => PathBuf::from(path),
            None => root.join("../release/qanat"),
        };
        if !qanat.exists() {
            return Err(format!("there is no {}: `make build`", qanat.display()));
        }
        Ok(Parts {
            qemu,
            kernel,
            modules,
            programs: ["busybox", "nvme", "ip", "strace"]
                .into_iter()
                .map(needed)
                .chain([Ok(qanat)])
                .collect::<Result<_, _>>()?,
        })
    }
}
