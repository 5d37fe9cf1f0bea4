//! Services that are started beside those of the scene, to be told to end at any age, or to start where they can't.

use super::PATIENCE;
use super::fault::{Fault, Heal, over, service};
use super::kinds::{Kind, Place, Promise, Station};
use super::machine::Machine;
use super::processes::is_prepared;
use super::scene::Scene;
use qanat_tests::e2e::eventually;
use qanat_tests::random::Random;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An age at which a process has started, or never will.
const SETTLED: Duration = Duration::from_millis(500);

/// A service of a station's kind, at an address that nobody asks.
pub struct Start {
    kind: Kind,
    machine: Arc<Machine>,
    child: Child,
    /// What it says.
    output: std::path::PathBuf,
}

impl Start {
    /// `before` is what runs it.
    pub fn of(scene: &Scene, station: &Station, before: &[&str]) -> Option<Start> {
        let (kind, machine) = (station.kind, Arc::clone(&station.unit.machine));
        let house = scene.house(station)?.directory.clone();
        let place = Place { tools: Arc::clone(&scene.tools), house, directory: station.directory.clone() };
        let own = kind.recipe(&place)();
        let mut command = Command::new(before.first().map_or(own.get_program(), |first| first.as_ref()));
        if let Some((_, rest)) = before.split_first() {
            command.args(rest).arg(own.get_program());
        }
        let (taken, free) = (format!("{}/24", kind.address()), format!("10.77.0.{}/24", 100 + kind.number()));
        for word in own.get_args() {
            let word = word.to_string_lossy();
            command.arg(if word == taken { free.clone() } else { word.replace("/control", "/control2") });
        }
        own.get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
        let output_path = scene.tools.logs.join(format!("{}.start", kind.name()));
        let file = std::fs::File::create(&output_path).expect("a file");
        let output = file.try_clone().expect("a descriptor");
        command.stdin(Stdio::null()).stdout(output).stderr(file).process_group(0);
        let child = machine.within(|| command.spawn()).expect("a start");
        Some(Start { kind, machine, child, output: output_path })
    }

    fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended, or has been there for a while.
    pub fn settles(&mut self) {
        let began = Instant::now();
        while began.elapsed() < SETTLED && !self.has_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Told to, it ends; if it has already, it has said why.
    pub fn ends(&mut self, when: &str) {
        let what = format!("another {} {when}", self.kind.name());
        if let Ok(Some(status)) = self.child.try_wait() {
            let said = self.said();
            // Where there is no memory at all, the standard library says so and aborts.
            let is_explained = status.code().is_some_and(|code| code != 0) && !said.trim().is_empty()
                || said.contains("memory allocation of");
            assert!(is_explained && !said.contains("panicked at"), "{what}: ended with {status}: {said}");
            return;
        }
        self.told_to_end(&what);
    }

    fn told_to_end(&mut self, what: &str) {
        let _ = kill_process(self.process(), Signal::TERM);
        eventually(&format!("{what} ends when it is told to"), PATIENCE, || self.has_ended());
        let status = self.child.wait().expect("its status");
        let is_good = status.success() || status.signal() == Some(Signal::TERM.as_raw());
        let said = self.said();
        // If it was about to end for a reason of its own, it may have said that.
        let is_explained = status.code().is_some_and(|code| code != 0) && !said.trim().is_empty();
        assert!((is_good || is_explained) && !said.contains("panicked at"), "{what}: ended with {status}: {said}");
    }
}

impl Drop for Start {
    /// With all that it has started.
    fn drop(&mut self) {
        let first = self.process().as_raw_nonzero().get();
        let list = self.machine.processes();
        let below = super::processes::below(&list, first);
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            below.iter().for_each(|process| process.signal(Signal::KILL));
        }
    }
}

fn any_age(random: &mut Random) -> Duration {
    // Most of what can go wrong is early.
    let end = [3_000, 30_000, 200_000][random.below(3) as usize];
    Duration::from_micros(random.below(end))
}

/// Many starts, each told to end at another age.
fn ended_at_any_age<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    for _ in 0..4 {
        let age = any_age(random);
        let mut start = Start::of(scene, station, &[])?;
        std::thread::sleep(age);
        start.told_to_end(&format!("another {} at the age of {age:?}", station.kind.name()));
    }
    over()
}

/// Told to reload at any age, it goes on. Before it can have heard of signals nobody can promise that.
fn reloaded_at_any_age<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let mut starts = Vec::new();
    for _ in 0..4 {
        let age = any_age(random);
        let mut start = Start::of(scene, station, &[])?;
        std::thread::sleep(age);
        let id = start.process().as_raw_nonzero().get();
        let is_ready = is_prepared(id, Signal::HUP.as_raw());
        let _ = kill_process(start.process(), Signal::HUP);
        if is_ready {
            start.settles();
            let status = start.child.try_wait().ok().flatten();
            let is_ended_by_it = status.is_some_and(|status| status.signal() == Some(Signal::HUP.as_raw()));
            assert!(!is_ended_by_it, "another {} that was told to reload at {age:?}: {status:?}", station.kind.name());
            start.ends(&format!("that was told to reload at {age:?}"));
        }
        starts.push(start);
        starts.clear();
    }
    over()
}

fn on_cards(kind: Kind) -> Option<Promise> {
    // A store's disk has one owner.
    let is_one = matches!(kind, Kind::WebVnic | Kind::EchoByHand | Kind::Secondary | Kind::Kv);
    (kind.is_on_card() && !is_one).then_some(Promise::GoesOn)
}

fn reloads(kind: Kind) -> Option<Promise> {
    on_cards(kind).filter(|_| kind.is_web() || kind == Kind::Dns)
}

pub const FAULTS: &[Fault] = &[
    service("signals", "another one is ended at any age", on_cards, ended_at_any_age),
    service("signals", "another one is told to reload at any age", reloads, reloaded_at_any_age),
];
