//! The kernel's driver of a controller, asked by io_uring: a namespace's block device, and its generic device, whose commands are passed
//! through. Completions come by interrupts, or are polled for where the driver has a queue for that.

use super::rig::{buffers, plain};
use crate::kernel::{bind, block_device, eventually, write};
use qanat_disk::{DiskOptions, OpenError, Polling, Uring, Vsic};
use qanat_disk_suite as suite;
use std::path::{Path, PathBuf};

/// Runs of random operations, and operations in each.
const SEEDS: u64 = 2;
const OPERATIONS: u64 = 300;

/// The generic device of the namespace that a block device is of.
pub fn generic_of(block: &Path) -> PathBuf {
    let name = block.file_name().expect("a name").to_string_lossy();
    let number = name.strip_prefix("nvme").expect("an NVMe device");
    let path = PathBuf::from(format!("/dev/ng{number}"));
    eventually("a generic device", || path.exists().then_some(()));
    path
}

fn open(path: &Path) -> Result<(Uring, qanat_nic::Pool), OpenError> {
    let (region, pool) = buffers();
    let disk = Uring::open(path, DiskOptions { depth: 32, ..DiskOptions::default() }, &[region])?;
    Ok((disk, pool))
}

/// Has the kernel's driver begin with so many queues that are polled; the devices of namespace 1.
fn with_polled_queues(count: u32) -> (PathBuf, PathBuf) {
    write(PathBuf::from("/sys/module/nvme/parameters/poll_queues"), &count.to_string());
    bind(plain(), "vfio-pci");
    bind(plain(), "nvme");
    let block = block_device(plain(), 1);
    let generic = generic_of(&block);
    (block, generic)
}

fn suits(polled_queues: u32, wanted: Polling) {
    let (block, generic) = with_polled_queues(polled_queues);
    for path in [&block, &generic] {
        let (mut disk, pool) = open(path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(disk.polling(), wanted, "{}", path.display());
        for seed in 0..SEEDS {
            suite::runs_as_the_model_says(&mut disk, &pool, seed, OPERATIONS);
            assert_eq!(pool.in_use_count(), 0, "seed {seed}: every buffer is back");
        }
        suite::refuses_what_cant_be_done(&mut disk, &pool);
        // Who has nothing under way may sleep. Who has must poll, if that is how it is.
        let operation = qanat_disk::Operation::Flush;
        disk.submit(qanat_disk::Request { token: 1, operation }).expect("there is room");
        assert_eq!(disk.doorbell().is_none(), wanted == Polling::Used, "{}", path.display());
        suite::next(&mut disk, &mut Vec::new());
    }
}

pub fn by_interrupts() {
    suits(0, Polling::NotOffered);
    assert!(Polling::NotOffered.to_string().contains("nvme.poll_queues"));
}

pub fn polled() {
    suits(1, Polling::Used);
    with_polled_queues(0);
}

pub fn whose_it_is() {
    let (block, generic) = with_polled_queues(0);
    for (first, others) in [(&block, &generic), (&generic, &block)] {
        let has = open(first).unwrap_or_else(|error| panic!("{error}"));
        for second in [others, first] {
            let error = open(second).map(drop).expect_err("one has it");
            assert!(matches!(error, OpenError::Busy { .. }), "{}: {error}", second.display());
        }
        drop(has);
        open(others).map(drop).unwrap_or_else(|error| panic!("{error}"));
    }
    // Not every character device is one.
    let error = open(Path::new("/dev/null")).map(drop).expect_err("no disk");
    assert!(matches!(error, OpenError::Kind { .. }) && error.to_string().contains("/dev/ng0n1"), "{error}");
}
