//! Areas on a simulated disk: power lost at every write, damage in every copy, full and foreign disks.
use qanat_disk::area::{Area, AreaError, AreaLimits, AreaName, AreaState, Areas, Fence, Owner, UNIT_BYTES};
use qanat_disk::{Completion, Geometry, Media, Operation, Request, Sim, SimConfig, StorageError, Vsic, VsicStatistics};
use qanat_nic::Random;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
pub const OWNER: Owner = Owner { uid: 1_000, gid: 1_000 };

/// A device whose power can be lost from outside: when so many requests have been submitted, the last of them is still under way.
#[derive(Clone, Debug)]
pub struct Plug {
    sim: Rc<RefCell<Option<Sim>>>,
    geometry: Geometry,
    left: Rc<RefCell<u64>>,
}

impl Plug {
    fn new(media: &Media, left: u64) -> Plug {
        let sim = Sim::new(media, SimConfig::default());
        let geometry = sim.geometry();
        Plug { sim: Rc::new(RefCell::new(Some(sim))), geometry, left: Rc::new(RefCell::new(left)) }
    }

    fn lose_power(&self, choose: &mut dyn FnMut(usize) -> usize) {
        if let Some(sim) = self.sim.borrow_mut().take() {
            sim.lose_power(choose);
        }
    }
}

impl Vsic for Plug {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        1
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        let mut left = self.left.borrow_mut();
        if *left == 0 {
            return Err(request);
        }
        *left -= 1;
        self.sim.borrow_mut().as_mut().expect("power").submit(request)
    }

    fn ring(&mut self) {
        self.sim.borrow_mut().as_mut().expect("power").ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        if *self.left.borrow() == 0 {
            // What is under way stays so; the caller is told something, as its process would be dead.
            completions.push(Completion { token: 0, frame: None, result: Err(StorageError::Gone) });
            return 1;
        }
        self.sim.borrow_mut().as_mut().expect("power").complete(completions, completions_max)
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn statistics(&self) -> VsicStatistics {
        VsicStatistics::default()
    }
}

pub fn name(text: &str) -> AreaName {
    AreaName::new(text).unwrap()
}

pub fn prepare(media: &Media, left: u64) -> Result<Areas<Plug>, AreaError> {
    Areas::prepare(Plug::new(media, left), &Areas::<Plug>::memory().unwrap(), [7; 16])
}

pub fn open(media: &Media) -> Result<Areas<Plug>, AreaError> {
    Areas::open(Plug::new(media, u64::MAX), &Areas::<Plug>::memory().unwrap()).map(|(areas, _)| areas)
}

pub fn media(block_bytes: u32) -> Media {
    Media::new(3 * MIB / u64::from(block_bytes), block_bytes)
}

/// A step of a script; what it does is durable when it returns.
type Step = Box<dyn Fn(&mut Areas<Plug>) -> Result<(), AreaError>>;

/// Writes all of an area, so that whoever gets its space later would see it. Not flushed.
fn soil(areas: &mut Areas<Plug>, area: &str) -> Result<(), AreaError> {
    let extents = areas.get(&name(area))?.extents().to_vec();
    let block_bytes = u64::from(areas.disk().geometry().block_bytes);
    let region = qanat_nic::Region::new(1, UNIT_BYTES as u32).unwrap();
    let pool = region.pool(1).unwrap();
    for unit in extents.iter().flat_map(|extent| extent.unit..extent.unit + extent.units) {
        let mut frame = pool.allocate(0).unwrap();
        frame.append(UNIT_BYTES as usize).unwrap().fill(0xaa);
        let operation = Operation::Write { block: unit * UNIT_BYTES / block_bytes, frame, durable: false };
        let gone = AreaError::Device { place: 0, error: StorageError::Gone };
        areas.disk().submit(Request { token: 0, operation }).map_err(|_| gone.clone())?;
        areas.disk().ring();
        let mut completions = Vec::new();
        areas.disk().complete(&mut completions, 1);
        completions
            .pop()
            .map_or(Err(gone), |completion| completion.result.map_err(|error| AreaError::Device { place: 0, error }))?;
    }
    Ok(())
}

fn script() -> Vec<Step> {
    fn step(step: impl Fn(&mut Areas<Plug>) -> Result<(), AreaError> + 'static) -> Step {
        Box::new(step)
    }
    let zero = |area: &'static str| {
        step(move |areas| {
            let id = areas.get(&name(area))?.id();
            areas.zero_some(id, u64::MAX).map(drop)
        })
    };
    let create = |area: &'static str, bytes| step(move |areas| areas.create(name(area), OWNER, bytes).map(drop));
    vec![
        create("first", 40_000),
        zero("first"),
        step(|areas| soil(areas, "first")),
        create("second", 20_000),
        zero("second"),
        step(|areas| soil(areas, "second")),
        step(|areas| areas.grow(&name("first"), 60_000)),
        zero("first"),
        step(|areas| areas.delete(&name("first")).map(drop)),
        step(|areas| {
            let doomed: Vec<u64> =
                areas.iter().filter(|area| area.state() == AreaState::Doomed).map(Area::id).collect();
            doomed.into_iter().try_for_each(|id| areas.release(id))
        }),
        create("third", 50_000),
        zero("third"),
        step(|areas| {
            let of = (AreaLimits::default(), Fence::Partition);
            areas.create_limited(name("fourth"), OWNER, of, 20_000).map(drop)
        }),
        zero("fourth"),
        step(|areas| areas.set_limits(&name("third"), AreaLimits { requests_per_second: 9, bytes_per_second: 0 })),
    ]
}

/// The areas, without those that opening ends the deletion of.
fn living(areas: &Areas<Plug>) -> Vec<Area> {
    areas.iter().filter(|area| area.state() == AreaState::Ready).cloned().collect()
}

/// What is usable of areas that nobody has written is zero.
fn check_contents(areas: &Areas<Plug>, media: &Media, soiled: &BTreeSet<u64>) {
    let bytes = media.bytes();
    for area in areas.iter().filter(|area| !soiled.contains(&area.id())) {
        let mut left = area.bytes();
        for extent in area.extents() {
            let here = extent.bytes().min(left);
            let start = (extent.unit * UNIT_BYTES) as usize;
            assert!(bytes[start..start + here as usize].iter().all(|byte| *byte == 0), "{} is zero", area.name());
            left -= here;
        }
    }
}

/// Runs the script up to where the power fails. How many steps were acknowledged, and the areas that were written.
fn run_until(media: &Media, requests: u64, steps: &[Step]) -> (Option<usize>, BTreeSet<u64>, Plug) {
    let plug = Plug::new(media, requests);
    let mut soiled = BTreeSet::new();
    let Ok(mut areas) = Areas::prepare(plug.clone(), &Areas::<Plug>::memory().unwrap(), [7; 16]) else {
        return (None, soiled, plug);
    };
    for (index, step) in steps.iter().enumerate() {
        if [2, 5].contains(&index) {
            soiled.extend(areas.iter().map(Area::id));
        }
        if step(&mut areas).is_err() {
            return (Some(index), soiled, plug);
        }
    }
    (Some(steps.len()), soiled, plug)
}

#[test]
fn power_lost_at_every_request_leaves_what_was_acknowledged() {
    let steps = script();
    // The states without a loss: after preparing, and after each step.
    let whole = media(4_096);
    let mut areas = prepare(&whole, u64::MAX).unwrap();
    let mut states = vec![living(&areas)];
    for step in &steps {
        step(&mut areas).unwrap();
        states.push(living(&areas));
    }
    let (mut requests, mut ends, mut tried) = (1, false, 0);
    while !ends {
        // Every choice of what a crash leaves, up to a bound; then by seeds.
        for choice in 0..16_u64 {
            let media = media(if choice % 4 == 3 { 512 } else { 4_096 });
            let (done, soiled, plug) = run_until(&media, requests, &steps);
            ends = done == Some(steps.len());
            let mut random = Random::new(choice);
            let mut bits = choice;
            let mut depth = 0;
            plug.lose_power(&mut |candidates| {
                depth += 1;
                // The first four decisions run through all their combinations.
                let bit = (bits & 1) as usize;
                bits >>= 1;
                if depth <= 4 && candidates == 2 { bit } else { random.below(candidates as u64) as usize }
            });
            tried += 1;
            let recovered = match (open(&media), done) {
                (Err(AreaError::Unprepared), None) => continue,
                // A torn first superblock beside none: the disk was never said to be prepared.
                (Err(AreaError::Superblocks), None) => continue,
                (recovered, _) => recovered.unwrap_or_else(|error| panic!("request {requests}, {choice}: {error}")),
            };
            let Some(done) = done else { continue };
            let found = living(&recovered);
            let good = found == states[done] || states.get(done + 1) == Some(&found);
            assert!(
                good,
                "request {requests}, choice {choice}, after step {done}: {found:#?}\nnot {:#?}",
                states[done]
            );
            check_contents(&recovered, &media, &soiled);
            // A second recovery changes nothing, and the disk can be gone on with.
            drop(recovered);
            let mut again = open(&media).unwrap();
            assert_eq!(living(&again), found);
            let id = again.create(name("after"), OWNER, 4_096).unwrap();
            again.zero_some(id, u64::MAX).unwrap();
            check_contents(&again, &media, &soiled);
        }
        requests += 1;
    }
    assert!(tried > 700, "{tried}");
}

#[test]
fn random_changes_and_crashes_never_give_space_twice() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let media = media(512);
        drop(prepare(&media, u64::MAX).unwrap());
        for _ in 0..4 {
            let plug = Plug::new(&media, 300 + random.below(2_000));
            let Ok((mut areas, _)) = Areas::open(plug.clone(), &Areas::<Plug>::memory().unwrap()) else {
                plug.lose_power(&mut |candidates| random.below(candidates as u64) as usize);
                continue;
            };
            let mut before = living(&areas);
            for _ in 0..400 {
                let which = name(&format!("a{}", random.below(30)));
                let outcome = match random.below(6) {
                    0 | 1 => areas.create(which, OWNER, 1 + random.below(200_000)).map(drop),
                    2 => areas.grow(&which, random.below(300_000)),
                    3 => areas.delete(&which).and_then(|id| areas.release(id)),
                    4 => areas.get(&which).map(Area::id).and_then(|id| areas.zero_some(id, 8_192).map(drop)),
                    _ => {
                        areas.set_limits(&which, AreaLimits { requests_per_second: random.next(), bytes_per_second: 1 })
                    }
                };
                match outcome {
                    Err(AreaError::Device { .. } | AreaError::Failed { .. }) => break,
                    // Refused by a rule: nothing has changed.
                    Err(_) => assert_eq!(living(&areas), before, "seed {seed}"),
                    Ok(()) => before = living(&areas),
                }
            }
            plug.lose_power(&mut |candidates| random.below(candidates as u64) as usize);
            // Opening checks that no two areas have the same space.
            let recovered = open(&media).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let changed = living(&recovered).iter().filter(|area| !before.contains(area)).count();
            assert!(changed <= 1, "seed {seed}: at most the change under way");
        }
    }
}

#[test]
fn the_journal_begins_again_when_it_is_full() {
    let media = media(512);
    let mut areas = prepare(&media, u64::MAX).unwrap();
    areas.create(name("a"), OWNER, 4_096).unwrap();
    for turn in 0..400 {
        areas.set_limits(&name("a"), AreaLimits { requests_per_second: turn, bytes_per_second: 0 }).unwrap();
    }
    assert!(areas.epoch() > 3);
    let (epoch, before) = (areas.epoch(), living(&areas));
    drop(areas);
    let areas = open(&media).unwrap();
    assert_eq!((areas.epoch(), living(&areas)), (epoch, before));
}

#[test]
fn any_one_copy_may_be_damaged() {
    let media = media(512);
    let mut areas = prepare(&media, u64::MAX).unwrap();
    for area in 0..20 {
        areas.create(name(&format!("a{area}")), OWNER, 4_096).unwrap();
    }
    let before = living(&areas);
    drop(areas);
    // Superblock A, B; the third record of journal A, B.
    for block in [0, 1_024, 2_048 + 16, 3_072 + 16] {
        let damaged = media.copy();
        damaged.rot(block, 60, 1);
        assert_eq!(living(&open(&damaged).unwrap()), before, "block {block}");
        let unreadable = media.copy();
        unreadable.fail_reads(block);
        let areas = open(&unreadable).unwrap();
        assert_eq!(living(&areas), before, "block {block}");
    }
    // After the repair the other one may go.
    let damaged = media.copy();
    damaged.rot(0, 60, 1);
    drop(open(&damaged).unwrap());
    damaged.rot(1_024, 60, 1);
    assert_eq!(living(&open(&damaged).unwrap()), before);
}

#[test]
fn damage_in_both_copies_is_refused_and_nothing_is_written() {
    let media = media(512);
    let mut areas = prepare(&media, u64::MAX).unwrap();
    for area in 0..20 {
        areas.create(name(&format!("a{area}")), OWNER, 4_096).unwrap();
    }
    drop(areas);
    let refused = |damage: &[u64]| {
        let damaged = media.copy();
        damage.iter().for_each(|block| damaged.rot(*block, 60, 1));
        let before = damaged.bytes();
        let error = open(&damaged).unwrap_err();
        assert!(damaged.bytes() == before, "{error}: nothing is written");
        let prepared = prepare(&damaged, u64::MAX).unwrap_err();
        assert!(damaged.bytes() == before, "{prepared}: nothing is written");
        error
    };
    assert_eq!(refused(&[0, 1_024]), AreaError::Superblocks);
    assert_eq!(refused(&[2_048 + 24, 3_072 + 24]), AreaError::Journal { epoch: 1, record: 3 });
}

#[test]
fn what_is_on_a_disk_already_is_never_overwritten() {
    let marks: [(u64, usize, &[u8], &str); 4] = [
        (2, 56, b"\x53\xef", "ext4"),
        (0, 0, b"XFSB", "XFS"),
        (0, 510, b"\x55\xaa", "partition table"),
        (700, 9, b"x", "does not know"),
    ];
    for (block, at, mark, what) in marks {
        let media = media(512);
        mark.iter().enumerate().for_each(|(index, byte)| media.rot(block, at + index, *byte));
        let before = media.bytes();
        let error = prepare(&media, u64::MAX).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(open(&media).unwrap_err(), AreaError::Unprepared);
        assert!(media.bytes() == before);
    }
    let media = media(512);
    drop(prepare(&media, u64::MAX).unwrap());
    assert_eq!(prepare(&media, u64::MAX).unwrap_err(), AreaError::Prepared { epoch: 1, areas: 0 });
}

#[test]
fn bad_wishes_are_refused_by_name() {
    let media = media(512);
    let mut areas = prepare(&media, u64::MAX).unwrap();
    for text in ["", "-a", "a/b", "a b", "ä", &"a".repeat(64)] {
        assert!(matches!(AreaName::new(text), Err(AreaError::Name { .. })), "{text}");
    }
    areas.create(name("a"), OWNER, 8_192).unwrap();
    assert_eq!(areas.create(name("a"), OWNER, 1).unwrap_err(), AreaError::Exists { name: "a".to_owned() });
    assert_eq!(areas.create(name("b"), OWNER, 0).unwrap_err(), AreaError::Empty);
    let free = areas.free_bytes();
    assert_eq!(areas.create(name("b"), OWNER, free + 1).unwrap_err(), AreaError::NoRoom { wanted: free + 4_096, free });
    assert!(areas.create(name("b"), OWNER, u64::MAX).is_err());
    assert_eq!(areas.grow(&name("a"), 1).unwrap_err(), AreaError::Shrinks { name: "a".to_owned(), bytes: 8_192 });
    assert_eq!(areas.grow(&name("b"), 1).unwrap_err(), AreaError::NoArea { name: "b".to_owned() });
    assert_eq!(areas.delete(&name("b")).unwrap_err(), AreaError::NoArea { name: "b".to_owned() });
    areas.create(name("b"), OWNER, free).unwrap();
    assert_eq!(areas.free_bytes(), 0);
    // A name is free as soon as its area is deleted, the space once it is released.
    let id = areas.delete(&name("b")).unwrap();
    assert!(matches!(areas.create(name("b"), OWNER, 4_096).unwrap_err(), AreaError::NoRoom { .. }));
    areas.release(id).unwrap();
    areas.create(name("b"), OWNER, 4_096).unwrap();
    let small = Media::new(4_096, 512);
    assert!(matches!(prepare(&small, u64::MAX).unwrap_err(), AreaError::TooSmall { .. }));
}

#[test]
fn a_failed_flush_ends_changes_until_the_disk_is_opened_again() {
    let media = media(512);
    let plug = Plug::new(&media, u64::MAX);
    let mut areas = Areas::prepare(plug.clone(), &Areas::<Plug>::memory().unwrap(), [7; 16]).unwrap();
    areas.create(name("a"), OWNER, 4_096).unwrap();
    *plug.left.borrow_mut() = 1;
    assert!(matches!(areas.create(name("b"), OWNER, 4_096).unwrap_err(), AreaError::Device { .. }));
    *plug.left.borrow_mut() = u64::MAX;
    assert_eq!(areas.create(name("c"), OWNER, 4_096).unwrap_err(), AreaError::Failed { error: StorageError::Gone });
}
