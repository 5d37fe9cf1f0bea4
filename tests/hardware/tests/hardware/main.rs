//! Drivers of PCI functions, on a virtual machine that has what this one may not: an IOMMU, NVMe and SR-IOV. No root needed.
//!
//! The machine is QEMU with Debian's kernel, which `tools/hardware-machine` gets. Its only program is `hardware-guest`, whose cases
//! are in `tests/hardware/src/cases`.
#![forbid(unsafe_code)]

mod archive;
mod image;
mod machine;
mod parts;
mod write_log;

use machine::{Machine, Outcome};
use parts::Parts;
use std::path::Path;

/// What runs in the machine.
const GUEST: &str = env!("CARGO_BIN_EXE_hardware-guest");

/// Machines that are begun with, at most, if QEMU ends itself.
const RUNS_MAX: u32 = 3;

/// Runs a machine with new disks.
fn run(parts: &Parts, image: &Path, directory: &Path) -> Outcome {
    let outcome = Machine::new(parts, image, directory).expect("disks for the machine").run();
    println!("{}", outcome.ended);
    outcome
}

#[test]
fn every_case_passes() {
    let parts = match Parts::find() {
        Ok(parts) => parts,
        Err(missing) => {
            assert!(std::env::var_os("QANAT_REQUIRE_ROOT").is_none(), "{missing}");
            println!("SKIPPED: {missing}");
            return;
        }
    };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let image = directory.path().join("initramfs");
    image::build(&image, Path::new(GUEST), &parts).expect("a file system for the machine");
    let mut outcome = run(&parts, &image, directory.path());
    for _ in 1..RUNS_MAX {
        if !outcome.has_crashed {
            break;
        }
        println!("QEMU ended itself by a signal, which is a fault of QEMU's: once more");
        outcome = run(&parts, &image, directory.path());
    }
    let begun = outcome.said("cases begin").expect("the machine did not come up");
    let ended = outcome.said("cases ended").expect("the machine did not end");
    let count = |text: &str| text.split(' ').next().and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    assert!(count(&begun) > 0 && count(&begun) == count(&ended), "{begun}; {ended}");
    assert_eq!(outcome.passed(), count(&begun), "{ended}: the lines above say which, and why");
    if let Some(logged) = outcome.said("writes logged") {
        let verdict = write_log::judge(&directory.path().join(machine::LOG)).expect("what was told as durable was");
        println!("hardware: the log of the drive: {verdict:?}");
        let is_whole = verdict.writes == count(&logged) && verdict.flushes > 0 && verdict.acknowledged > 0;
        assert!(is_whole, "{verdict:?}, and {logged}");
    }
}
