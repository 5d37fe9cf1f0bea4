//! A daemon with disks, and two users whom its policy names.

use qanat_control::client::Session;
use qanat_tests::e2e::{Outcome, Program, Running, Unit, eventually, process, qanat, qanat_for_anybody};
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

pub const GRACE: Duration = Duration::from_secs(20);
/// Two users, by numbers that the policy names.
pub const USERS: [u32; 2] = [65_534, 65_533];
/// The group that may ask.
pub const GROUP: u32 = 65_534;

/// A daemon with a directory for disks. The directory is not in /tmp, which may have no direct I/O.
pub struct House {
    pub unit: Unit,
    pub command: PathBuf,
    disks: tempfile::TempDir,
    daemon: Option<Running>,
}

impl House {
    /// Each of the two users may have so many areas, and so many MiB in them.
    pub fn new(areas: u32, area_mib: u64) -> House {
        House::ruled(areas, area_mib, "disk_rate = { requests_per_s = 2_000 }")
    }

    /// The same, and what else their rule says.
    pub fn ruled(areas: u32, area_mib: u64, more: &str) -> House {
        let unit = Unit::bare();
        let command = qanat_for_anybody(unit.directory());
        let disks = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let policy = format!(
            "socket = {:?}\ngroup = \"{GROUP}\"\n[[rule]]\nname = \"root\"\nusers = [\"root\"]\ndisks = [\"*\"]\naddresses = [\"10.77.0.0/24\"]\n\
             services = [\"any\"]\n[[rule]]\n\
             name = \"users\"\nusers = [\"65534\", \"65533\"]\ndisks = [\"fast\"]\nareas = {areas}\narea_mib = {area_mib}\n\
             {more}\n",
            unit.directory().join("control.sock"),
        );
        std::fs::write(unit.directory().join("policy"), policy).expect("a policy");
        let mut house = House { unit, command, disks, daemon: None };
        house.start();
        house
    }

    pub fn start(&mut self) {
        let policy = self.unit.directory().join("policy");
        let daemon = self.unit.program_at(&self.command);
        self.daemon = Some(daemon.arguments(["up".as_ref(), "--config".as_ref(), policy.as_os_str()]).start());
        self.listens();
    }

    pub fn listens(&mut self) {
        eventually("the daemon listens", GRACE, || {
            assert!(self.daemon.as_mut().is_some_and(Running::is_running), "the daemon ended");
            Session::connect(&self.socket()).is_ok()
        });
    }

    pub fn socket(&self) -> PathBuf {
        self.unit.directory().join("control.sock")
    }

    pub fn image(&self, name: &str) -> String {
        self.disks.path().join(name).to_str().expect("a plain name").to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let id = self.daemon.as_ref().expect("a daemon").id();
        kill_process_group(process(id.into()), signal).expect("a daemon to signal");
    }

    /// kill -9, and another daemon.
    pub fn crash(&mut self) {
        self.signal(Signal::KILL);
        self.has_ended();
    }

    /// The daemon that was killed is gone.
    pub fn has_ended(&mut self) {
        self.daemon.take().expect("a daemon").wait(GRACE);
    }

    /// The process that serves a disk's areas, if there is one.
    pub fn disk_core(&self) -> Option<u64> {
        let children = Program::new("pgrep").arguments(["-f", "^/proc/self/exe disk-core"]).run().text();
        let parent = self.daemon.as_ref().expect("a daemon").id();
        children.lines().filter_map(|line| line.trim().parse::<u64>().ok()).find(|child| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
            status.contains(&format!("PPid:\t{parent}\n"))
        })
    }

    /// Ends the daemon; the disks are there as long as what is returned.
    pub fn end(mut self) -> tempfile::TempDir {
        let ended = Program::new(qanat()).arguments(["down"]).environment("QANAT_SOCKET", self.socket()).run();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let outcome = self.daemon.take().expect("a daemon").wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        self.disks
    }

    /// `qanat disk …`, as root.
    pub fn root(&self, words: &[&str]) -> Outcome {
        let program = Program::new(qanat()).arguments(["disk"]).arguments(words);
        program.environment("QANAT_SOCKET", self.socket()).directory(self.disks.path()).run()
    }

    /// `qanat disk …`, as one of the users.
    pub fn user(&self, user: u32, words: &[&str]) -> Outcome {
        let who = [format!("--reuid={user}"), format!("--regid={GROUP}"), "--clear-groups".to_owned()];
        let program = Program::new("setpriv").arguments(who).arguments([&self.command]).arguments(["disk"]);
        program.arguments(words).environment("QANAT_SOCKET", self.socket()).directory(self.unit.directory()).run()
    }

    /// `qanat WORDS --json`, as root.
    pub fn json(&self, words: &[&str]) -> Value {
        let asked =
            Program::new(qanat()).arguments(words).arguments(["--json"]).environment("QANAT_SOCKET", self.socket());
        let text = asked.succeeds().text();
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The state of a disk.
    pub fn state(&self, disk: &str) -> String {
        let disks = self.json(&["disk", "list"]);
        let found = disks.as_array().into_iter().flatten().find(|found| found["disk"] == disk).cloned();
        found.and_then(|found| found["state"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    pub fn is_ready(&self, disk: &str) {
        eventually("the disk is ready", GRACE, || self.state(disk) == "ready");
    }
}

pub fn done(outcome: &Outcome) -> String {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.text()
}

pub fn refused(outcome: &Outcome, parts: &[&str]) {
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    parts.iter().for_each(|part| assert!(outcome.stderr.contains(part), "{part:?} is not in {}", outcome.stderr));
}
