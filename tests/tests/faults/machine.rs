//! A machine, as far as the network goes: a namespace that tools and services are started in.

use super::processes::{self, Process};
use qanat_nic::link::Namespace;
use qanat_tests::e2e::{Outcome, Program, Running};
use std::time::Duration;

/// A tool that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Machine {
    pub name: &'static str,
    namespace: Namespace,
    keeper: Running,
}

impl Machine {
    pub fn new(name: &'static str) -> Machine {
        let namespace = Namespace::anonymous().expect("a namespace");
        // The kernel names a namespace by a process in it.
        let keeper = namespace.within(|| Program::new("sleep").arguments(["infinity"]).start()).expect("entering it");
        let machine = Machine { name, namespace, keeper };
        machine.succeeds("ip link set lo up");
        machine
    }

    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.within(work).expect("work on a machine")
    }

    /// For `ip link set … netns`.
    pub fn id(&self) -> u32 {
        self.keeper.id()
    }

    pub fn run(&self, line: &str) -> Outcome {
        let mut words = line.split_whitespace();
        let program = Program::new(words.next().unwrap_or_default()).arguments(words).patience(PATIENCE);
        self.within(|| program.run())
    }

    pub fn succeeds(&self, line: &str) -> String {
        let outcome = self.run(line);
        assert_eq!(outcome.code, Some(0), "on {}: {line}: {}{}", self.name, outcome.text(), outcome.stderr);
        outcome.text()
    }

    /// What runs here beside the process that names the namespace.
    pub fn processes(&self) -> Vec<Process> {
        let keeper = i32::try_from(self.id()).unwrap_or(0);
        let mut all = processes::beside(keeper);
        all.retain(|process| process.id != keeper);
        all
    }

    /// Names of its interfaces, loopback left out.
    pub fn interfaces(&self) -> Vec<String> {
        let text = self.succeeds("ip -j link");
        let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
        let names = all.iter().filter_map(|link| link["ifname"].as_str().map(str::to_owned));
        names.filter(|name| name != "lo").collect()
    }

    /// Its interfaces, addresses, routes and neighbours, for people to read.
    pub fn links(&self) -> String {
        ["ip address", "ip route", "ip neighbour"].map(|line| self.run(line).text()).join("\n")
    }

    /// The interface by which an address is reached.
    pub fn way_to(&self, address: &str) -> Option<String> {
        let text = self.run(&format!("ip -j route get {address}")).text();
        let routes: Vec<serde_json::Value> = serde_json::from_str(&text).ok()?;
        let name = routes.first()?["dev"].as_str()?;
        (name != "lo").then(|| name.to_owned())
    }
}
