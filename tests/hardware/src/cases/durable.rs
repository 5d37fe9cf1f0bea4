//! Writes that say what was durable when they were made. The machine's log of the drive is judged by them afterwards
//! (`tests/hardware/tests/hardware/write_log.rs`).

use super::rig::{frame_of, nvme_at};
use crate::kernel::{bind, eventually, nvme_of};
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::{Operation, Request, Vsic};
use qanat_nic::Random;
use std::collections::BTreeSet;

/// What each of these blocks begins with.
const MAGIC: u64 = 0x5141_4e41_5444_5552;
/// Writes, of a block each, on as many blocks.
const WRITES: u64 = 600;
const BLOCKS: u64 = 128;
/// Blocks of a table of areas are left as they are.
const FIRST: u64 = 65_536;

/// A block: its number, whether its write is to be durable, and the first number that is not known to be.
fn block_of(number: u64, durable: bool, acknowledged: u64) -> Vec<u8> {
    let words = [MAGIC, number, u64::from(durable), acknowledged];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(512, number as u8);
    bytes
}

pub fn writes_say_what_is_durable() {
    let (_, function) = nvme_of("areas");
    bind(function, "vfio-pci");
    // QEMU ignores Force Unit Access, so a durable write is a write and a flush.
    let options = NvmeOptions { depth: 16, force_unit_access: false, ..NvmeOptions::default() };
    let (mut disk, pool) = nvme_at(function, options);
    let mut random = Random::new(11);
    // Durable writes that have not been acknowledged; all before the first of them have been.
    let mut waiting: BTreeSet<u64> = BTreeSet::new();
    let (mut next, mut busy, mut completions) = (0, BTreeSet::new(), Vec::new());
    while next < WRITES || disk.in_flight() > 0 {
        let block = FIRST + random.below(BLOCKS);
        if next < WRITES && disk.room() > 0 && !busy.contains(&block) {
            let durable = random.chance(400_000);
            let acknowledged = waiting.first().copied().unwrap_or(next);
            let mut frame = frame_of(&pool, 512);
            frame.bytes_mut().copy_from_slice(&block_of(next, durable, acknowledged));
            if durable {
                waiting.insert(next);
            }
            busy.insert(block);
            let token = next << 32 | block;
            disk.submit(Request { token, operation: Operation::Write { block, frame, durable } })
                .expect("there is room");
            next += 1;
            if random.chance(700_000) {
                continue;
            }
        }
        disk.ring();
        eventually("a write ends", || (disk.complete(&mut completions, 4) > 0 || disk.in_flight() == 0).then_some(()));
        for completion in completions.drain(..) {
            assert_eq!(completion.result, Ok(()));
            waiting.remove(&(completion.token >> 32));
            busy.remove(&(completion.token & u64::from(u32::MAX)));
        }
    }
    drop(disk);
    bind(function, "nvme");
    println!("hardware: {WRITES} writes logged");
}
