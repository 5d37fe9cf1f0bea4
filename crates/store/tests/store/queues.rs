//! The queue under crashes: each element that was acknowledged as pushed comes, in order, until it is acknowledged as done; and no other does.

use crate::disk::{AREA, Disk, buffers_in_use, sim};
use crate::seeds;
use qanat_disk::Media;
use qanat_nic::Random;
use qanat_store::{Kind, Log, LogEvent, Options, Position, Queue, QueueEvent, StoreError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Default, Debug)]
struct Met {
    popped: u64,
    again: u64,
    acknowledged: u64,
    given_back: u64,
    full: u64,
    crashes: u64,
}

/// What the queue may hold after a crash.
#[derive(Default)]
struct Model {
    /// Everything pushed and not known to be done, by its number.
    pushed: BTreeMap<Position, Vec<u8>>,
    /// Those that are durable before this certainly are there.
    durable: Position,
    /// Acknowledged by the consumer: it may come again until that is durable.
    done: VecDeque<Position>,
    /// Done for certain.
    gone: BTreeSet<Position>,
}

fn open(disk: &mut Disk) -> (Queue, usize) {
    let options = Options::default().make_if_empty([4; 16]);
    let mut queue = Queue::open(AREA, options, disk).expect("it fits");
    loop {
        if let Some(event) = queue.next(disk) {
            match event {
                QueueEvent::Recovered { elements, .. } => return (queue, elements),
                other => panic!("{other:?}"),
            }
        }
        let event = disk.next().expect("something is under way");
        assert!(queue.handle(event, disk).is_none());
    }
}

/// Takes events and checks them. Elements that are popped go to `held`, in order.
fn hear(queue: &mut Queue, disk: &mut Disk, model: &mut Model, held: &mut Vec<(Position, Vec<u8>)>) {
    while let Some(event) = queue.next(disk) {
        match event {
            QueueEvent::Pushed { before } => model.durable = model.durable.max(before),
            QueueEvent::Acknowledged { count } => {
                for id in model.done.drain(..count) {
                    model.pushed.remove(&id);
                    model.gone.insert(id);
                }
            }
            QueueEvent::Popped { id, result } => {
                let bytes = result.expect("it can be read");
                assert!(!model.gone.contains(&id), "an element that was acknowledged comes again");
                assert_eq!(model.pushed.get(&id).map(Vec::as_slice), Some(bytes), "what was pushed comes");
                held.push((id, bytes.to_vec()));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn history(seed: u64, met: &mut Met) {
    let mut random = Random::new(seed);
    let media = Media::new((192 << 10) / 512, 512);
    let mut model = Model::default();
    for _ in 0..3 {
        let mut disk = Disk::new(sim(&media, (random.below(2) == 0).then_some(seed)));
        let (mut queue, elements) = open(&mut disk);
        // All of it comes, in order, before anything new.
        let mut held = Vec::new();
        let mut asked = 0;
        while asked < elements || !queue.log().is_idle() {
            asked += usize::from(asked < elements && queue.pop(&mut disk).expect("it is ready"));
            hear(&mut queue, &mut disk, &mut model, &mut held);
            let event = disk.next();
            event.into_iter().for_each(|event| assert!(queue.handle(event, &mut disk).is_none()));
            hear(&mut queue, &mut disk, &mut model, &mut held);
        }
        assert!(!queue.pop(&mut disk).expect("it is ready"), "no more of them");
        assert_eq!(held.len(), elements);
        assert!(held.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
        let came: BTreeSet<Position> = held.iter().map(|(id, _)| *id).collect();
        for id in model.pushed.keys().filter(|id| **id < model.durable && !model.done.contains(id)) {
            assert!(came.contains(id), "an element that was durable is gone");
        }
        met.again += held.len() as u64;
        model.pushed.retain(|id, _| came.contains(id));
        model.done.clear();
        for _ in 0..random.below(150) {
            match random.below(10) {
                0..=3 => {
                    let bytes = vec![random.next() as u8; random.below(1_500) as usize];
                    match queue.push(&[&bytes], &mut disk) {
                        Ok(id) => drop(model.pushed.insert(id, bytes)),
                        Err(StoreError::Full { .. }) => met.full += 1,
                        Err(StoreError::Busy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                4..=5 => queue.commit(&mut disk),
                6 => met.popped += u64::from(queue.pop(&mut disk).expect("it is ready")),
                7 if !held.is_empty() => {
                    let index = random.below(held.len() as u64) as usize;
                    let (id, _) = held.remove(index);
                    if random.below(5) == 0 {
                        queue.give_back(id).expect("it was popped");
                        met.given_back += 1;
                    } else {
                        queue.acknowledge(id).expect("it was popped");
                        assert_eq!(queue.acknowledge(id), Err(StoreError::None));
                        model.done.push_back(id);
                        met.acknowledged += 1;
                    }
                }
                _ => {
                    let event = disk.next();
                    event.into_iter().for_each(|event| assert!(queue.handle(event, &mut disk).is_none()));
                    hear(&mut queue, &mut disk, &mut model, &mut held);
                }
            }
        }
        drop(queue);
        met.crashes += 1;
        disk.lose_power(&mut |count| random.below(count as u64) as usize);
    }
    assert_eq!(buffers_in_use(), 0);
}

#[test]
fn what_was_pushed_comes_until_it_is_done() {
    let met: Met = seeds::each("what_was_pushed_comes_until_it_is_done", 1_500, history);
    println!("{met:?}");
    if std::env::var_os("QANAT_SEED").is_none() {
        let Met { popped, again, acknowledged, given_back, full, crashes } = met;
        for count in [popped, again, acknowledged, given_back, full, crashes] {
            assert!(count > 0, "all of it has to be met");
        }
    }
}

/// A queue that is used forever needs no more than its area.
#[test]
fn room_is_given_up_from_the_oldest_element_on() {
    let media = Media::new((192 << 10) / 512, 512);
    let mut disk = Disk::new(sim(&media, None));
    let (mut queue, _) = open(&mut disk);
    let (mut model, mut held) = (Model::default(), Vec::new());
    for round in 0..2_000u32 {
        let id = queue.push(&[&round.to_le_bytes(), &[0; 500]], &mut disk).expect("there is room");
        model.pushed.insert(id, [round.to_le_bytes().as_slice(), &[0; 500]].concat());
        queue.commit(&mut disk);
        let _ = queue.pop(&mut disk).expect("it is ready");
        while let Some(event) = disk.next() {
            queue.handle(event, &mut disk);
            hear(&mut queue, &mut disk, &mut model, &mut held);
        }
        for (id, _) in held.drain(..) {
            queue.acknowledge(id).expect("it was popped");
            model.done.push_back(id);
        }
    }
    assert!(queue.log().durable().to_number() > 4 << 20, "many times round");
    drop(queue);
    // It is not opened as something else.
    let mut log = Log::open(AREA, Options::default(), &mut disk).expect("it fits");
    while let Some(event) = disk.next() {
        log.handle(event, &mut disk);
    }
    let told = log.next(&mut disk);
    assert!(
        matches!(told, Some(LogEvent::Failed(StoreError::Kind { found: Kind::Queue, wanted: Kind::Log }))),
        "{told:?}"
    );
}
