//! What the kernel's driver of the same controller says of the same blocks.

use super::rig::{frame_of, nvme, options, plain};
use crate::kernel::{bind, block_device};
use qanat_disk::Operation;
use qanat_disk_suite::{BLOCKS, one, read};
use qanat_nic::Random;
use std::fs::{self, OpenOptions};
use std::io::Write;

const BYTES: usize = BLOCKS as usize * 512;
/// Bytes of one request.
const PIECE: usize = 16_384;

pub fn both_ways() {
    let mut random = Random::new(7);
    let mut bytes = || -> Vec<u8> { (0..BYTES).map(|_| random.next() as u8).collect() };
    let (ours, kernels) = (bytes(), bytes());
    let (mut disk, pool) = nvme(options());
    for (index, piece) in ours.chunks(PIECE).enumerate() {
        let mut frame = frame_of(&pool, PIECE);
        frame.bytes_mut().copy_from_slice(piece);
        let operation = Operation::Write { block: (index * PIECE / 512) as u64, frame, durable: false };
        assert_eq!(one(&mut disk, operation).result, Ok(()));
    }
    assert_eq!(one(&mut disk, Operation::Flush).result, Ok(()));
    assert_eq!(one(&mut disk, Operation::WriteZeroes { block: 100, blocks: 50 }).result, Ok(()));
    drop(disk);

    bind(plain(), "nvme");
    let device = block_device(plain(), 1);
    let mut expected = ours;
    expected[100 * 512..150 * 512].fill(0);
    assert!(fs::read(&device).expect("the device") == expected, "the kernel reads something else");
    let mut file = OpenOptions::new().write(true).open(&device).expect("the device");
    file.write_all(&kernels).expect("it can be written");
    file.sync_all().expect("it can be flushed");
    drop(file);

    let (mut disk, pool) = nvme(options());
    for (index, piece) in kernels.chunks(PIECE).enumerate() {
        let frame = read(&mut disk, &pool, (index * PIECE / 512) as u64, PIECE).expect("it can be read");
        assert!(frame.bytes() == piece, "piece {index}: we read something else");
    }
}
