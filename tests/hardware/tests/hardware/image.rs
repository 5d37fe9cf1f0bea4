//! The file system of the machine: our program, some others with their libraries, the kernel's modules.

use super::archive::Archive;
use super::parts::Parts;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules, each after those that it needs.
const MODULES: [&str; 19] = [
    "irqbypass",
    "vfio",
    "vfio_iommu_type1",
    "vfio-pci-core",
    "vfio-pci",
    "i2c-algo-bit",
    "dca",
    "pps_core",
    "ptp",
    "igb",
    "llc",
    "stp",
    "garp",
    "mrp",
    "8021q",
    "nvme-keyring",
    "nvme-auth",
    "nvme-core",
    "nvme",
];

/// The first program.
const INIT: &str = "#!/bin/busybox sh
export PATH=/bin RUST_BACKTRACE=1
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mount -t tmpfs tmpfs /tmp
busybox ip link set lo up
while read module; do busybox insmod /modules/$module; done < /modules/order
/bin/hardware-guest
busybox sync
busybox poweroff -f
";

fn output_of(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}

/// The libraries a program needs, its loader included.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let text = output_of(Command::new("ldd").arg(program))?;
    let text = String::from_utf8_lossy(&text);
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(|word| PathBuf::from(word.trim_end_matches(':'))).collect())
}

/// Files of the kernel's modules below a directory, by the names that modules have.
fn modules(below: &Path, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(below)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            modules(&path, found)?;
        } else if let Some((name, _)) = name.split_once(".ko") {
            found.push((name.to_owned(), path));
        }
    }
    Ok(())
}

/// Adds a file, and the directories above it that are not there yet.
fn add(archive: &mut Archive<impl io::Write>, there: &mut BTreeSet<String>, name: &str, data: &[u8]) -> io::Result<()> {
    let name = name.trim_start_matches('/');
    for (place, _) in name.match_indices('/') {
        if there.insert(name[..place].to_owned()) {
            archive.directory(&name[..place])?;
        }
    }
    if there.insert(name.to_owned()) { archive.file(name, data) } else { Ok(()) }
}

/// A program without what only a debugger reads, which is most of ours. `beside`: where there is room for it.
fn stripped(program: &Path, beside: &Path) -> io::Result<Vec<u8>> {
    let file = beside.with_extension("stripped");
    output_of(Command::new("strip").args(["--strip-debug", "-o"]).arg(&file).arg(program))?;
    let bytes = fs::read(&file)?;
    fs::remove_file(&file)?;
    Ok(bytes)
}

/// Writes the file system to `path`.
///
/// # Errors
/// A part is missing, or what the system says.
pub fn build(path: &Path, guest: &Path, parts: &Parts) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(path)?));
    let mut there = BTreeSet::new();
    for directory in ["dev", "proc", "sys", "tmp", "run", "etc"] {
        there.insert(directory.to_owned());
        archive.directory(directory)?;
    }
    archive.device("dev/console", (5, 1))?;
    add(&mut archive, &mut there, "init", INIT.as_bytes())?;
    add(&mut archive, &mut there, "bin/hardware-guest", &stripped(guest, path)?)?;
    let mut libraries_needed: BTreeSet<PathBuf> = libraries(guest)?.into_iter().collect();
    for program in &parts.programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        add(&mut archive, &mut there, &format!("bin/{name}"), &stripped(program, path)?)?;
        libraries_needed.extend(libraries(program)?);
    }
    for library in &libraries_needed {
        add(&mut archive, &mut there, &library.to_string_lossy(), &fs::read(library)?)?;
    }
    let mut known = Vec::new();
    modules(&parts.modules, &mut known)?;
    let mut order = String::new();
    for wanted in MODULES {
        // One that is not there is a part of the kernel itself.
        let same = |name: &str| name.replace('_', "-") == wanted.replace('_', "-");
        let Some((_, file)) = known.iter().find(|(name, _)| same(name)) else { continue };
        let is_compressed = file.extension().is_some_and(|ending| ending == "xz");
        let data = if is_compressed { output_of(Command::new("xz").arg("-dc").arg(file))? } else { fs::read(file)? };
        add(&mut archive, &mut there, &format!("modules/{wanted}.ko"), &data)?;
        // Each controller's namespaces have block devices of their own.
        let parameters = if wanted == "nvme-core" { " multipath=N" } else { "" };
        order.push_str(&format!("{wanted}.ko{parameters}\n"));
    }
    add(&mut archive, &mut there, "modules/order", order.as_bytes())?;
    archive.finish()
}
