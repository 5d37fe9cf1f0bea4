//! A disk of the daemon's that is an NVMe function: taken from the kernel, held by its core, given back.

use super::by_the_kernel::generic_of;
use super::house::House;
use super::rig::{drain, fill, frame_of, plain};
use super::without_kernel::NAMESPACE;
use crate::kernel::{bind, block_device, device, driver, eventually, nvme_of, write};
use qanat_control::client::OpenedArea;
use qanat_control::protocol::{AreaPath, AreaWish};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::shared::{SharedLayout, SharedTransport};
use qanat_disk::{Operation, StorageError};
use qanat_disk_suite::{one, read, refuses_what_cant_be_done, runs_as_the_model_says};
use qanat_nic::vfio::PciAddress;
use qanat_nic::{MonotonicClock, Pool};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// Opened for one program alone (`O_EXCL`).
const ALONE: i32 = 0o200;
/// Longer than a core must run to be started again.
const APART: Duration = Duration::from_millis(2_500);
/// A block that is written once, and what it has from then on.
const KEPT: (u64, u8) = (500, 0x5a);

fn options() -> NvmeOptions {
    NvmeOptions { depth: 32, ..NvmeOptions::default() }
}

/// Opens the area, once it can be had.
fn area(house: &House) -> (Nvme<SharedTransport>, Pool) {
    area_of(house, "fast", "logs")
}

/// An area of a disk.
fn area_of(house: &House, disk: &str, name: &str) -> (Nvme<SharedTransport>, Pool) {
    let layout = SharedLayout::new(&options(), 64, 16_384);
    let path = AreaPath { disk: disk.to_owned(), area: name.to_owned() };
    let wish = AreaWish { path, read_only: false, layout };
    eventually("the area", || {
        let (_, OpenedArea::Shared(shared)) = house.session().open_area(wish.clone()).ok()? else { return None };
        shared.open(MonotonicClock::new(), options()).ok()
    })
}

/// The process that has the disk.
fn core() -> u32 {
    let is_core = |id: &u32| {
        fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == b"disk-core"))
    };
    let found = || {
        let entries = fs::read_dir("/proc").ok()?.flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_core)
    };
    eventually("a disk core", found)
}

/// Does `harm` while requests are under way. Each ends once, and what was durable is there afterwards.
fn survives(house: &House, harm: impl FnOnce()) {
    let (mut disk, pool) = area(house);
    let depth = fill(&mut disk, &pool);
    harm();
    // So that there is something that can't be done any more.
    let completions = drain(&mut disk);
    assert_eq!(completions.len(), depth);
    eventually("the end is noticed", || one(&mut disk, Operation::Flush).result.is_err().then_some(()));
    let known =
        |result: Result<(), StorageError>| !matches!(result, Err(StorageError::OutOfRange | StorageError::Foreign));
    assert!(completions.iter().all(|completion| known(completion.result)), "{completions:?}");
    drop((completions, disk, pool));
    let (mut disk, pool) = area(house);
    let frame = read(&mut disk, &pool, KEPT.0, 512).expect("it can be read again");
    assert!(frame.bytes().iter().all(|byte| *byte == KEPT.1), "what was durable is there");
}

pub fn serves_areas(house: &House) {
    let (_, function): (_, PciAddress) = nvme_of("areas");
    let told = house.refuses(&format!("add fast --pci {function}"));
    assert!(told.contains("driver nvme") && told.contains("--take"), "{told}");
    let path = block_device(function, 1);
    let holder = OpenOptions::new().read(true).custom_flags(ALONE).open(&path).expect("nobody has it");
    let told = house.refuses(&format!("add fast --pci {function} --take"));
    assert!(told.contains(&path.display().to_string()) && told.contains("another program"), "{told}");
    assert_eq!(driver(function).as_deref(), Some("nvme"), "the kernel's driver keeps it");
    drop(holder);
    house.disk(&format!("add fast --pci {function} --take"));
    assert_eq!(driver(function).as_deref(), Some("vfio-pci"));
    house.disk("create logs --on fast --size 256K");
    let (mut disk, pool) = area(house);
    refuses_what_cant_be_done(&mut disk, &pool);
    for seed in 0..2 {
        runs_as_the_model_says(&mut disk, &pool, seed, 300);
    }
    let mut frame = frame_of(&pool, 512);
    frame.bytes_mut().fill(KEPT.1);
    assert_eq!(one(&mut disk, Operation::Write { block: KEPT.0, frame, durable: true }).result, Ok(()));
    drop((disk, pool));

    survives(house, || drop(crate::program::run(&format!("busybox kill -KILL {}", core()))));
    std::thread::sleep(APART);
    survives(house, || write(device(function).join("reset"), "1"));
}

/// A daemon that comes after one that was killed has the disk again, and what was durable is on it. Then it is given back.
pub fn is_there_again(house: &House) {
    let (mut disk, pool) = area(house);
    let frame = read(&mut disk, &pool, KEPT.0, 512).expect("it can be read again");
    assert!(frame.bytes().iter().all(|byte| *byte == KEPT.1), "what was durable is there");
    drop((frame, disk, pool));
    house.disk("remove fast");
    let (_, function) = nvme_of("areas");
    assert_eq!(driver(function).as_deref(), Some("nvme"), "the kernel has it again");
}

/// A namespace that is not the first.
pub fn of_a_namespace(house: &House) {
    bind(plain(), "nvme");
    let told = house.refuses(&format!("add roomy --pci {} --namespace 77 --take", plain()));
    assert!(told.contains("namespace 77"), "{told}");
    eventually("it is given back", || (driver(plain()).as_deref() == Some("nvme")).then_some(()));
    nvme_of("plain");
    house.disk(&format!("add roomy --pci {} --namespace {NAMESPACE} --take", plain()));
    assert!(house.disk("list --on roomy").contains("8 MiB"), "{}", house.disk("list --on roomy"));
    serves(house, "roomy");
    house.disk("remove roomy");
    eventually("it is given back", || (driver(plain()).as_deref() == Some("nvme")).then_some(()));
    // The same by commands that the kernel passes through: what was prepared is there.
    let generic = generic_of(&block_device(plain(), NAMESPACE));
    house.disk(&format!("add roomy --file {}", generic.display()));
    let listed = house.disk("list --on roomy");
    assert!(listed.contains("8 MiB") && listed.contains("nvme.poll_queues"), "{listed}");
    serves(house, "roomy");
    house.disk("remove roomy");
}

/// An area on a disk does what all disks do. It is deleted again.
fn serves(house: &House, disk: &str) {
    // Another case has left an area called logs.
    house.disk(&format!("create more --on {disk} --size 256K"));
    let (mut area, pool) = area_of(house, disk, "more");
    refuses_what_cant_be_done(&mut area, &pool);
    runs_as_the_model_says(&mut area, &pool, 5, 200);
    drop((area, pool));
    house.disk(&format!("delete more --on {disk}"));
}
