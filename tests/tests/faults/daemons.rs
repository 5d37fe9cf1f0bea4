//! What happens to a daemon: its end in every way, orders, its policy.

use super::PATIENCE;
use super::fault::promises::{all_end, on_cards_go_on};
use super::fault::{Fault, Heal, daemon, over, service};
use super::kinds::{Kind, Promise, Station};
use super::scene::{ALL, House, Scene};
use qanat_tests::e2e::eventually;
use qanat_tests::random::Random;
use rustix::process::Signal;
use std::time::Duration;

/// A program ends with its card; all else waits for the next daemon.
fn programs_end(kind: Kind) -> Option<Promise> {
    kind.is_on_card().then(|| if kind.is_program() { Promise::Ends } else { Promise::GoesOn })
}

fn cards_end(kind: Kind) -> Option<Promise> {
    if kind.is_on_card() { all_end(kind) } else { None }
}

/// Who is refused for good ends at once. A card made by hand may be made again: that is waited for.
fn refused_end(kind: Kind) -> Option<Promise> {
    match kind {
        Kind::WebVnic => None,
        _ => cards_end(kind),
    }
}

/// Signals the daemon, and waits until its manager has started the next.
fn next(house: &House, signal: Signal) {
    let before = house.daemon.lives_count();
    house.daemon.signal(signal);
    eventually("the daemon has ended", PATIENCE, || house.daemon.lives_count() > before);
}

fn is_up(house: &House) {
    eventually("the daemon answers", PATIENCE, || house.answers());
}

fn ended<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    next(house, Signal::TERM);
    Some(Box::new(|| is_up(house)))
}

/// For longer than services wait for the next.
fn away<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    house.daemon.hold(true);
    next(house, Signal::TERM);
    Some(Box::new(|| {
        house.daemon.hold(false);
        is_up(house);
    }))
}

fn killed<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    next(house, Signal::KILL);
    Some(Box::new(|| is_up(house)))
}

fn reloaded<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    house.daemon.signal(Signal::HUP);
    Some(Box::new(|| is_up(house)))
}

/// In quick succession, at any time of a daemon's that begins anew with each.
fn reloaded_often<'a>(_: &'a Scene, house: &'a House, random: &mut Random) -> Option<Heal<'a>> {
    for _ in 0..5 + random.below(20) {
        house.daemon.signal(Signal::HUP);
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
    }
    Some(Box::new(|| is_up(house)))
}

fn stopped<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    house.daemon.signal(Signal::STOP);
    Some(Box::new(|| {
        house.daemon.signal(Signal::CONT);
        is_up(house);
    }))
}

/// Told to read a policy that can't be read, it goes on with what it has.
fn bad_policy<'a>(_: &'a Scene, house: &'a House, random: &mut Random) -> Option<Heal<'a>> {
    let policy = std::fs::read_to_string(house.policy()).expect("the policy");
    match random.below(4) {
        0 => std::fs::write(house.policy(), policy.replace("users", "user")).expect("a policy"),
        1 => std::fs::write(house.policy(), policy.get(..policy.len() / 2).unwrap_or_default()).expect("a policy"),
        2 => std::fs::remove_file(house.policy()).expect("a policy"),
        _ => std::fs::write(house.policy(), [0xff; 100]).expect("a policy"),
    }
    house.daemon.signal(Signal::HUP);
    Some(Box::new(|| {
        house.write_policy(ALL);
        house.daemon.signal(Signal::HUP);
        is_up(house);
    }))
}

/// Who has a card keeps it, whatever a reloaded policy says; a daemon that begins with that policy has nothing for anybody.
fn refuses<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    house.write_policy("10.99.0.0/24");
    next(house, Signal::TERM);
    Some(Box::new(|| {
        house.write_policy(ALL);
        house.daemon.signal(Signal::HUP);
        is_up(house);
    }))
}

fn disk_full<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    let filler = super::files::fill(&house.directory);
    Some(Box::new(move || {
        std::fs::remove_file(&filler).expect("room again");
        is_up(house);
    }))
}

/// Its helpers die: those that receive for it, the net core, and what they were forked from.
fn helper_killed<'a>(_: &'a Scene, house: &'a House, random: &mut Random) -> Option<Heal<'a>> {
    let mut all = house.daemon.descendants();
    let own: Vec<_> =
        house.machine.processes().into_iter().filter(|process| process.line.contains("qanat up")).collect();
    let first = house.daemon.process().map_or(0, |pid| pid.as_raw_nonzero().get());
    all.extend(own.into_iter().filter(|process| process.id != first));
    if all.is_empty() {
        return None;
    }
    random.shuffle(&mut all);
    all.first()?.signal(Signal::KILL);
    Some(Box::new(|| is_up(house)))
}

fn descriptors<'a>(_: &'a Scene, house: &'a House, _: &mut Random) -> Option<Heal<'a>> {
    let process = house.daemon.process()?;
    let heal = super::limits::no_more_descriptors(process)?;
    Some(Box::new(move || {
        heal();
        is_up(house);
    }))
}

fn card_deleted<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let house = scene.house(station)?;
    let card = house.card(&station.kind.address())?;
    house.order(&["vnic", "delete", &card.to_string()]);
    over()
}

pub const FAULTS: &[Fault] = &[
    daemon("daemons", "the daemon ends, and the next comes", programs_end, ended),
    daemon("daemons", "the daemon is killed", on_cards_go_on, killed),
    daemon("daemons", "the daemon reloads", on_cards_go_on, reloaded),
    daemon("daemons", "the daemon reloads in quick succession", on_cards_go_on, reloaded_often),
    daemon("daemons", "the daemon stands still", on_cards_go_on, stopped),
    daemon("daemons", "the daemon's policy is broken", on_cards_go_on, bad_policy),
    daemon("daemons", "the next daemon refuses", refused_end, refuses),
    daemon("daemons", "the daemon's disk is full", on_cards_go_on, disk_full),
    daemon("daemons", "a helper of the daemon's is killed", on_cards_go_on, helper_killed),
    daemon("daemons", "the daemon has no more descriptors", on_cards_go_on, descriptors),
    service("daemons", "the card is deleted", cards_end, card_deleted),
];

/// What takes longer than there is in `make test`.
pub const LONG_FAULTS: &[Fault] = &[daemon("daemons", "no daemon comes", cards_end, away)];
