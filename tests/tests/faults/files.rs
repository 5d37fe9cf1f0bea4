//! What happens to the files that services serve, read and write.

use super::fault::{Fault, Heal, service};
use super::kinds::{Kind, Promise, Station};
use super::scene::{Scene, page, zone};
use qanat_tests::random::Random;
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Fills a file system; the file that did.
pub fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("filler");
    let mut file = fs::File::create(&path).expect("a file");
    while file.write_all(&[1; 4_096]).is_ok() {}
    path
}

fn serve_pages(kind: Kind) -> Option<Promise> {
    kind.has_pages().then_some(Promise::GoesOn)
}

fn is_primary(kind: Kind) -> Option<Promise> {
    (kind == Kind::Dns).then_some(Promise::GoesOn)
}

fn is_log_kept(kind: Kind) -> Option<Promise> {
    kind.is_web().then_some(Promise::GoesOn)
}

fn path(station: &Station) -> PathBuf {
    station.directory.join("site/page")
}

/// A new version, in one step.
fn publish(station: &Station) {
    let next = page(station.next_version());
    station.truth.publish(&next);
    let new = station.directory.join("new");
    fs::write(&new, next).expect("a file");
    fs::rename(&new, path(station)).expect("a new name");
}

/// Told that files have changed.
fn tell(station: &Station) {
    station.excuse(Signal::HUP);
    station.unit.signal(Signal::HUP);
}

/// Whether it is told or not, it looks again; told, it does at once.
fn tell_web(station: &Station) {
    if station.kind.is_web() {
        tell(station);
    }
}

fn replaced<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let is_told = random.below(2) == 0;
    for _ in 0..1 + random.below(5) {
        publish(station);
        if is_told {
            tell_web(station);
        }
    }
    super::fault::over()
}

fn truncated<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let whole = fs::read(path(station)).expect("the page");
    let length = random.below(whole.len() as u64) as usize;
    // What is left is a version like another.
    station.truth.add(whole.get(..length).unwrap_or_default());
    fs::OpenOptions::new().write(true).open(path(station)).and_then(|file| file.set_len(length as u64)).expect("cut");
    tell_web(station);
    Some(Box::new(|| publish(station)))
}

fn deleted<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    fs::remove_file(path(station)).expect("deleted");
    tell_web(station);
    Some(Box::new(|| publish(station)))
}

fn directory_moved<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let (here, there) = (station.directory.join("site"), station.directory.join("away"));
    fs::rename(&here, &there).expect("moved");
    tell_web(station);
    Some(Box::new(move || fs::rename(&there, &here).expect("moved back")))
}

fn forbidden<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let mode = |mode| fs::set_permissions(path(station), fs::Permissions::from_mode(mode)).expect("a mode");
    mode(0);
    tell_web(station);
    Some(Box::new(move || mode(0o644)))
}

fn is_a_directory<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    fs::remove_file(path(station)).expect("deleted");
    fs::create_dir(path(station)).expect("a directory");
    tell_web(station);
    Some(Box::new(|| {
        fs::remove_dir(path(station)).expect("deleted");
        publish(station);
    }))
}

fn log_full<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    // Every write to it fails as if the disk were full.
    let log = station.directory.join("access.log");
    let kept = station.directory.join("kept.log");
    let _ = fs::rename(&log, &kept);
    std::os::unix::fs::symlink("/dev/full", &log).expect("a link");
    tell(station);
    Some(Box::new(move || {
        fs::remove_file(&log).expect("deleted");
        let _ = fs::rename(&kept, &log);
        tell(station);
    }))
}

fn zone_broken<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let path = station.directory.join("example.zone");
    let whole = fs::read_to_string(&path).expect("the zone");
    match random.below(4) {
        0 => fs::write(&path, whole.replace("www A", "www A A")).expect("a zone"),
        1 => fs::write(&path, whole.get(..20).unwrap_or_default()).expect("a zone"),
        2 => fs::remove_file(&path).expect("deleted"),
        _ => fs::write(&path, [0xff; 3_000]).expect("a zone"),
    }
    tell(station);
    Some(Box::new(move || zone_changed_to(station)))
}

fn zone_changed_to(station: &Station) {
    let version = station.next_version();
    let address = [192, 0, 2, (version % 250) as u8 + 2];
    station.truth.publish(&address);
    fs::write(station.directory.join("example.zone"), zone(version + 1, address)).expect("a zone");
    tell(station);
}

pub const FAULTS: &[Fault] = &[
    service("files", "a file is replaced", serve_pages, replaced),
    service("files", "a file is cut off", serve_pages, truncated),
    service("files", "a file is deleted", serve_pages, deleted),
    service("files", "the directory is elsewhere for a while", serve_pages, directory_moved),
    service("files", "a file may not be read", serve_pages, forbidden),
    service("files", "a file becomes a directory", serve_pages, is_a_directory),
    service("files", "the disk of the log is full", is_log_kept, log_full),
    service("files", "a zone is broken", is_primary, zone_broken),
];
