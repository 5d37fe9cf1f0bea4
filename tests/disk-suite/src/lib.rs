//! What every driver of a disk must do, against a model: a vector of bytes.
#![forbid(unsafe_code)]

use qanat_disk::{Completion, Operation, Request, StorageError, Vsic};
use qanat_nic::{Frame, Pool, Random};
use std::collections::BTreeMap;

/// Blocks of 512 bytes on the devices tested.
pub const BLOCKS: u64 = 512;
const BLOCK_BYTES: usize = 512;

/// Takes completions until something comes; a device that never answers fails the test by its length.
pub fn next(disk: &mut impl Vsic, completions: &mut Vec<Completion>) {
    for _ in 0..100_000_000_u64 {
        if disk.complete(completions, usize::MAX) > 0 {
            return;
        }
        std::hint::spin_loop();
    }
    panic!("no completion comes of {} under way", disk.in_flight());
}

/// One request to its end.
pub fn one(disk: &mut impl Vsic, operation: Operation) -> Completion {
    assert!(disk.submit(Request { token: 77, operation }).is_ok(), "there is room");
    disk.ring();
    let mut completions = Vec::new();
    next(disk, &mut completions);
    let completion = completions.pop().expect("one");
    assert!(completions.is_empty() && completion.token == 77);
    completion
}

/// Reads `bytes` from `block` on.
pub fn read(disk: &mut impl Vsic, pool: &Pool, block: u64, bytes: usize) -> Result<Frame, StorageError> {
    let completion = one(disk, Operation::Read { block, frame: frame_of(pool, bytes) });
    completion.result.map(|()| completion.frame.expect("a read has a frame"))
}

fn frame_of(pool: &Pool, bytes: usize) -> Frame {
    let mut frame = pool.allocate(0).expect("a free frame");
    frame.append(bytes).expect("it fits");
    frame
}

/// What is under way.
enum UnderWay {
    Read { block: usize, expected: Vec<u8> },
    Write { block: usize, data: Vec<u8> },
    Zeroes { block: usize, blocks: usize },
    Flush,
}

impl UnderWay {
    fn blocks(&self) -> std::ops::Range<usize> {
        match self {
            UnderWay::Read { block, expected: data } | UnderWay::Write { block, data } => {
                *block..block + data.len() / BLOCK_BYTES
            }
            UnderWay::Zeroes { block, blocks } => *block..block + blocks,
            UnderWay::Flush => 0..0,
        }
    }
}

/// Random requests, up to the device's depth at once, none of which touches blocks that another under way writes. Each ends once,
/// with what the model says.
pub fn runs_as_the_model_says(disk: &mut impl Vsic, pool: &Pool, seed: u64, requests: u64) {
    let mut random = Random::new(seed);
    let geometry = disk.geometry();
    assert_eq!((geometry.blocks, geometry.block_bytes), (BLOCKS, BLOCK_BYTES as u32));
    let mut model = vec![0_u8; BLOCKS as usize * BLOCK_BYTES];
    // Whatever an earlier run left.
    let completion = one(disk, Operation::WriteZeroes { block: 0, blocks: BLOCKS });
    assert_eq!((completion.result, completion.frame.is_none()), (Ok(()), true));
    let mut under_way: BTreeMap<u64, UnderWay> = BTreeMap::new();
    let mut completions = Vec::new();
    let mut token = 0;
    while token < requests || !under_way.is_empty() {
        let goes_on = token < requests && disk.room() > 0 && random.chance(800_000);
        if goes_on {
            let blocks = 1 + random.below(32) as usize;
            let block = random.below(BLOCKS - blocks as u64 + 1) as usize;
            let range = block..block + blocks;
            let place = block * BLOCK_BYTES..(block + blocks) * BLOCK_BYTES;
            let kind = random.below(10);
            let is_read = kind < 4;
            let conflicts = under_way.values().any(|other| {
                let overlap = other.blocks().start < range.end && range.start < other.blocks().end;
                overlap && !(is_read && matches!(other, UnderWay::Read { .. }))
            });
            if conflicts && kind < 9 {
                continue;
            }
            let (operation, remembered) = match kind {
                0..4 => {
                    let operation = Operation::Read { block: block as u64, frame: frame_of(pool, place.len()) };
                    (operation, UnderWay::Read { block, expected: model[place].to_vec() })
                }
                4..8 => {
                    let mut frame = frame_of(pool, place.len());
                    let data: Vec<u8> = (0..place.len()).map(|_| random.next() as u8).collect();
                    frame.bytes_mut().copy_from_slice(&data);
                    let durable = random.chance(300_000);
                    (Operation::Write { block: block as u64, frame, durable }, UnderWay::Write { block, data })
                }
                8 => {
                    let operation = Operation::WriteZeroes { block: block as u64, blocks: blocks as u64 };
                    (operation, UnderWay::Zeroes { block, blocks })
                }
                _ => (Operation::Flush, UnderWay::Flush),
            };
            disk.submit(Request { token, operation }).expect("there was room");
            under_way.insert(token, remembered);
            token += 1;
            continue;
        }
        disk.ring();
        if under_way.is_empty() {
            continue;
        }
        next(disk, &mut completions);
        for completion in completions.drain(..) {
            let done = under_way.remove(&completion.token);
            let done = done.unwrap_or_else(|| panic!("seed {seed}: {} ends twice, or never began", completion.token));
            assert_eq!(completion.result, Ok(()), "seed {seed}");
            match done {
                UnderWay::Read { expected, block } => {
                    let frame = completion.frame.expect("a read has its frame");
                    assert!(frame.bytes() == expected, "seed {seed}: block {block} reads as it was written");
                }
                UnderWay::Write { block, data } => {
                    assert_eq!(completion.frame.expect("a write has its frame").bytes(), data);
                    model[block * BLOCK_BYTES..][..data.len()].copy_from_slice(&data);
                }
                UnderWay::Zeroes { block, blocks } => {
                    model[block * BLOCK_BYTES..][..blocks * BLOCK_BYTES].fill(0);
                }
                UnderWay::Flush => assert!(completion.frame.is_none()),
            }
        }
    }
    assert_eq!(disk.in_flight(), 0);
    for block in (0..BLOCKS as usize).step_by(32) {
        let frame = read(disk, pool, block as u64, 32 * BLOCK_BYTES).expect("it can be read");
        assert!(frame.bytes() == &model[block * BLOCK_BYTES..][..32 * BLOCK_BYTES], "seed {seed}: at the end");
    }
}

/// Requests that can't be done end with the error that says why, and their buffer comes back.
pub fn refuses_what_cant_be_done(disk: &mut impl Vsic, pool: &Pool) {
    let mut cases = vec![
        (Operation::Read { block: BLOCKS, frame: frame_of(pool, 512) }, StorageError::OutOfRange),
        (Operation::Read { block: BLOCKS - 1, frame: frame_of(pool, 1_024) }, StorageError::OutOfRange),
        (Operation::Read { block: u64::MAX, frame: frame_of(pool, 512) }, StorageError::OutOfRange),
        (Operation::Read { block: 0, frame: frame_of(pool, 0) }, StorageError::Length),
        (Operation::Write { block: 0, frame: frame_of(pool, 513), durable: false }, StorageError::Length),
        (Operation::Write { block: BLOCKS, frame: frame_of(pool, 512), durable: true }, StorageError::OutOfRange),
        (Operation::WriteZeroes { block: 0, blocks: BLOCKS + 1 }, StorageError::OutOfRange),
        (Operation::WriteZeroes { block: u64::MAX, blocks: 2 }, StorageError::OutOfRange),
        (Operation::WriteZeroes { block: 0, blocks: 0 }, StorageError::Length),
    ];
    let mut unaligned = frame_of(pool, 1_024);
    unaligned.narrow(4, 512);
    cases.push((Operation::Read { block: 0, frame: unaligned }, StorageError::Unaligned));
    let failures = disk.statistics().failures;
    let count = cases.len() as u64;
    for (operation, error) in cases {
        let is_transfer = matches!(operation, Operation::Read { .. } | Operation::Write { .. });
        let completion = one(disk, operation);
        assert_eq!((completion.result, completion.frame.is_some()), (Err(error), is_transfer));
    }
    assert_eq!(disk.statistics().failures - failures, count);
    assert_eq!(pool.in_use_count(), 0);
    // As many as the depth are taken, and no more; the next one comes back as it was.
    let depth = disk.geometry().depth;
    for token in 0..u64::from(depth) {
        disk.submit(Request { token, operation: Operation::Flush }).expect("room for as many as the depth");
    }
    let refused = disk.submit(Request { token: 99, operation: Operation::Flush }).expect_err("no room");
    assert_eq!((refused.token, disk.room(), disk.in_flight()), (99, 0, depth as usize));
    disk.ring();
    let mut completions = Vec::new();
    while disk.in_flight() > 0 {
        next(disk, &mut completions);
    }
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..u64::from(depth)).collect::<Vec<_>>());
}
