//! Signals, and the deaths of each process that a service consists of.

use super::fault::promises::{all_are_restarted, all_go_on};
use super::fault::{Fault, Heal, over, service};
use super::kinds::{Kind, Promise, Station};
use super::processes::Process;
use super::scene::Scene;
use qanat_tests::random::Random;
use rustix::process::Signal;
use std::time::Duration;

fn hears_hup(kind: Kind) -> Option<Promise> {
    (kind.is_web() || kind.is_dns() || kind == Kind::Nginx).then_some(Promise::GoesOn)
}

fn hears_usr1(kind: Kind) -> Option<Promise> {
    hears_hup(kind).or_else(|| (kind == Kind::Echo).then_some(Promise::GoesOn))
}

fn storm(station: &Station, signals: &[Signal], random: &mut Random) {
    for _ in 0..5 + random.below(30) {
        let signal = signals[random.below(signals.len() as u64) as usize];
        station.unit.signal(signal);
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
    }
}

fn hups<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    storm(station, &[Signal::HUP], random);
    over()
}

fn reports<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    storm(station, &[Signal::USR1], random);
    over()
}

fn both<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    storm(station, &[Signal::HUP, Signal::USR1, Signal::CONT, Signal::WINCH, Signal::URG], random);
    over()
}

/// It, and what it consists of, one after the other or all at once.
fn stops<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let mut below = parts(station);
    random.shuffle(&mut below);
    below.truncate(random.below(below.len() as u64 + 1) as usize);
    let is_first = below.is_empty() || random.below(2) == 0;
    if is_first {
        station.unit.signal(Signal::STOP);
    }
    below.iter().for_each(|process| process.signal(Signal::STOP));
    Some(Box::new(move || {
        station.unit.signal(Signal::CONT);
        below.iter().for_each(|process| process.signal(Signal::CONT));
    }))
}

fn ends_by<'a>(station: &'a Station, signal: Signal) -> Option<Heal<'a>> {
    let before = station.unit.lives_count();
    station.excuse(signal);
    station.unit.signal(signal);
    qanat_tests::e2e::eventually(&format!("{} ends by {signal:?}", station.kind.name()), super::PATIENCE, || {
        station.unit.lives_count() > before
    });
    over()
}

fn term<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    ends_by(station, Signal::TERM)
}

fn int<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    ends_by(station, Signal::INT)
}

fn hurry<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    station.excuse(Signal::INT);
    for _ in 0..2 + random.below(3) {
        station.unit.signal(Signal::INT);
        std::thread::sleep(Duration::from_micros(random.below(2_000)));
    }
    ends_by(station, Signal::TERM)
}

fn kill<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    ends_by(station, Signal::KILL)
}

/// What it consists of beside its first process: net cores and what looks after them, app cores, workers, keeper and mourner.
fn parts(station: &Station) -> Vec<Process> {
    let mut all = station.unit.descendants();
    if station.kind.is_program() {
        let keepers = station.unit.machine.processes().into_iter().filter(|process| process.name == "qanat-keeper");
        let new: Vec<Process> = keepers.filter(|keeper| all.iter().all(|known| known.id != keeper.id)).collect();
        all.extend(new);
    }
    all
}

/// Of a service that is several processes one dies that is not the first.
fn part_killed<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let mut all = parts(station);
    random.shuffle(&mut all);
    let victim = all.first()?;
    println!("    {}: {} {} is killed", station.kind.name(), victim.id, victim.line);
    victim.signal(Signal::KILL);
    over()
}

fn has_parts(kind: Kind) -> Option<Promise> {
    let has_own = matches!(kind, Kind::WebAppCores | Kind::WebSplitOwn | Kind::WebSplitInterface);
    (has_own || kind.is_program()).then_some(Promise::GoesOnOrEnds)
}

/// What a service needs, and has no hold on: `qanat net`.
fn helper_killed<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let helper = scene.others.iter().find(|other| other.name().starts_with(station.kind.name()))?;
    let below = helper.descendants();
    match below.first().filter(|_| random.below(2) == 0) {
        Some(process) => process.signal(Signal::KILL),
        None => _ = helper.signal([Signal::KILL, Signal::TERM][random.below(2) as usize]),
    }
    over()
}

fn has_helper(kind: Kind) -> Option<Promise> {
    (kind == Kind::EchoByHand).then_some(Promise::GoesOn)
}

pub const FAULTS: &[Fault] = &[
    service("signals", "told to reload, often", hears_hup, hups),
    service("signals", "told to report, often", hears_usr1, reports),
    service("signals", "told all sorts of things", hears_hup, both),
    service("signals", "processes stand still", all_go_on, stops),
    service("signals", "told to end", all_are_restarted, term),
    service("signals", "interrupted", all_are_restarted, int),
    service("signals", "interrupted in a hurry", all_are_restarted, hurry),
    service("signals", "killed", all_are_restarted, kill),
    service("signals", "one of its processes is killed", has_parts, part_killed),
    service("signals", "its net core by hand is killed", has_helper, helper_killed),
];
