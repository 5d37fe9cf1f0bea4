//! Histories that end in a loss of power, by seed: what was acknowledged is there, all of a command or none of it, and nothing else. The
//! disk is small, so checkpoints come often and are crashed, too.

use crate::client::{Store, contents};
use crate::disk::{AREA, Disk};
use qanat_disk::Media;
use qanat_kv::engine::settings::Durability;
use qanat_kv::journal::{Journal, News};
use qanat_kv::keyspace::space::Keyspace;
use qanat_nic::{Random, Time};
use qanat_store::Position;

/// What happened, over all seeds.
#[derive(Default, Debug)]
struct Met {
    crashes: u64,
    checkpoints: u64,
    undone: u64,
    refused: u64,
}

/// Recovers a keyspace.
fn recover(disk: &mut Disk) -> (Journal, Keyspace) {
    let mut keyspace = Keyspace::default();
    let mut journal = Journal::open(AREA, [7; 16], disk).expect("an area");
    loop {
        while let Some(news) = journal.next(&mut keyspace, disk) {
            match news {
                News::Recovered(_) => return (journal, keyspace),
                News::Durable => {}
                News::Failed(error) => panic!("{error}"),
            }
        }
        let event = disk.next().expect("something is under way until it is recovered");
        assert!(journal.handle(event, disk).is_none());
    }
}

fn command(random: &mut Random) -> String {
    let (key, other, word) = (random.below(30), random.below(30), random.below(1_000));
    let long = "v".repeat(random.below(400) as usize);
    match random.below(17) {
        0..=3 => format!("set k{key} {word}{long}"),
        4 => format!("del k{key} k{other}"),
        5 => format!("append k{key} {word}"),
        6 => format!("rename k{key} k{other}"),
        7 => format!("rpush l{key} {word} {long}x"),
        8 => format!("lpop l{key}"),
        9 => format!("lmove l{key} l{other} left right"),
        10 => format!("hset h{key} {word} {long}"),
        11 => format!("sadd s{key} {word} {other}"),
        12 => format!("zadd z{key} {word} {other}"),
        // Databases are swapped while a checkpoint walks through them.
        13 => format!("swapdb {} {}", key % 3, other % 3),
        14 => format!("select {}", key % 3),
        15 => format!("pfadd p{key} {word} {other}"),
        _ => format!("mset k{key} {word} k{other} {long}"),
    }
}

fn history(seed: u64, met: &mut Met) {
    let mut random = Random::new(seed);
    let media = Media::new((192 << 10 << random.below(3)) / 512, 512);
    // States that a crash may leave: what was acknowledged last, and what came behind it.
    let mut possible: Vec<Vec<String>> = vec![Vec::new()];
    for _ in 0..2 + random.below(3) {
        let order = (random.below(2) == 0).then(|| random.next());
        let mut disk = Disk::new(&media, order);
        let (mut journal, keyspace) = recover(&mut disk);
        let found = contents(&keyspace);
        let place = possible.iter().position(|state| *state == found);
        let place = place.unwrap_or_else(|| panic!("seed {seed}: what is found was never so: {found:#?}"));
        met.undone += u64::from(place + 1 < possible.len());
        possible = vec![found];
        let mut positions: Vec<Option<Position>> = vec![None];
        let mut store = Store::over(keyspace, 1);
        for _ in 0..random.below(250) {
            journal.tell(&store.state.keyspace, &mut store.state.log);
            let heard = store.line(&command(&mut random));
            met.refused += u64::from(heard.starts_with("-OOM"));
            if random.below(60) == 0 {
                let heard = store.line("bgrewriteaof");
                assert!(heard.ends_with("started") || heard.ends_with("already in progress"), "seed {seed}: {heard}");
            }
            if std::mem::take(&mut store.state.log.is_checkpoint_wanted) {
                journal.want_checkpoint();
            }
            if !store.state.keyspace.record().is_empty() {
                assert!(
                    journal.append(&mut store.state.keyspace, &mut disk).is_none(),
                    "seed {seed}: it is refused before"
                );
                possible.push(contents(&store.state.keyspace));
                positions.push(journal.gate());
            }
            if random.below(3) > 0 {
                let how = (Durability::Always, false, Time::ZERO);
                assert!(journal.turn_ended(&store.state.keyspace, how, &mut disk).is_none(), "seed {seed}");
            }
            for _ in 0..random.below(4) {
                if let Some(event) = disk.next() {
                    assert!(journal.handle(event, &mut disk).is_none());
                }
                while let Some(news) = journal.next(&mut store.state.keyspace, &mut disk) {
                    assert!(matches!(news, News::Durable), "seed {seed}: {news:?}");
                }
            }
            // What is durable now may be answered: nothing before it may be found any more.
            let is_durable = |position: &Option<Position>| position.is_none_or(|position| journal.is_durable(position));
            let acknowledged = positions.iter().take_while(|position| is_durable(position)).count().max(1) - 1;
            possible.drain(..acknowledged);
            positions.drain(..acknowledged);
        }
        journal.tell(&store.state.keyspace, &mut store.state.log);
        met.checkpoints += store.state.log.checkpoints;
        met.crashes += 1;
        drop(journal);
        disk.lose_power(&mut |count| random.below(count as u64) as usize);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut met = Met::default();
    match number("QANAT_SEED") {
        Some(seed) => history(seed, &mut met),
        None => {
            (0..number("QANAT_SEEDS").unwrap_or(300)).for_each(|seed| history(seed, &mut met));
            let Met { crashes, checkpoints, undone, refused } = met;
            println!("{met:?}");
            assert!(
                [crashes, checkpoints, undone, refused].iter().all(|count| *count > 0),
                "all of it has to be met: {met:?}"
            );
        }
    }
}
