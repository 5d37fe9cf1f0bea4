//! Which faults happen to whom, in which order, and what is checked.

use super::fault::{Act, Fault, Heal};
use super::kinds::{Before, KINDS, Kind, Promise, Station};
use super::scene::{House, Scene};
use super::{daemons, files, limits, links, signals, starts};
use qanat_tests::e2e::{Program, Stopped, eventually, qanat, scenario};
use qanat_tests::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// `is_long`: with those that take longer.
fn table(is_long: bool) -> Vec<&'static Fault> {
    let all = [links::FAULTS, daemons::FAULTS, files::FAULTS, limits::FAULTS, signals::FAULTS, starts::FAULTS];
    all.into_iter().flatten().chain(daemons::LONG_FAULTS.iter().filter(|_| is_long)).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// How a run is bounded, and what it has come to.
struct Run {
    random: Random,
    /// Which kinds have been through which faults.
    seen: BTreeSet<(&'static str, Kind)>,
    /// Failed answers, by fault and kind.
    failed: BTreeMap<(&'static str, Kind), u64>,
    refused: BTreeSet<&'static str>,
    rounds: u64,
    is_long: bool,
}

/// Services that a fault happens to at once.
const VICTIMS_MAX: usize = 4;

impl Run {
    fn new(seed: u64, is_long: bool) -> Run {
        let (seen, failed) = (BTreeSet::new(), BTreeMap::new());
        Run { random: Random::new(seed), seen, failed, refused: BTreeSet::new(), rounds: 0, is_long }
    }

    /// Some of those that it can happen to: first who has not been through it yet.
    fn victims<'a>(&mut self, fault: &Fault, scene: &'a Scene) -> Vec<&'a Station> {
        let mut all: Vec<&Station> =
            scene.stations.iter().filter(|station| (fault.promise)(station.kind).is_some()).collect();
        self.random.shuffle(&mut all);
        all.sort_by_key(|station| self.seen.contains(&(fault.name, station.kind)));
        all.truncate(VICTIMS_MAX);
        all
    }

    /// How long a fault stays.
    fn hold(&mut self) {
        let most = if self.is_long && self.random.below(4) == 0 { 6_000 } else { 400 };
        std::thread::sleep(Duration::from_millis(self.random.below(most)));
    }

    /// One fault, and what it does to everybody.
    fn round(&mut self, fault: &Fault, scene: &Scene) {
        self.rounds += 1;
        let began = Instant::now();
        let before: Vec<Before> = scene.stations.iter().map(Station::before).collect();
        let daemons: Vec<usize> = scene.houses.iter().map(|house| house.daemon.lives_count()).collect();
        let (victims, heals) = match fault.act {
            Act::Service(act) => self.strike(fault, act, scene),
            Act::Daemon(act) => self.strike_house(fault, act, scene),
        };
        let promise = |station: &Station| match victims.contains(&station.kind) {
            true => (fault.promise)(station.kind).unwrap_or(Promise::GoesOn),
            false => Promise::GoesOn,
        };
        for (station, before) in scene.stations.iter().zip(&before) {
            if promise(station) == Promise::Ends {
                station.has_ended(*before, fault.name);
            }
        }
        self.hold();
        heals.into_iter().for_each(|heal| heal());
        scene.stations.iter().for_each(|station| station.answers_again(&format!("after: {}", fault.name)));
        let mut wrong = Vec::new();
        let names: Vec<&str> = victims.iter().map(|kind| kind.name()).collect();
        println!("{:>4} {}: {} ({} ms)", self.rounds, fault.name, names.join(" "), began.elapsed().as_millis());
        for (station, before) in scene.stations.iter().zip(&before) {
            wrong.extend(station.complaints(*before, promise(station)));
            let failed = station.failed() - before.failed;
            if victims.contains(&station.kind) {
                self.seen.insert((fault.name, station.kind));
                *self.failed.entry((fault.name, station.kind)).or_default() += failed;
            }
        }
        for (house, before) in scene.houses.iter().zip(daemons) {
            wrong.extend(complaints_of(house, before));
        }
        assert!(wrong.is_empty(), "{}, to {names:?}:\n{}", fault.name, wrong.join("\n"));
    }

    fn strike<'a>(
        &mut self,
        fault: &Fault,
        act: for<'b> fn(&'b Scene, &'b Station, &mut Random) -> Option<Heal<'b>>,
        scene: &'a Scene,
    ) -> (Vec<Kind>, Vec<Heal<'a>>) {
        let mut struck = (Vec::new(), Vec::new());
        for station in self.victims(fault, scene) {
            match act(scene, station, &mut self.random) {
                Some(heal) => {
                    struck.0.push(station.kind);
                    struck.1.push(heal);
                }
                None => _ = self.refused.insert(fault.name),
            }
        }
        struck
    }

    fn strike_house<'a>(
        &mut self,
        fault: &Fault,
        act: for<'b> fn(&'b Scene, &'b House, &mut Random) -> Option<Heal<'b>>,
        scene: &'a Scene,
    ) -> (Vec<Kind>, Vec<Heal<'a>>) {
        let (mut kinds, mut heals) = (Vec::new(), Vec::new());
        let is_meant = |house: &&House| {
            let all = KINDS.into_iter().filter(|kind| kind.place() == house.machine.name);
            all.into_iter().any(|kind| (fault.promise)(kind).is_some())
        };
        for house in scene.houses.iter().filter(is_meant) {
            match act(scene, house, &mut self.random) {
                Some(heal) => {
                    kinds.extend(KINDS.into_iter().filter(|kind| kind.place() == house.machine.name));
                    heals.push(heal);
                }
                None => _ = self.refused.insert(fault.name),
            }
        }
        (kinds, heals)
    }

    fn report(&self, scene: &Scene, took: Duration) {
        println!(
            "\n{} rounds in {} s. Failed answers by fault, of what each kind was asked:",
            self.rounds,
            took.as_secs()
        );
        for fault in table(true) {
            let counts: Vec<String> = self
                .failed
                .iter()
                .filter(|((name, _), _)| *name == fault.name)
                .map(|((_, kind), count)| format!("{} {count}", kind.name()))
                .collect();
            if counts.is_empty() {
                continue;
            }
            let note = if self.refused.contains(fault.name) { " (not had everywhere)" } else { "" };
            println!("  {} · {}{note}: {}", fault.class, fault.name, counts.join(", "));
        }
        let right: u64 = scene.stations.iter().map(Station::right).sum();
        let failed: u64 = scene.stations.iter().map(Station::failed).sum();
        for station in &scene.stations {
            println!("  {}: {} right, {} failed", station.kind.name(), station.right(), station.failed());
        }
        println!("  {right} right answers, {failed} failed, none wrong");
    }
}

/// A daemon ends only by what a fault does to it.
fn complaints_of(house: &House, before: usize) -> Vec<String> {
    let lives = house.daemon.lives();
    let new = lives.get(before..).unwrap_or_default().iter();
    new.filter(|life| {
        life.stderr.contains("panicked at")
            || !(life.status.success() || life.signal() == Some(9) || life.signal() == Some(15))
    })
    .map(|life| format!("the daemon of {}: {life:?}", house.machine.name))
    .collect()
}

/// Ends everything; nothing is left of it, and buffers are back.
fn end(scene: Scene) {
    let Scene { stations, houses, others, street, town, elsewhere, tools } = scene;
    for station in stations {
        let Station { kind, unit, askers, wire, .. } = station;
        drop(askers);
        let life = unit.stop().unwrap_or_else(|| panic!("{} had ended already", kind.name()));
        let is_told = life.status.success() || kind.is_program();
        assert!(is_told && !life.stderr.contains("panicked at"), "{} was told to end: {life:?}", kind.name());
        if matches!(kind, Kind::Web | Kind::WebVnic | Kind::WebInterface) {
            let last = serde_json::from_str(&life.last).unwrap_or_default();
            let stopped = Stopped { last, code: life.status.code() };
            assert_eq!(stopped.leaks(), Vec::<String>::new(), "{}: {}", kind.name(), life.last);
        }
        if let Some(wire) = wire {
            street.succeeds(&format!("ip link delete {}", wire.near()));
        }
    }
    others.into_iter().for_each(|other| _ = other.stop());
    for house in houses {
        let kept = house.order(&["vnic", "delete", "0"]);
        println!("{}: {}", house.machine.name, kept.text());
        eventually("no card is left", super::PATIENCE, || {
            house.status()["vnics"].as_array().is_some_and(Vec::is_empty)
        });
        let doctor = house.order(&["doctor", "--json"]).text();
        assert!(!doctor.contains("\"wrong\""), "{doctor}");
        let House { machine, daemon, directory, .. } = house;
        let life = daemon.stop().expect("the daemon's end");
        assert_eq!(life.status.code(), Some(0), "{life:?}");
        machine.succeeds(&format!("umount {}", directory.display()));
        let nothing = || machine.interfaces().is_empty() && machine.processes().is_empty();
        let what = || format!("{}: {:?} {:?}", machine.name, machine.interfaces(), machine.processes());
        let began = Instant::now();
        while !nothing() {
            assert!(began.elapsed() < super::PATIENCE, "left on {}", what());
            std::thread::sleep(Duration::from_millis(20));
        }
        let doctor = Program::new(qanat()).arguments(["doctor", "--json"]);
        let doctor = machine.within(|| doctor.environment("QANAT_SOCKET", directory.join("control.sock")).run());
        assert!(!doctor.text().contains("\"wrong\""), "{}", doctor.text());
    }
    for machine in [street, town, elsewhere] {
        eventually(&format!("nothing is left on {}", machine.name), super::PATIENCE, || {
            machine.interfaces().is_empty() && machine.processes().is_empty()
        });
    }
    assert_eq!(mounts(tools.path()), Vec::<String>::new(), "mounts are left");
}

/// Of a directory. The mounts are those of the test's own namespace.
fn mounts(directory: &Path) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/thread-self/mounts").expect("the list of mounts");
    let name = directory.display().to_string();
    all.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect()
}

/// One plan: every fault once, or as many as there are in so long.
fn play(seed: u64, until: Option<Instant>) {
    let began = Instant::now();
    println!("QANAT_SEED={seed}");
    let only = std::env::var("QANAT_KINDS").unwrap_or_default();
    let kinds: Vec<Kind> =
        KINDS.into_iter().filter(|kind| only.is_empty() || only.split(',').any(|name| name == kind.name())).collect();
    let named = std::env::var("QANAT_FAULTS").unwrap_or_default();
    let mut faults = table(until.is_some());
    faults.retain(|fault| named.is_empty() || fault.name.contains(&named) || fault.class == named);
    assert!(!kinds.is_empty() && !faults.is_empty(), "QANAT_KINDS or QANAT_FAULTS names none: {only:?}, {named:?}");
    let scene = Scene::new(&kinds, seed);
    let mut run = Run::new(seed, until.is_some());
    loop {
        run.random.shuffle(&mut faults);
        for fault in &faults {
            run.round(fault, &scene);
            if until.is_some_and(|until| Instant::now() > until) {
                break;
            }
        }
        // A scene is left now and then, so that its end is looked at as well.
        if until.is_none_or(|until| Instant::now() > until) || run.rounds > 400 {
            break;
        }
    }
    run.report(&scene, began.elapsed());
    end(scene);
    println!("seed {seed}: {} s in all", began.elapsed().as_secs());
}

#[test]
fn every_kind_keeps_its_promises_through_every_fault() {
    scenario(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("mounts of the test's own");
        Program::new("mount").arguments(["--make-rprivate", "/"]).succeeds();
        let until = number("QANAT_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut seed = number("QANAT_SEED").unwrap_or(1);
        loop {
            play(seed, until);
            seed += 1;
            if until.is_none_or(|until| Instant::now() > until) {
                break;
            }
        }
    });
}
