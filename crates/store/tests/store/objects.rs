//! Objects under crashes, faults and use: what is stored is there whole, what is not stored is not there at all, no room is given twice, and
//! what is read is what was written, or an error.

use crate::disk::{AREA, BUFFERS, Disk, buffers_in_use, sim};
use crate::seeds;
use qanat_api::{Block, StorageCommands, StorageError};
use qanat_disk::{Fault, FaultRates, Media, Vsic};
use qanat_nic::Random;
use qanat_store::{ObjectEvent, ObjectId, Objects, Options, PIECE_BYTES, StoreError};
use std::collections::BTreeMap;

const AREA_BYTES: u64 = 1 << 20;

fn options() -> Options {
    Options::default().make_if_empty([8; 16]).log_bytes(192 << 10)
}

fn open<V: Vsic>(disk: &mut Disk<V>) -> Result<(Objects, usize), StoreError> {
    open_with(disk, options())
}

fn open_with<V: Vsic>(disk: &mut Disk<V>, options: Options) -> Result<(Objects, usize), StoreError> {
    let mut objects = Objects::open(AREA, options, disk)?;
    loop {
        if let Some(event) = objects.next(disk) {
            match event {
                ObjectEvent::Recovered { objects: count, .. } => return Ok((objects, count)),
                ObjectEvent::Failed(error) => return Err(error),
                other => panic!("{other:?}"),
            }
        }
        let event = disk.next().expect("something is under way");
        assert!(objects.handle(event, disk).is_none());
    }
}

/// The bytes of an object, which its name and length decide.
fn contents(name: &[u8], bytes: u64, round: u64) -> Vec<u8> {
    let tag = name.iter().fold(round, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    (0..bytes).map(|at| (tag.wrapping_mul(at + 7) >> 5) as u8).collect()
}

/// An object as the model has it.
#[derive(Clone, Debug)]
struct Known {
    bytes: Vec<u8>,
    id: ObjectId,
}

/// Takes one event of the disk, if there is one; the events of the store.
fn turn<V: Vsic>(objects: &mut Objects, disk: &mut Disk<V>, heard: &mut Vec<ObjectEvent>) -> bool {
    let event = disk.next();
    let is_some = event.is_some();
    event.into_iter().for_each(|event| assert!(objects.handle(event, disk).is_none()));
    heard.extend(std::iter::from_fn(|| objects.next(disk)));
    is_some
}

/// Writes what is left of an object, as far as there is room; how many pieces are written.
fn write<V: Vsic>(objects: &mut Objects, disk: &mut Disk<V>, id: ObjectId, bytes: &[u8], from: usize) -> usize {
    let mut next = from;
    for piece in bytes.chunks(PIECE_BYTES as usize).skip(from) {
        // Every other one is in memory of the process's own.
        let block = if next.is_multiple_of(2) { disk.area_block(AREA).ok() } else { Some(Block::own(piece.len())) };
        let Some(mut block) = block else { break };
        block.append(piece);
        match objects.write(id, block, disk) {
            Ok(()) => next += 1,
            Err((StoreError::Busy { .. }, block)) => {
                assert_eq!(block.bytes(), piece, "it comes back");
                break;
            }
            Err((error, _)) => panic!("{error}"),
        }
    }
    next
}

/// Reads all of an object.
fn read_all<V: Vsic>(objects: &mut Objects, disk: &mut Disk<V>, name: &[u8]) -> Result<Vec<u8>, StoreError> {
    let info = objects.hold(name)?;
    let pieces = info.bytes.div_ceil(PIECE_BYTES);
    let mut parts: BTreeMap<u64, Result<Vec<u8>, StoreError>> = BTreeMap::new();
    for piece in 0..pieces {
        objects.read(info.id, piece, piece, disk).expect("it is held");
    }
    assert_eq!(objects.read(info.id, pieces, 0, disk), Err(StoreError::None));
    let mut heard = Vec::new();
    while (parts.len() as u64) < pieces {
        assert!(turn(objects, disk, &mut heard) || !heard.is_empty(), "reads end");
        for event in heard.drain(..) {
            if let ObjectEvent::Read { token, result } = event {
                parts.insert(token, result.map(|block| block.bytes().to_vec()));
            }
        }
    }
    objects.release(info.id);
    let parts: Result<Vec<Vec<u8>>, StoreError> = parts.into_values().collect();
    parts.map(|parts| parts.concat())
}

#[derive(Default, Debug)]
struct Met {
    stored: u64,
    removed: u64,
    unfinished: u64,
    no_room: u64,
    given_up: u64,
    found: u64,
    checkpoints: u64,
}

struct Life<'a> {
    disk: Disk,
    objects: Objects,
    random: &'a mut Random,
    met: &'a mut Met,
    /// Objects that are certainly there.
    stored: &'a mut BTreeMap<Vec<u8>, Known>,
    /// Being written: pieces given so far.
    writing: BTreeMap<Vec<u8>, (Known, usize)>,
    /// Removed: may be there until that is durable.
    removing: BTreeMap<Vec<u8>, Known>,
    round: u64,
}

impl Life<'_> {
    fn turn(&mut self) {
        let mut heard = Vec::new();
        turn(&mut self.objects, &mut self.disk, &mut heard);
        for event in heard {
            match event {
                ObjectEvent::Stored { object } => {
                    let name =
                        self.writing.iter().find(|(_, (known, _))| known.id == object).map(|(name, _)| name.clone());
                    let name = name.expect("it was being written");
                    let (known, _) = self.writing.remove(&name).expect("it is there");
                    self.stored.insert(name, known);
                    self.met.stored += 1;
                }
                ObjectEvent::Removed { object } => {
                    self.removing.retain(|_, known| known.id != object);
                    self.met.removed += 1;
                }
                ObjectEvent::Written { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn act(&mut self) {
        match self.random.below(12) {
            0..=1 => {
                let name =
                    format!("{}{}", self.random.below(12), "x".repeat(self.random.below(400) as usize)).into_bytes();
                let bytes = match self.random.below(4) {
                    0 => self.random.below(100),
                    1 => self.random.below(200_000),
                    _ => self.random.below(50_000),
                };
                match self.objects.create(&name, bytes) {
                    Ok(id) => {
                        self.round += 1;
                        let known = Known { bytes: contents(&name, bytes, self.round), id };
                        self.writing.insert(name, (known, 0));
                    }
                    Err(StoreError::Exists) => {}
                    Err(StoreError::NoRoom { .. } | StoreError::Full { .. }) => {
                        self.met.no_room += 1;
                        self.remove();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            2..=5 => {
                let index = self.random.below(self.writing.len().max(1) as u64) as usize;
                if let Some((known, next)) = self.writing.values_mut().nth(index) {
                    *next = write(&mut self.objects, &mut self.disk, known.id, &known.bytes, *next);
                }
            }
            6 => self.remove(),
            7 if self.random.below(6) == 0 => {
                let first = self.writing.iter().next().map(|(name, (known, _))| (name.clone(), known.id));
                if let Some((name, id)) = first
                    && self.objects.give_up(id, &mut self.disk).is_ok()
                {
                    self.writing.remove(&name);
                    self.met.given_up += 1;
                }
            }
            _ => self.turn(),
        }
    }

    fn remove(&mut self) {
        let index = self.random.below(self.stored.len().max(1) as u64) as usize;
        let Some(name) = self.stored.keys().nth(index).cloned() else { return };
        match self.objects.remove(&name, &mut self.disk) {
            Ok(()) => {
                let known = self.stored.remove(&name).expect("it is there");
                assert!(self.objects.find(&name).is_none());
                self.removing.insert(name, known);
            }
            Err(StoreError::Busy { .. } | StoreError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn history(seed: u64, met: &mut Met) {
    let mut random = Random::new(seed);
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut stored: BTreeMap<Vec<u8>, Known> = BTreeMap::new();
    // What may be there as well: written or removed when power failed.
    let mut perhaps: Vec<(Vec<u8>, Known)> = Vec::new();
    let mut round = 0;
    for _ in 0..3 {
        let mut disk = Disk::new(sim(&media, (random.below(2) == 0).then_some(seed)));
        let (mut objects, count) = open(&mut disk).expect("no damage, no error");
        let found: Vec<(Vec<u8>, ObjectId)> = objects.iter().map(|(name, info)| (name.to_vec(), info.id)).collect();
        assert_eq!(found.len(), count);
        for (name, known) in &stored {
            assert_eq!(objects.find(name).map(|info| info.id), Some(known.id), "a stored object is gone");
        }
        let mut now = BTreeMap::new();
        for (name, id) in found {
            let known = stored.get(&name).filter(|known| known.id == id);
            let known = known.or_else(|| perhaps.iter().find(|(_, known)| known.id == id).map(|(_, known)| known));
            let known = known.expect("an object that was never written is there");
            let bytes = read_all(&mut objects, &mut disk, &name).expect("it can be read");
            assert!(bytes == known.bytes, "what is read is not what was written");
            now.insert(name, known.clone());
            met.found += 1;
        }
        stored = now;
        let (writing, removing) = (BTreeMap::new(), BTreeMap::new());
        let mut life = Life { disk, objects, random: &mut random, met, stored: &mut stored, writing, removing, round };
        for _ in 0..life.random.below(250) {
            life.act();
        }
        let Life { disk, objects, writing, removing, round: last, .. } = life;
        round = last;
        met.unfinished += writing.len() as u64;
        met.checkpoints += u64::from(objects.log().start().to_number() > 0);
        perhaps = writing.into_iter().map(|(name, (known, _))| (name, known)).chain(removing).collect();
        drop(objects);
        disk.lose_power(&mut |count| random.below(count as u64) as usize);
    }
    assert_eq!(buffers_in_use(), 0);
}

#[test]
fn objects_are_there_whole_or_not_at_all() {
    let met: Met = seeds::each("objects_are_there_whole_or_not_at_all", 400, history);
    println!("{met:?}");
    if std::env::var_os("QANAT_SEED").is_none() {
        let Met { stored, removed, unfinished, no_room, given_up, found, checkpoints } = met;
        for count in [stored, removed, unfinished, no_room, given_up, found, checkpoints] {
            assert!(count > 0, "all of it has to be met");
        }
    }
}

/// Stores one object.
fn store<V: Vsic>(objects: &mut Objects, disk: &mut Disk<V>, name: &[u8], bytes: &[u8]) -> ObjectId {
    let id = objects.create(name, bytes.len() as u64).expect("there is room");
    let (mut next, mut heard) = (0, Vec::new());
    loop {
        next = write(objects, disk, id, bytes, next);
        turn(objects, disk, &mut heard);
        for event in heard.drain(..) {
            match event {
                ObjectEvent::Stored { object } if object == id => return id,
                ObjectEvent::Written { .. } | ObjectEvent::Removed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn an_object_that_is_held_keeps_its_room() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk = Disk::new(sim(&media, None));
    let (mut objects, _) = open(&mut disk).expect("an empty disk");
    let free = objects.free();
    let bytes = contents(b"film", 500_000, 1);
    store(&mut objects, &mut disk, b"film", &bytes);
    let info = objects.hold(b"film").expect("it is stored");
    objects.remove(b"film", &mut disk).expect("it is there");
    let mut heard = Vec::new();
    while turn(&mut objects, &mut disk, &mut heard) {}
    assert!(matches!(heard[..], [ObjectEvent::Removed { object }] if object == info.id), "{heard:?}");
    // Its room is not another's yet.
    assert!(matches!(objects.create(b"next", 500_000), Err(StoreError::NoRoom { .. })));
    objects.read(info.id, 30, 5, &mut disk).expect("it is held");
    heard.clear();
    while turn(&mut objects, &mut disk, &mut heard) {}
    let [ObjectEvent::Read { token: 5, result: Ok(block) }] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(block.bytes(), &bytes[30 * PIECE_BYTES as usize..], "the last piece, without what fills its unit");
    heard.clear();
    // Released while it is read: the read ends, then the room is free.
    objects.read(info.id, 0, 6, &mut disk).expect("it is held");
    objects.release(info.id);
    assert_ne!(objects.free(), free);
    while turn(&mut objects, &mut disk, &mut heard) {}
    assert_eq!(heard.len(), 1);
    drop(heard);
    assert_eq!(objects.free(), free, "all of it is free again");
    assert_eq!(objects.read(info.id, 0, 7, &mut disk), Err(StoreError::None));
    store(&mut objects, &mut disk, b"next", &bytes);
    store(&mut objects, &mut disk, b"empty", b"");
    assert_eq!(read_all(&mut objects, &mut disk, b"empty"), Ok(Vec::new()));
    assert_eq!(buffers_in_use(), 0);
}

#[test]
fn objects_that_are_opened_to_be_read_are_read_and_not_changed() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk = Disk::new(sim(&media, None));
    let (mut objects, _) = open(&mut disk).expect("an empty disk");
    let bytes = contents(b"film", 100_000, 1);
    store(&mut objects, &mut disk, b"film", &bytes);
    drop((objects, disk));
    let mut disk = Disk::new(sim(&media, None));
    let (mut objects, count) = open_with(&mut disk, Options::default().read_only()).expect("a store");
    assert_eq!((count, objects.identity()), (1, [8; 16]));
    assert_eq!(read_all(&mut objects, &mut disk, b"film"), Ok(bytes));
    assert_eq!(objects.create(b"next", 1), Err(StoreError::NotReady));
    assert_eq!(objects.remove(b"film", &mut disk), Err(StoreError::NotReady));
    let mut heard = Vec::new();
    while turn(&mut objects, &mut disk, &mut heard) {}
    assert!(heard.is_empty(), "{heard:?}");
    assert_eq!(buffers_in_use(), 0);
}

#[test]
fn rot_of_any_piece_or_checksum_is_noticed() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk = Disk::new(sim(&media, None));
    let (mut objects, _) = open(&mut disk).expect("an empty disk");
    let bytes = contents(b"film", 100_000, 1);
    store(&mut objects, &mut disk, b"film", &bytes);
    let begin = ((64 << 10) + (192 << 10)) / 512;
    // 100,000 bytes are 25 units; the checksums are in the one behind them.
    for block in begin..begin + 26 * 8 {
        let mut disk = Disk::new(sim(&media, None));
        media.rot(block, 100, 1);
        let (mut objects, _) = open(&mut disk).expect("the table is whole");
        let read = read_all(&mut objects, &mut disk, b"film");
        let Err(StoreError::Rotten { place }) = read else { panic!("block {block}: {:?}", read.map(|it| it.len())) };
        assert!(place <= block * 512 && block * 512 < place + PIECE_BYTES);
        media.rot(block, 100, 1);
    }
    // A block that can't be read, and one that can again.
    media.fail_reads(begin + 3);
    let (mut objects, _) = open(&mut disk).expect("the table is whole");
    let read = read_all(&mut objects, &mut disk, b"film");
    assert!(matches!(read, Err(StoreError::Disk { error: StorageError::Medium, .. })), "{read:?}");
}

#[test]
fn reads_that_went_astray_are_read_again_or_refused() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let bytes = contents(b"film", 300_000, 1);
    {
        let mut disk = Disk::new(sim(&media, None));
        let (mut objects, _) = open(&mut disk).expect("an empty disk");
        store(&mut objects, &mut disk, b"other", &bytes);
        store(&mut objects, &mut disk, b"film", &bytes);
    }
    let rates = FaultRates { misdirect_ppm: 60_000, rot_ppm: 60_000, ..FaultRates::default() };
    let (mut whole, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut disk = Disk::new(Fault::new(sim(&media, None), FaultRates::default(), seed));
        let (mut objects, _) = open(&mut disk).expect("no faults yet");
        disk.vsic.set_rates(rates);
        match read_all(&mut objects, &mut disk, b"film") {
            Ok(read) => {
                assert!(read == bytes);
                whole += u64::from(disk.vsic.counters().misdirected + disk.vsic.counters().rotten > 0);
            }
            Err(StoreError::Rotten { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(whole > 20 && refused > 0, "{whole} {refused}");
}

#[test]
fn a_failed_write_gives_up_the_object_and_a_failed_flush_all() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk = Disk::new(Fault::new(sim(&media, None), FaultRates::default(), 1));
    let (mut objects, _) = open(&mut disk).expect("an empty disk");
    let free = objects.free();
    let failing = FaultRates { error_ppm: 1_000_000, ..FaultRates::default() };
    let id = objects.create(b"film", 20_000).expect("there is room");
    disk.vsic.set_rates(failing);
    write(&mut objects, &mut disk, id, &[1; 20_000], 0);
    let mut heard = Vec::new();
    while turn(&mut objects, &mut disk, &mut heard) {}
    let told = heard.iter().filter(|event| matches!(event, ObjectEvent::NotStored { object, .. } if *object == id));
    assert_eq!((told.count(), heard.len()), (1, 1), "{heard:?}");
    assert_eq!(objects.free(), free);
    disk.vsic.set_rates(FaultRates::default());
    let id = objects.create(b"film", 100).expect("the name is free");
    write(&mut objects, &mut disk, id, &[1; 100], 0);
    heard.clear();
    // The piece, the checksums; then the flush fails.
    turn(&mut objects, &mut disk, &mut heard);
    turn(&mut objects, &mut disk, &mut heard);
    disk.vsic.set_rates(failing);
    while turn(&mut objects, &mut disk, &mut heard) {}
    let failed = heard.iter().any(|event| matches!(event, ObjectEvent::Failed(StoreError::Disk { .. })));
    let stored = heard.iter().any(|event| matches!(event, ObjectEvent::Stored { .. }));
    assert!(!stored && failed, "{heard:?}");
    assert!(matches!(objects.create(b"more", 1), Err(StoreError::Stopped(_))));
}

#[test]
fn more_reads_than_buffers_end_all_the_same() {
    let media = Media::new(AREA_BYTES / 512, 512);
    let mut disk = Disk::new(sim(&media, Some(3)));
    let (mut objects, _) = open(&mut disk).expect("an empty disk");
    let bytes = contents(b"film", 600_000, 1);
    store(&mut objects, &mut disk, b"film", &bytes);
    let info = objects.hold(b"film").expect("it is stored");
    let count = u64::from(BUFFERS) * 10;
    for token in 0..count {
        objects.read(info.id, token % 36, token, &mut disk).expect("it is held");
    }
    let (mut heard, mut ends) = (Vec::new(), 0);
    while turn(&mut objects, &mut disk, &mut heard) {
        for event in heard.drain(..) {
            let ObjectEvent::Read { token, result } = event else { panic!("{event:?}") };
            let from = (token % 36 * PIECE_BYTES) as usize;
            assert_eq!(result.expect("it can be read").bytes(), &bytes[from..from + PIECE_BYTES as usize]);
            ends += 1;
        }
    }
    assert_eq!(ends, count);
}
