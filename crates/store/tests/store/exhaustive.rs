//! Short histories, all of them: a crash after each request that ended, and of every block every version that a crash may leave. Recovery
//! is crashed the same way.

use crate::disk::{Disk, sim};
use crate::histories::recover;
use crate::oracle::Oracle;
use qanat_disk::Media;
use qanat_store::{Log, LogEvent, Options, RecordKind, StoreError};

const OPTIONS: fn() -> Options = || Options::default().make_if_empty([3; 16]);

/// Counts through all sequences of choices: each run chooses by [`choose`](Choices::choose), then [`next`](Choices::next) goes on.
#[derive(Default)]
struct Choices {
    /// What was chosen, of how many.
    digits: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.digits.len() {
            self.digits.push((0, of));
        }
        self.at += 1;
        self.digits[self.at - 1].0
    }

    /// Whether there is another sequence.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, of)) = self.digits.pop() {
            if chosen + 1 < of {
                self.digits.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// What is done between two requests that end.
type Script = fn(step: usize, log: &mut Log, disk: &mut Disk, oracle: &mut Oracle);

fn append(log: &mut Log, disk: &mut Disk, oracle: &mut Oracle, kind: RecordKind, bytes: &[u8]) {
    let position = match kind {
        RecordKind::Checkpoint => log.checkpoint_append(&[bytes], disk),
        _ => log.append(bytes, disk),
    };
    oracle.append(position.expect("there is room"), kind, bytes);
}

fn hear(log: &mut Log, disk: &mut Disk, oracle: &mut Oracle) {
    while let Some(event) = log.next(disk) {
        match event {
            LogEvent::Durable { before } => oracle.durable_before(before),
            LogEvent::Checkpointed { start } | LogEvent::Truncated { start } => oracle.started(start),
            other => panic!("{other:?}"),
        }
    }
}

/// Runs the script on an empty disk until so many requests have ended; whether there were that many. Then power fails.
fn run(script: Script, block_bytes: u32, ends: usize, choices: &mut Choices) -> Option<(Media, Oracle)> {
    let media = Media::new((128 << 10) / u64::from(block_bytes), block_bytes);
    let mut disk = Disk::new(sim(&media, None));
    let mut oracle = Oracle::default();
    let (mut log, ..) = recover(&mut disk, OPTIONS(), usize::MAX).expect("an empty disk").expect("patience");
    script(0, &mut log, &mut disk, &mut oracle);
    for step in 1..=ends {
        let event = disk.next()?;
        assert!(log.handle(event, &mut disk).is_none());
        hear(&mut log, &mut disk, &mut oracle);
        script(step, &mut log, &mut disk, &mut oracle);
    }
    disk.lose_power(&mut |of| choices.choose(of));
    Some((media, oracle))
}

/// All that recovery may find, with a crash of its own after each of its requests.
fn recoveries(media: &Media, oracle: &Oracle, crashes_too: bool) -> usize {
    let mut count = 0;
    let ends = if crashes_too { 0..usize::MAX } else { usize::MAX - 1..usize::MAX };
    for patience in ends {
        let mut choices = Choices::default();
        loop {
            let copy = media.copy();
            let mut disk = Disk::new(sim(&copy, None));
            let first = recover(&mut disk, OPTIONS(), patience).expect("no damage, no error");
            let is_done = first.is_some();
            if let Some((_, found, recovered)) = first {
                oracle.clone().found(&found, recovered);
                count += 1;
            }
            disk.lose_power(&mut |of| choices.choose(of));
            let mut disk = Disk::new(sim(&copy, None));
            let again = recover(&mut disk, OPTIONS(), usize::MAX).expect("no damage, no error");
            let (_, found, recovered) = again.expect("patience");
            oracle.clone().found(&found, recovered);
            if !choices.next() {
                if is_done {
                    return count;
                }
                break;
            }
        }
    }
    count
}

/// Every crash of a script. Returns how many disks there were.
fn all(script: Script, block_bytes: u32, crashes_too: bool) -> usize {
    let mut disks = 0;
    for ends in 0.. {
        let mut choices = Choices::default();
        loop {
            let Some((media, oracle)) = run(script, block_bytes, ends, &mut choices) else { return disks };
            recoveries(&media, &oracle, crashes_too);
            disks += 1;
            if !choices.next() {
                break;
            }
        }
    }
    disks
}

/// Appends collect while others are on their way; one is longer than a frame.
fn group_commit(step: usize, log: &mut Log, disk: &mut Disk, oracle: &mut Oracle) {
    match step {
        0 => append(log, disk, oracle, RecordKind::Data, b"alone"),
        1 => {
            append(log, disk, oracle, RecordKind::Data, &[7; 9_000]);
            append(log, disk, oracle, RecordKind::Data, b"");
        }
        2 => append(log, disk, oracle, RecordKind::Data, b"last"),
        _ => {}
    }
    log.commit(disk);
}

/// A checkpoint with an append in its middle; then what was before is given up, and overwritten.
fn checkpoint(step: usize, log: &mut Log, disk: &mut Disk, oracle: &mut Oracle) {
    match step {
        0 => append(log, disk, oracle, RecordKind::Data, b"before"),
        1 => {
            log.checkpoint_begin(disk).expect("there is room");
            oracle.later_starts.push(oracle.entries.len());
            append(log, disk, oracle, RecordKind::Checkpoint, b"state");
        }
        2 => append(log, disk, oracle, RecordKind::Data, b"between"),
        3 => {
            append(log, disk, oracle, RecordKind::Checkpoint, b"more state");
            log.checkpoint_end(disk).expect("there is room");
        }
        4 => append(log, disk, oracle, RecordKind::Data, b"after"),
        _ => {}
    }
    log.commit(disk);
}

/// The ring begins again at its place: frames of an earlier round lie behind the end.
fn around(step: usize, log: &mut Log, disk: &mut Disk, oracle: &mut Oracle) {
    if step < 24 {
        let result = log.append(&[step as u8; 3_000], disk);
        match result {
            Ok(position) => oracle.append(position, RecordKind::Data, &[step as u8; 3_000]),
            Err(StoreError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if step % 4 == 3 {
            log.truncate(log.durable(), disk).expect("no checkpoint");
            oracle.later_starts.push(oracle.first_from(log.durable()));
        }
    }
    log.commit(disk);
}

#[test]
fn every_crash_of_a_group_commit() {
    let disks = [all(group_commit, 4_096, true), all(group_commit, 2_048, false), all(alone, 512, false)];
    println!("{disks:?}");
    assert!(disks[0] > 20 && disks[1] > 100 && disks[2] > 500, "{disks:?}");
}

/// One append at a time, torn at each sector.
fn alone(step: usize, log: &mut Log, disk: &mut Disk, oracle: &mut Oracle) {
    if step < 2 {
        append(log, disk, oracle, RecordKind::Data, &[step as u8 + 1; 3_500]);
        log.commit(disk);
    }
}

#[test]
fn every_crash_of_a_checkpoint() {
    let disks = [all(checkpoint, 4_096, true), all(checkpoint, 2_048, false)];
    println!("{disks:?}");
    assert!(disks.iter().all(|disks| *disks > 15), "{disks:?}");
}

#[test]
fn every_crash_around_the_ring() {
    let disks = all(around, 4_096, true);
    println!("{disks}");
    assert!(disks > 50, "{disks}");
}
