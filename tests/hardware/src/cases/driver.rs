//! The driver of a controller over VFIO: the suite of all disks, and what opening refuses.

use super::rig::{buffers, frame_of, function, nvme, options, plain};
use crate::kernel::bind;
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::nvme::vfio::{NvmeOpenError, open};
use qanat_disk::{Operation, Request, Vsic};
use qanat_disk_suite as suite;
use qanat_nic::vfio::{Function, PciAddress, VfioError};
use std::time::Duration;

/// Runs of random operations, and operations in each.
const SEEDS: u64 = 5;
const OPERATIONS: u64 = 400;

pub fn of_the_kernels_is_refused() {
    bind(plain(), "nvme");
    let (region, _) = buffers();
    let error = open(plain(), options(), &[region]).expect_err("the kernel has it");
    let is_it =
        matches!(&error, NvmeOpenError::Function(VfioError::NotBound { driver: Some(driver), .. }) if driver == "nvme");
    let text = error.to_string();
    assert!(is_it && text.contains("vfio-pci") && text.contains("unbind"), "{text}");
    let absent: PciAddress = "00:1e.7".parse().expect("an address");
    let error = Function::open(absent).expect_err("there is none");
    assert!(matches!(error, VfioError::NoSuchFunction { .. }), "{error}");
}

pub fn of_another_kind_is_refused() {
    let (region, _) = buffers();
    // The machine's LPC bridge, which vfio-pci can't have either.
    let error = Function::open("00:1f.0".parse().expect("an address")).expect_err("a bridge");
    assert!(matches!(error, VfioError::NotBound { .. }), "{error}");
    let unsupported = NvmeOptions { namespace: Some(77), ..options() };
    let error = open(function(), unsupported, &[region]).expect_err("there is no such namespace");
    assert!(matches!(error, NvmeOpenError::Controller { .. }), "{error}");
    assert!(error.to_string().contains("namespace 77"), "{error}");
}

pub fn identify() {
    let (nvme, _) = nvme(options());
    let identity = nvme.identity();
    assert!(identity.controller.model.contains("QEMU"), "{identity:?}");
    let geometry = nvme.geometry();
    assert_eq!((geometry.blocks, geometry.block_bytes, geometry.depth), (suite::BLOCKS, 512, 32));
    assert!(geometry.volatile_cache && geometry.transfer_bytes_max >= 16_384, "{geometry:?}");
}

pub fn refuses_what_cant_be_done() {
    let (mut nvme, pool) = nvme(options());
    suite::refuses_what_cant_be_done(&mut nvme, &pool);
}

fn random(options: NvmeOptions) {
    let (mut nvme, pool) = nvme(options);
    for seed in 0..SEEDS {
        suite::runs_as_the_model_says(&mut nvme, &pool, seed, OPERATIONS);
        assert_eq!(pool.in_use_count(), 0, "seed {seed}: every buffer is back");
    }
    assert_eq!((nvme.resets(), nvme.failure()), (0, None));
}

pub fn random_operations() {
    // QEMU ignores Force Unit Access, so a durable write is a write and a flush.
    random(NvmeOptions { force_unit_access: false, ..options() });
}

pub fn random_operations_without_shadows() {
    random(NvmeOptions { shadow_doorbells: false, depth: 7, ..options() });
}

pub fn sleeps_until_it_rings() {
    let (mut nvme, pool) = nvme(options());
    assert!(nvme.doorbell().is_some());
    let (mut completions, mut waits) = (Vec::new(), 0);
    for token in 0..200 {
        let operation = Operation::Read { block: token, frame: frame_of(&pool, 512) };
        nvme.submit(Request { token, operation }).expect("there is room");
        while nvme.complete(&mut completions, 1) == 0 {
            waits += 1;
            // So long that a ring that is missed is noticed: there are 200.
            nvme.wait(Duration::from_secs(20));
        }
        assert!(completions.drain(..).all(|completion| completion.result.is_ok()));
    }
    assert!((100..=600).contains(&waits), "{waits} waits for 200 requests");
}

pub fn a_second_process_is_refused() {
    let (_nvme, _) = nvme(options());
    let error = Function::open(function()).expect_err("one has it");
    assert!(matches!(error, VfioError::Busy { .. }) && error.to_string().contains("fuser"), "{error}");
}
