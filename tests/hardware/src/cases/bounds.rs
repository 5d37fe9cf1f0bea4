//! What a controller reaches: what was mapped, and nothing else.

use super::rig::{buffers, frame_of, function, nvme, options};
use crate::kernel::messages;
use qanat_disk::nvme::vfio::FunctionTransport;
use qanat_disk::nvme::{Mapping, Nvme, NvmeError, NvmeOptions};
use qanat_disk::{Operation, Request, StorageError, Vsic};
use qanat_disk_suite::{one, read};
use qanat_nic::vfio::Function;
use qanat_nic::{MonotonicClock, Pool, Region};
use std::rc::Rc;

/// Where nothing is mapped, but the IOMMU could.
const NOWHERE: u64 = 0x20_0000_0000;

/// A controller whose buffers, or whose queues, are said to lie where nothing is mapped.
fn with_addresses(
    queues_at: Option<u64>,
    buffers_at: Option<u64>,
    options: NvmeOptions,
) -> Result<(Nvme<FunctionTransport>, Pool), NvmeError> {
    let mut function = Function::open(function()).expect("it can be opened");
    let (region, pool) = buffers();
    let queues = Region::new(1, options.memory_bytes().next_power_of_two() as u32).expect("memory");
    let frame = queues.pool(1).expect("a frame").allocate(0).expect("a frame");
    let mut map = |region: &Rc<Region>, at: Option<u64>| {
        let address = at.unwrap_or_else(|| function.map(region).expect("it can be mapped"));
        Mapping { region: Rc::clone(region), address }
    };
    let (queues, buffers) = (map(&queues, queues_at), map(&region, buffers_at));
    let transport = FunctionTransport::new(function).expect("it has registers");
    Nvme::open(transport, MonotonicClock::new(), options, (queues, frame), vec![buffers]).map(|nvme| (nvme, pool))
}

pub fn a_buffer_outside_is_refused() {
    let faults = messages("DMAR: [DMA");
    let (mut disk, pool) = with_addresses(None, Some(NOWHERE), options()).expect("its queues are mapped");
    let mut frame = frame_of(&pool, 4_096);
    frame.bytes_mut().fill(0x5a);
    let completion = one(&mut disk, Operation::Read { block: 0, frame });
    // QEMU's controller does not notice. Others do.
    assert!(matches!(completion.result, Ok(()) | Err(StorageError::Foreign)), "{completion:?}");
    assert!(completion.frame.expect("a frame").bytes().iter().all(|byte| *byte == 0x5a), "nothing arrived");
    // What needs no buffer goes on.
    assert_eq!(one(&mut disk, Operation::Flush).result, Ok(()));
    assert!(messages("DMAR: [DMA") > faults, "the IOMMU reported nothing");
    drop(disk);
    let (mut disk, pool) = nvme(options());
    assert!(read(&mut disk, &pool, 0, 512).is_ok(), "what is mapped is reached");
}

pub fn queues_outside_are_refused() {
    let error = with_addresses(Some(NOWHERE), None, options()).map(drop).expect_err("its queues can't be reached");
    assert_eq!(error, NvmeError::Failed);
    let (mut disk, pool) = nvme(options());
    assert!(read(&mut disk, &pool, 0, 512).is_ok(), "it starts again");
}

pub fn without_bus_mastering_nothing_arrives() {
    let (mut disk, pool) = nvme(NvmeOptions { time_out: std::time::Duration::from_secs(2), ..options() });
    disk.transport_mut().function().set_bus_master(false).expect("it can be taken away");
    let mut frame = frame_of(&pool, 512);
    frame.bytes_mut().fill(0x5a);
    disk.submit(Request { token: 1, operation: Operation::Read { block: 0, frame } }).expect("there is room");
    disk.ring();
    let completions = super::rig::drain(&mut disk);
    assert!(completions[0].result.is_err(), "{completions:?}");
    let frame = completions.into_iter().find_map(|completion| completion.frame).expect("it comes back");
    assert!(frame.bytes().iter().all(|byte| *byte == 0x5a), "nothing arrived");
}
