//! Virtual functions of a controller with SR-IOV.

use super::rig::{buffers, frame_of, options};
use crate::kernel::{bind, block_device, device, driver, eventually, nvme_of, virtual_function, write};
use crate::program::run;
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::nvme::vfio::open;
use qanat_disk::{Operation, Vsic};
use qanat_disk_suite::{one, read};
use std::fs;

/// The namespace that is attached to the virtual function only.
const NAMESPACE: u32 = 4;

pub fn a_namespace_of_its_own() {
    let (name, parent) = nvme_of("shared");
    let manage = |arguments: &str| run(&format!("nvme virt-mgmt /dev/{name} {arguments}"));
    // The parent gives its flexible resources up, which a reset makes so.
    manage("-c 0 -r 1 -a 1 -n 0");
    manage("-c 0 -r 0 -a 1 -n 0");
    write(device(parent).join("reset"), "1");
    nvme_of("shared");
    write(device(parent).join("sriov_drivers_autoprobe"), "0");
    write(device(parent).join("sriov_numvfs"), "2");
    let function = virtual_function(parent, 0);
    // Two queue pairs, admin and I/O, with a vector each; then online.
    manage("-c 1 -r 1 -a 8 -n 2");
    manage("-c 1 -r 0 -a 8 -n 2");
    manage("-c 1 -r 0 -a 9 -n 0");
    run(&format!("nvme attach-ns /dev/{name} --namespace-id={NAMESPACE} --controllers=1"));

    assert_eq!(driver(function), None);
    bind(function, "vfio-pci");
    let own = fs::read_link(device(function).join("iommu_group")).expect("a group");
    assert!(own != fs::read_link(device(parent).join("iommu_group")).expect("a group"), "a group of its own");
    let (region, pool) = buffers();
    let options = NvmeOptions { namespace: Some(NAMESPACE), ..options() };
    let mut disk = open(function, options, &[region]).unwrap_or_else(|error| panic!("{error}"));
    let last = disk.geometry().blocks - 1;
    for block in [0, 77, last] {
        let mut frame = frame_of(&pool, 512);
        frame.bytes_mut().fill(block as u8 | 1);
        assert_eq!(one(&mut disk, Operation::Write { block, frame, durable: true }).result, Ok(()));
    }
    for block in [0, 77, last] {
        let frame = read(&mut disk, &pool, block, 512).expect("it can be read");
        assert!(frame.bytes().iter().all(|byte| *byte == block as u8 | 1));
    }
    drop(disk);
    // The kernel's driver of the same function finds the same.
    bind(function, "nvme");
    let bytes = fs::read(block_device(function, NAMESPACE)).expect("the device");
    for block in [0, 77, last as usize] {
        assert!(bytes[block * 512..][..512].iter().all(|byte| *byte == block as u8 | 1), "block {block}");
    }
    bind(function, "vfio-pci");
    write(device(parent).join("sriov_numvfs"), "0");
    eventually("the functions are gone", || (!device(function).exists()).then_some(()));
}
