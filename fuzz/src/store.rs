//! A storage area that somebody has written on: superblocks, frames, and checksums of objects with any bytes, their checksums set right
//! or not. Each structure is opened on it, or refused, without a panic and in bounded time. If it is opened, it works: a record that
//! is appended is there the next time, behind all that was. A structure that is refused has written nothing. Every buffer comes back.
//!
//! An input is which structure (a byte), and a list of patches: where (a superblock, or a unit of the log or of the objects; an
//! offset), whether the checksum is set right, and up to 15 bytes.

use qanat_api::double::StorageDouble;
use qanat_api::{AreaId, Block, Durability, StorageCommands};
use qanat_store::{Log, LogEvent, ObjectEvent, Objects, Options, PIECE_BYTES, Queue, QueueEvent, StoreError};

const AREA: AreaId = AreaId::new(0, 0);
const AREA_BYTES: usize = 512 << 10;
const IDENTITY: [u8; 16] = [7; 16];
/// Patches of one input.
const PATCHES_MAX: usize = 16;
/// Where things lie, as docs/design/store.md says.
const SUPERBLOCKS: [usize; 2] = [0, 32 << 10];
const LOG: usize = 64 << 10;
const LOG_BYTES: usize = 192 << 10;
const UNIT_BYTES: usize = 4_096;

/// What is told at opening, of all structures: records, elements, objects.
type Contents = Vec<Vec<u8>>;

thread_local! {
    /// Areas with a log, a queue and objects, as they were made.
    static AREAS: [Vec<u8>; 3] = [prepared_log(), prepared_queue(), prepared_objects()];
}

fn options() -> Options {
    Options::default().make_if_empty(IDENTITY).log_bytes(LOG_BYTES as u64).record_bytes_max(1 << 20)
}

fn empty() -> StorageDouble {
    StorageDouble::new(AREA, AREA_BYTES).expect("memory")
}

fn prepared_log() -> Vec<u8> {
    let mut disk = empty();
    let mut log = Log::open(AREA, options(), &mut disk).expect("it fits");
    drain(&mut log, &mut disk).expect("it is made");
    for round in 0..6_u8 {
        log.append(&[round; 100], &mut disk).expect("there is room");
        log.append(&vec![round; 3_000 * usize::from(round)], &mut disk).expect("there is room");
        if round == 2 {
            log.checkpoint_begin(&mut disk).expect("there is room");
            log.checkpoint_append(&[b"all of it"], &mut disk).expect("there is room");
        }
        if round == 4 {
            log.checkpoint_end(&mut disk).expect("there is room");
        }
        log.commit(&mut disk);
        drain(&mut log, &mut disk).expect("it works");
    }
    disk.bytes().to_vec()
}

fn prepared_queue() -> Vec<u8> {
    let mut disk = empty();
    let mut queue = Queue::open(AREA, options(), &mut disk).expect("it fits");
    drain_queue(&mut queue, &mut disk).expect("it is made");
    for round in 0..6_u8 {
        queue.push(&[&[round; 300]], &mut disk).expect("there is room");
        queue.commit(&mut disk);
        drain_queue(&mut queue, &mut disk).expect("it works");
        if round % 2 == 0 {
            assert_eq!(queue.pop(&mut disk), Ok(true));
            drain_queue(&mut queue, &mut disk).expect("it works");
        }
    }
    queue.commit(&mut disk);
    drain_queue(&mut queue, &mut disk).expect("it works");
    disk.bytes().to_vec()
}

fn prepared_objects() -> Vec<u8> {
    let mut disk = empty();
    let mut objects = Objects::open(AREA, options(), &mut disk).expect("it fits");
    drain_objects(&mut objects, &mut disk).expect("it is made");
    for (name, bytes) in [(b"one".as_slice(), 20_000_u64), (b"gone", 5_000), (b"three", 40_000)] {
        store_object(&mut objects, &mut disk, name, bytes);
    }
    objects.remove(b"gone", &mut disk).expect("it is there");
    drain_objects(&mut objects, &mut disk).expect("it works");
    disk.bytes().to_vec()
}

fn store_object(objects: &mut Objects, disk: &mut StorageDouble, name: &[u8], bytes: u64) {
    let id = objects.create(name, bytes).expect("there is room");
    let mut left = bytes;
    while left > 0 {
        let length = left.min(PIECE_BYTES);
        let mut block = Block::own(length as usize);
        block.append_with(length as usize, |bytes| bytes.fill(left as u8));
        objects.write(id, block, disk).map_err(|(error, _)| error).expect("there is room");
        drain_objects(objects, disk).expect("it works");
        left -= length;
    }
}

/// Lets the log do all that it can; the records that it tells, or its failure.
fn drain(log: &mut Log, disk: &mut StorageDouble) -> Result<Contents, StoreError> {
    let mut contents = Vec::new();
    loop {
        while let Some(event) = log.next(disk) {
            match event {
                LogEvent::Record { bytes, .. } => contents.push(bytes.to_vec()),
                LogEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        let Some(event) = disk.next_event() else { return Ok(contents) };
        assert!(log.handle(event, disk).is_none());
    }
}

/// The same for a queue: elements that were popped are acknowledged.
fn drain_queue(queue: &mut Queue, disk: &mut StorageDouble) -> Result<Contents, StoreError> {
    let (mut contents, mut popped) = (Vec::new(), Vec::new());
    loop {
        while let Some(event) = queue.next(disk) {
            match event {
                QueueEvent::Popped { id, result } => {
                    contents.extend(result.map(<[u8]>::to_vec));
                    popped.push(id);
                }
                QueueEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        for id in popped.drain(..) {
            queue.acknowledge(id).expect("it was popped");
        }
        let Some(event) = disk.next_event() else { return Ok(contents) };
        assert!(queue.handle(event, disk).is_none());
    }
}

/// The same for objects: what was read.
fn drain_objects(objects: &mut Objects, disk: &mut StorageDouble) -> Result<Contents, StoreError> {
    let mut contents = Vec::new();
    loop {
        while let Some(event) = objects.next(disk) {
            match event {
                ObjectEvent::Read { result, .. } => contents.extend(result.map(|block| block.bytes().to_vec())),
                ObjectEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        let Some(event) = disk.next_event() else { return Ok(contents) };
        assert!(objects.handle(event, disk).is_none());
    }
}

/// The checksum of what lies at an address of a store, as the format has it.
fn sum(identity: &[u8], address: u64, bytes: &[u8]) -> [u8; 4] {
    let seed = crc32c::crc32c_append(crc32c::crc32c(identity), &address.to_le_bytes());
    crc32c::crc32c_append(seed, bytes).to_le_bytes()
}

/// Sets the checksum right of what begins at `place`: a superblock, a frame of the log by the length in its header, or checksums of an object.
fn seal(image: &mut [u8], place: usize) {
    let Some(unit) = image.get_mut(place..) else { return };
    if place < LOG {
        let seal = sum(&[0; 16], place as u64, unit.get(..508).unwrap_or_default());
        unit.get_mut(508..512).into_iter().for_each(|target| target.copy_from_slice(&seal));
        return;
    }
    let number = |at: usize| unit.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let (length, address) = if place < LOG + LOG_BYTES {
        ((number(36) as u32 as usize).clamp(UNIT_BYTES, 64 << 10), number(8))
    } else {
        (UNIT_BYTES, place as u64)
    };
    let from = if place < LOG + LOG_BYTES { 8 } else { 4 };
    let seal = sum(&IDENTITY, address, unit.get(from..length).unwrap_or_default());
    unit.get_mut(from - 4..from).into_iter().for_each(|target| target.copy_from_slice(&seal));
}

/// Puts an input's patches onto an area.
fn patch(image: &mut [u8], data: &[u8]) {
    let mut rest = data;
    for _ in 0..PATCHES_MAX {
        let Some(([which, low, high, how], more)) = rest.split_first_chunk::<4>() else { return };
        let (bytes, more) = more.split_at(more.len().min(usize::from(how % 16)));
        rest = more;
        let place = match which {
            copy @ 0..=63 => SUPERBLOCKS[usize::from(copy % 2)],
            unit => LOG + usize::from(unit - 64) % 110 * UNIT_BYTES,
        };
        // Near the beginning, where all that means something is.
        let offset = usize::from(u16::from_le_bytes([*low, *high])) % 512;
        image
            .get_mut(place + offset..place + offset + bytes.len())
            .into_iter()
            .for_each(|it| it.copy_from_slice(bytes));
        if how & 0x80 == 0 {
            seal(image, place);
        }
    }
}

/// A disk with these contents.
fn disk_of(image: &[u8]) -> StorageDouble {
    let mut disk = empty();
    for (index, piece) in image.chunks(16 << 10).enumerate().filter(|(_, piece)| piece.iter().any(|byte| *byte != 0)) {
        let mut block = disk.area_block(AREA).expect("one at a time");
        block.append(piece);
        disk.write(AREA, (index << 14) as u64, block, Durability::Durable, 0).expect("it is there");
        while disk.next_event().is_some() {}
    }
    disk
}

fn refused(error: &StoreError, before: &[u8], disk: &mut StorageDouble) {
    // What was under way ends, and is nobody's.
    while disk.next_event().is_some() {}
    assert!(!error.to_string().is_empty());
    assert!(disk.bytes() == before, "an area that is refused is not written: {error}");
}

/// A log on such an area.
fn log(image: &[u8]) {
    let mut disk = disk_of(image);
    let open = |disk: &mut StorageDouble| {
        let mut log = Log::open(AREA, options(), disk)?;
        let contents = drain(&mut log, disk)?;
        Ok::<_, StoreError>((log, contents))
    };
    match open(&mut disk) {
        Err(error) => refused(&error, image, &mut disk),
        Ok((mut log, mut before)) => {
            let started = log.start();
            match log.append(b"one more", &mut disk) {
                Ok(_) => before.push(b"one more".to_vec()),
                Err(StoreError::Full { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            log.commit(&mut disk);
            drain(&mut log, &mut disk).expect("the disk is good");
            assert!(log.is_idle());
            drop(log);
            let (log, after) = open(&mut disk).expect("it was good");
            assert!(log.start() >= started && before.ends_with(&after), "what was there is there");
            assert_eq!(after.last().is_some(), before.last().is_some());
        }
    }
    assert_eq!(disk.buffers_in_use(), 0);
}

/// A queue on such an area.
fn queue(image: &[u8]) {
    let mut disk = disk_of(image);
    let opened = Queue::open(AREA, options(), &mut disk).and_then(|mut queue| {
        drain_queue(&mut queue, &mut disk)?;
        Ok(queue)
    });
    match opened {
        Err(error) => refused(&error, image, &mut disk),
        Ok(mut queue) => {
            let count = queue.len();
            for _ in 0..count {
                assert_eq!(queue.pop(&mut disk), Ok(true));
                drain_queue(&mut queue, &mut disk).expect("the disk is good");
            }
            assert_eq!((queue.pop(&mut disk), queue.len()), (Ok(false), 0));
            queue.commit(&mut disk);
            drain_queue(&mut queue, &mut disk).expect("the disk is good");
        }
    }
    assert_eq!(disk.buffers_in_use(), 0);
}

/// Objects on such an area.
fn objects(image: &[u8]) {
    let mut disk = disk_of(image);
    let opened = Objects::open(AREA, options(), &mut disk).and_then(|mut objects| {
        drain_objects(&mut objects, &mut disk)?;
        Ok(objects)
    });
    match opened {
        Err(error) => refused(&error, image, &mut disk),
        Ok(mut objects) => {
            let names: Vec<Vec<u8>> = objects.iter().map(|(name, _)| name.to_vec()).collect();
            for name in &names {
                let info = objects.hold(name).expect("it is there");
                for piece in 0..info.bytes.div_ceil(PIECE_BYTES).min(8) {
                    objects.read(info.id, piece, piece, &mut disk).expect("it is held");
                }
                drain_objects(&mut objects, &mut disk).expect("the disk is good");
                objects.release(info.id);
            }
            for name in &names {
                match objects.remove(name, &mut disk) {
                    Ok(()) | Err(StoreError::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                drain_objects(&mut objects, &mut disk).expect("the disk is good");
            }
            assert!(objects.iter().next().is_some() || objects.free().0 == objects.free().1, "all of it is free again");
        }
    }
    assert_eq!(disk.buffers_in_use(), 0);
}

/// See the module.
pub fn store(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let which = usize::from(*which) % 3;
    let mut image = AREAS.with(|areas| areas[which].clone());
    patch(&mut image, rest);
    [log, queue, objects][which](&image);
}
