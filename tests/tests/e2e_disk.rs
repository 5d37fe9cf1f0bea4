//! `qanat disk` as its users have it: a file becomes a disk with areas, and what can't be done says why. `qanat echo-disk`, which serves
//! from an area, needs root.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Outcome, Program, eventually, qanat, scenario};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    /// Not in /tmp, which may have no direct I/O.
    fn new() -> Disk {
        Disk { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory") }
    }

    fn prepared(size: &str) -> Disk {
        let disk = Disk::new();
        disk.does(&["prepare", "fast.img", "--size", size]);
        disk
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("fast.img")
    }

    fn program(&self, words: &[&str]) -> Program {
        Program::new(qanat()).directory(&self.directory).arguments(["disk"]).arguments(words)
    }

    fn does(&self, words: &[&str]) -> Outcome {
        self.program(words).succeeds()
    }

    /// What it says when it can't.
    fn refuses(&self, words: &[&str]) -> String {
        let outcome = self.program(words).run();
        assert!(matches!(outcome.code, Some(1 | 2)), "{words:?}: {outcome:?}");
        outcome.stderr
    }

    fn list(&self) -> Value {
        let text = self.does(&["list", "--on", "fast.img", "--json"]).text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

fn contains(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} is not in {text:?}"));
}

#[test]
fn a_file_becomes_a_disk_with_areas() {
    let disk = Disk::prepared("64M");
    disk.does(&["create", "logs", "--on", "fast.img", "--size", "10M"]);
    disk.does(&["create", "data", "--on", "fast.img", "--size", "20M"]);
    disk.does(&["grow", "logs", "--on", "fast.img", "--size", "30M"]);
    let list = disk.list();
    let areas = list["areas"].as_array().expect("areas");
    let sizes: Vec<_> = areas.iter().map(|area| (area["name"].as_str(), area["bytes"].as_u64())).collect();
    assert_eq!(sizes, [(Some("logs"), Some(30 << 20)), (Some("data"), Some(20 << 20))]);
    assert_eq!(list["free_bytes"], 12 << 20);
    disk.does(&["delete", "logs", "--on", "fast.img"]);
    let text = disk.does(&["list", "--on", "fast.img"]).text();
    contains(&text, &["64 MiB, 42 MiB free", "data", "20 MiB, in one piece"]);
    let text = disk.does(&["bench", "data", "--on", "fast.img", "-d", "20ms", "--json"]).text();
    let points: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line a point")).collect();
    assert_eq!(points.len(), 4);
    assert!(
        points.iter().all(|point| point["requests_per_s"].as_f64() > Some(0.0) && point["write"] == false),
        "{text}"
    );
    let text = disk.does(&["bench", "data", "--on", "fast.img", "-d", "20ms", "--overwrite"]).text();
    assert_eq!(text.lines().filter(|line| line.contains("overwrites")).count(), 4, "{text}");
}

#[test]
fn nobody_reads_what_an_areas_last_owner_left() {
    let disk = Disk::prepared("16M");
    disk.does(&["create", "first", "--on", "fast.img", "--size", "14M"]);
    let file = OpenOptions::new().write(true).open(disk.path()).expect("the disk");
    file.write_all_at(&vec![0xaa; 14 << 20], 2 << 20).expect("all of the area is written");
    drop(file);
    disk.does(&["delete", "first", "--on", "fast.img"]);
    disk.does(&["create", "second", "--on", "fast.img", "--size", "12M"]);
    let content = fs::read(disk.path()).expect("the disk");
    let (second, rest) = content[2 << 20..].split_at(12 << 20);
    assert!(second.iter().all(|byte| *byte == 0), "it is zeroed");
    assert!(rest.iter().all(|byte| *byte == 0xaa), "and nothing else is touched");
}

#[test]
fn a_command_killed_in_the_middle_leaves_a_disk_that_goes_on() {
    let disk = Disk::prepared("600M");
    for turn in 0..6_u64 {
        let name = format!("area{turn}");
        let mut running = disk.program(&["create", &name, "--on", "fast.img", "--size", "80M"]).start();
        std::thread::sleep(Duration::from_millis(5 * turn));
        running.kill();
        let _ = running.wait(Duration::from_secs(20));
    }
    let list = disk.list();
    let areas = list["areas"].as_array().expect("areas");
    let reserved: u64 = areas.iter().filter_map(|area| area["reserved_bytes"].as_u64()).sum();
    assert_eq!(reserved + list["free_bytes"].as_u64().unwrap_or(0) + (2 << 20), 600 << 20, "{list}");
    // What is half zeroed is finished by growing it to what it has.
    for area in areas {
        let name = area["name"].as_str().expect("a name");
        disk.does(&["grow", name, "--on", "fast.img", "--size", "80M"]);
    }
    let again = disk.list();
    assert!(again["areas"].as_array().into_iter().flatten().all(|area| area["bytes"] == 80 << 20), "{again}");
}

#[test]
fn what_cant_be_done_says_why_and_what_to_do() {
    let disk = Disk::prepared("8M");
    disk.does(&["create", "logs", "--on", "fast.img", "--size", "4M"]);
    let cases: [(&[&str], &[&str]); 12] = [
        (&["prepare", "fast.img"], &["prepared already", "1 areas"]),
        (&["prepare", "fast.img", "--size", "1G"], &["is there already"]),
        (&["prepare", "none.img"], &["not there", "--size"]),
        (&["prepare", "small.img", "--size", "1M"], &["too small"]),
        (&["prepare", "."], &["neither a regular file nor a block device"]),
        (&["list", "--on", "none.img"], &["none.img", "No such file"]),
        (&["create", "logs", "--on", "fast.img", "--size", "1M"], &["has an area logs already"]),
        (&["create", "more", "--on", "fast.img", "--size", "1G"], &["the disk is full", "2097152 are free"]),
        (&["create", "a/b", "--on", "fast.img", "--size", "1M"], &["no name of an area"]),
        (&["create", "more", "--on", "fast.img", "--size", "much"], &["no size"]),
        (&["grow", "logs", "--on", "fast.img", "--size", "1M"], &["can't become smaller"]),
        (&["delete", "none", "--on", "fast.img"], &["no area none"]),
    ];
    for (words, parts) in cases {
        contains(&disk.refuses(words), parts);
    }
    assert!(!disk.directory.path().join("small.img").exists(), "a file made in vain is removed");
    fs::write(disk.directory.path().join("plain.img"), vec![0; 4 << 20]).expect("a file");
    contains(&disk.refuses(&["list", "--on", "plain.img"]), &["not been prepared", "qanat disk prepare"]);
}

/// Whether a file is as it was.
fn unchanged(path: &Path, before: &[u8]) {
    assert!(fs::read(path).expect("the disk") == before, "nothing is written");
}

#[test]
fn foreign_damaged_and_busy_disks_are_refused_and_left_alone() {
    let disk = Disk::prepared("8M");
    disk.does(&["create", "logs", "--on", "fast.img", "--size", "4M"]);
    let whole = fs::read(disk.path()).expect("the disk");
    // One copy damaged: it is repaired, and told of.
    let damage = |places: &[u64]| {
        fs::write(disk.path(), &whole).expect("the disk");
        let mut file = OpenOptions::new().write(true).open(disk.path()).expect("the disk");
        for place in places {
            file.seek(SeekFrom::Start(*place)).and_then(|_| file.write_all(b"x")).expect("damage");
        }
        fs::read(disk.path()).expect("the disk")
    };
    damage(&[40]);
    let outcome = disk.does(&["list", "--on", "fast.img"]);
    contains(&outcome.stderr, &["superblock A was damaged"]);
    contains(&outcome.text(), &["logs"]);
    let before = damage(&[40, (512 << 10) + 40]);
    contains(
        &disk.refuses(&["list", "--on", "fast.img"]),
        &["both superblocks are damaged", "nothing has been written"],
    );
    contains(&disk.refuses(&["prepare", "fast.img"]), &["both superblocks are damaged"]);
    unchanged(&disk.path(), &before);
    // A file system.
    let foreign = disk.directory.path().join("ext4.img");
    fs::write(&foreign, vec![0; 8 << 20]).expect("a file");
    Program::new("/sbin/mkfs.ext4").arguments(["-q", "-F"]).arguments([&foreign]).succeeds();
    let before = fs::read(&foreign).expect("the file");
    contains(&disk.refuses(&["prepare", "ext4.img"]), &["ext4 file system"]);
    unchanged(&foreign, &before);
    // Somebody has it.
    fs::write(disk.path(), &whole).expect("the disk");
    let words = ["bench", "logs", "--on", "fast.img", "-d", "10s"];
    let mut bench = disk.program(&words).piped().start();
    let holder = bench.id().to_string();
    let said = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(10));
        disk.program(&["list", "--on", "fast.img"]).run().stderr
    });
    let said = said.take(2_000).find(|said| said.contains("in use")).expect("it is in use");
    contains(&said, &[&holder, "has locked it"]);
    bench.kill();
    let _ = bench.wait(Duration::from_secs(20));
    disk.does(&["list", "--on", "fast.img"]);
}

/// What comes back for `said` from the echo that goes by way of a disk.
fn talk(said: &[u8]) -> Vec<u8> {
    let mut stream = None;
    eventually("it serves", PATIENCE, || {
        stream = TcpStream::connect_timeout(&([10, 77, 0, 2], 7).into(), Duration::from_millis(300)).ok();
        stream.is_some()
    });
    let mut stream = stream.expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(said).expect("sent");
    stream.shutdown(Shutdown::Write).expect("shut down");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("heard");
    heard
}

/// The storage API's example in each placement: confined as every service is, and killed when it has answered.
#[test]
fn what_was_echoed_is_on_the_disk() {
    for placement in ["linked", "split"] {
        scenario(|| {
            let disk = Disk::prepared("64M");
            disk.does(&["create", "logs", "--on", "fast.img", "--size", "32M"]);
            let words = ["echo-disk", "logs", "--on", "fast.img", "--placement", placement];
            let echo = || Program::new(qanat()).directory(&disk.directory).arguments(words).piped().start();
            let mut first = echo();
            let said: Vec<u8> = (0..300_000_u32).map(|number| (number / 3) as u8).collect();
            assert!(talk(&said) == said, "{placement}");
            assert_eq!(talk(b"the last words"), b"the last words", "{placement}");
            first.kill();
            let stored = fs::read(disk.path()).expect("the disk");
            let holds = |bytes: &[u8]| stored.windows(bytes.len()).any(|window| window == bytes);
            assert!(holds(b"the last words") && holds(&said[..512]), "{placement}");
            assert!(!holds(b"the next words"));
            // Whoever was killed leaves the disk to the next.
            let _second = echo();
            assert_eq!(talk(b"the next words"), b"the next words", "{placement}");
        });
    }
}

#[test]
fn an_echo_without_a_disk_says_what_is_missing() {
    scenario(|| {
        let disk = Disk::prepared("64M");
        let refuses = |words: &[&str]| {
            let outcome =
                Program::new(qanat()).directory(&disk.directory).arguments(["echo-disk"]).arguments(words).run();
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            outcome.stderr
        };
        contains(&refuses(&["logs", "--on", "fast.img"]), &["logs", "fast.img"]);
        contains(&refuses(&["logs", "--on", "nothing.img"]), &["nothing.img", "No such file"]);
    });
}
