//! A controller, buffers, and what tests do with them.

use crate::kernel::{bind, nvme_of};
use qanat_disk::nvme::vfio::{FunctionTransport, open};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::{Completion, Operation, Request, Vsic};
use qanat_nic::vfio::PciAddress;
use qanat_nic::{Frame, Pool, Region};
use std::rc::Rc;
use std::sync::OnceLock;

/// Frames of 16 KiB.
const FRAMES: u32 = 64;

/// The controller that most cases are tried on: namespace 1 is small, namespace 2 slow.
pub fn plain() -> PciAddress {
    static ADDRESS: OnceLock<PciAddress> = OnceLock::new();
    *ADDRESS.get_or_init(|| nvme_of("plain").1)
}

/// The same, with vfio-pci.
pub fn function() -> PciAddress {
    bind(plain(), "vfio-pci");
    plain()
}

/// Options of most cases.
pub fn options() -> NvmeOptions {
    NvmeOptions { depth: 32, namespace: Some(1), ..NvmeOptions::default() }
}

/// Buffers of 16 KiB.
pub fn buffers() -> (Rc<Region>, Pool) {
    let region = Region::new(FRAMES, 16_384).expect("memory");
    let pool = region.pool(FRAMES).expect("all frames");
    (region, pool)
}

/// The controller, up.
pub fn nvme(options: NvmeOptions) -> (Nvme<FunctionTransport>, Pool) {
    nvme_at(function(), options)
}

/// The controller at an address, up.
pub fn nvme_at(address: PciAddress, options: NvmeOptions) -> (Nvme<FunctionTransport>, Pool) {
    let (region, pool) = buffers();
    (open(address, options, &[region]).unwrap_or_else(|error| panic!("{error}")), pool)
}

/// A frame with so many bytes.
pub fn frame_of(pool: &Pool, bytes: usize) -> Frame {
    let mut frame = pool.allocate(0).expect("a free frame");
    frame.append(bytes).expect("it fits");
    frame
}

/// Reads that fill the queue, of one block each.
pub fn fill(disk: &mut impl Vsic, pool: &Pool) -> usize {
    let depth = disk.room();
    for token in 0..depth as u64 {
        let operation = Operation::Read { block: token, frame: frame_of(pool, 512) };
        disk.submit(Request { token, operation }).expect("there is room");
    }
    disk.ring();
    depth
}

/// Takes completions until nothing is under way. Each comes once.
pub fn drain(disk: &mut impl Vsic) -> Vec<Completion> {
    let mut completions = Vec::new();
    crate::kernel::eventually("all ends", || {
        disk.complete(&mut completions, usize::MAX);
        (disk.in_flight() == 0).then_some(())
    });
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    tokens.windows(2).for_each(|pair| assert!(pair[0] != pair[1], "{} ended twice", pair[0]));
    completions
}
