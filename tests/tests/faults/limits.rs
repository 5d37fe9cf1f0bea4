//! Limits: descriptors, memory.

use super::fault::promises::all_go_on;
use super::fault::{Fault, Heal, service};
use super::kinds::{Kind, Promise, Station};
use super::scene::Scene;
use super::starts::Start;
use qanat_tests::random::Random;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// From now on a process can open nothing more; the function takes that back.
pub fn no_more_descriptors(process: Pid) -> Option<impl FnOnce()> {
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).ok()?;
    let highest = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok()).max();
    let none = Rlimit { current: Some(highest.map_or(0, |highest| highest + 1)), maximum: None };
    // The hard limit stays as it is: a limit that a process had can be had again.
    let before = prlimit(Some(process), Resource::Nofile, Rlimit { maximum: limit_of(process)?, ..none }).ok()?;
    Some(move || _ = prlimit(Some(process), Resource::Nofile, before))
}

/// The hard limit of descriptors.
fn limit_of(process: Pid) -> Option<Option<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{}/limits", process.as_raw_nonzero())).ok()?;
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    let hard = line.split_whitespace().nth(4)?;
    Some(if hard == "unlimited" { None } else { Some(hard.parse().ok()?) })
}

fn descriptors<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let mut all: Vec<Pid> = station.unit.process().into_iter().collect();
    all.extend(station.unit.descendants().iter().filter_map(super::processes::Process::pid));
    let heals: Vec<_> = all.into_iter().filter_map(no_more_descriptors).collect();
    Some(Box::new(move || heals.into_iter().for_each(|heal| heal())))
}

fn has_more_of_it(kind: Kind) -> Option<Promise> {
    matches!(kind, Kind::Web | Kind::WebSplit | Kind::Echo | Kind::Dns | Kind::WebSplitOwn).then_some(Promise::GoesOn)
}

/// A second service of the kind is started with little memory: it serves, or says why not.
fn memory<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    // With less than this the dynamic linker has no room for the program.
    let bytes = (48 << 20) << random.below(5);
    let bytes = bytes + random.below(bytes);
    let mut start = Start::of(scene, station, &["prlimit", &format!("--as={bytes}")])?;
    Some(Box::new(move || {
        start.settles();
        start.ends(&format!("with {} MiB of addresses", bytes >> 20));
    }))
}

pub const FAULTS: &[Fault] = &[
    service("limits", "no more descriptors", all_go_on, descriptors),
    service("limits", "another one starts with little memory", has_more_of_it, memory),
];
