//! All kinds of service at once, each under a manager and asked all the time:
//!
//! ```text
//!   house  (a daemon with a net core)   web · split · app-cores · dns · its secondary · echo · redis · kv
//!   annex  (a daemon without)           split, net core of its own · echo on `qanat net` · memcached
//!   stall  (a daemon without)           web on a card of `qanat vnic create`
//!   street (no daemon; root)            web · split · nginx, on interfaces whose other ends are in `town`
//! ```
//!
//! On the first three all run as nobody, and the machine's own kernel asks them.

use super::asker::{Asker, Question, Truth};
use super::kinds::{Kind, Station};
use super::machine::Machine;
use super::unit::Unit;
use super::{PATIENCE, links};
use qanat_tests::e2e::{Pages, Program, eventually, qanat, qanat_for_anybody};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// For `setpriv`: what runs where there is a daemon has no privilege.
const NOBODY: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
pub const ALL: &str = "10.77.0.0/24";
/// The zone's address before anything has changed.
pub const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// A machine with a daemon.
pub struct House {
    pub machine: Arc<Machine>,
    pub daemon: Unit,
    pub directory: PathBuf,
    more: &'static str,
}

impl House {
    fn new(tools: &Tools, name: &'static str, more: &'static str) -> House {
        let machine = Arc::new(Machine::new(name));
        let directory = tools.directory(name);
        // What it writes may find its disk full.
        let mounted = Program::new("mount").arguments(["-t", "tmpfs", "-o", "size=2m,mode=755", "none"]);
        mounted.arguments([&directory]).succeeds();
        write_policy(&directory, more, ALL);
        let policy = directory.join("policy.toml");
        let daemon = Unit::start(&machine, name, &tools.logs, move || {
            let mut command = Command::new(qanat());
            command.arg("up").arg("--config").arg(&policy).env_remove("QANAT_SOCKET");
            command
        });
        let house = House { machine, daemon, directory, more };
        eventually(&format!("the daemon of {name} answers"), PATIENCE, || house.answers());
        house
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    /// `qanat`, as root, told of this daemon.
    pub fn order(&self, words: &[&str]) -> qanat_tests::e2e::Outcome {
        let program =
            Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", self.socket()).patience(PATIENCE);
        self.machine.within(|| program.run())
    }

    pub fn answers(&self) -> bool {
        self.order(&["status", "--json"]).code == Some(0)
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(self.order(&["status", "--json"]).text().trim()).unwrap_or_default()
    }

    /// The card with an address, by number.
    pub fn card(&self, address: &str) -> Option<u64> {
        let status = self.status();
        let cards = status["vnics"].as_array()?;
        let card = cards.iter().find(|card| card["addresses"].to_string().contains(&format!("\"{address}\"")))?;
        card["vnic"].as_u64()
    }

    /// Writes its policy, whose rule allows these addresses.
    pub fn write_policy(&self, addresses: &str) {
        write_policy(&self.directory, self.more, addresses);
    }

    pub fn policy(&self) -> PathBuf {
        self.directory.join("policy.toml")
    }
}

fn write_policy(directory: &Path, more: &str, addresses: &str) {
    let text = format!(
        "socket = \"{}\"\ngroup = \"nogroup\"\n{more}\n[[rule]]\nname = \"rooms\"\nusers = [\"root\", \"65534\"]\naddresses = \
         [\"{addresses}\"]\nservices = [\"any\"]\nmemory_mib = 4096\nvnics = 64\n",
        directory.join("control.sock").display()
    );
    std::fs::write(directory.join("policy.toml"), text).expect("a policy");
}

/// Commands that anybody may run, and where files lie.
pub struct Tools {
    pages: Pages,
    pub command: PathBuf,
    pub library: PathBuf,
    pub logs: PathBuf,
    /// Of `link.c`.
    pub programs: PathBuf,
}

impl Tools {
    fn new() -> Tools {
        let pages = Pages::new();
        let command = qanat_for_anybody(pages.path());
        let beside = qanat().parent().map(Path::to_owned).unwrap_or_default();
        let library = pages.path().join("libqanat.so");
        std::fs::copy(beside.join("libqanat_posix.so"), &library)
            .unwrap_or_else(|error| panic!("{}: {error}; `make build` makes the library", beside.display()));
        let logs = pages.path().join("logs");
        std::fs::create_dir(&logs).expect("a directory");
        let programs = links::compile(pages.path());
        Tools { pages, command, library, logs, programs }
    }

    /// A directory of nobody's.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.pages.path().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).expect("its owner");
        path
    }

    pub fn path(&self) -> &Path {
        self.pages.path()
    }

    /// `qanat` as nobody, told of the daemon whose socket is in `directory`.
    pub fn nobody(&self, house: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(&self.command).current_dir(self.path());
        command.env("QANAT_SOCKET", house.join("control.sock")).env("QANAT_LIBRARY", &self.library);
        command.env("XDG_RUNTIME_DIR", house.join("nowhere"));
        command
    }

    /// As root, where there is no daemon.
    pub fn root(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.current_dir(self.path()).env("QANAT_SOCKET", self.path().join("none.sock"));
        command.env("QANAT_LIBRARY", &self.library);
        command
    }
}

pub struct Scene {
    pub stations: Vec<Station>,
    pub houses: Vec<House>,
    /// Services of services: `qanat net`, and who makes a card.
    pub others: Vec<Unit>,
    pub street: Arc<Machine>,
    pub town: Arc<Machine>,
    /// A machine with nothing on it.
    pub elsewhere: Arc<Machine>,
    pub tools: Arc<Tools>,
}

/// The page at first, and in later versions.
pub fn page(version: u64) -> Vec<u8> {
    let mut text = Pages::pattern(40_000);
    let mark = format!("version {version} ");
    text.splice(..mark.len(), mark.into_bytes());
    text
}

pub fn zone(serial: u64, address: [u8; 4]) -> String {
    let [a, b, c, d] = address;
    format!("$TTL 60\n@ SOA ns host {serial} 5 2 1209600 30\n@ NS ns\nns A 10.77.0.5\nwww A {a}.{b}.{c}.{d}\n")
}

impl Scene {
    /// Everything started, and every service answers.
    pub fn new(kinds: &[Kind], seed: u64) -> Scene {
        let tools = Arc::new(Tools::new());
        let has = |name: &str| kinds.iter().any(|kind| kind.place() == name);
        let net = "[net]\ncores = \"0\"\nframes = 1024";
        let all = [("house", net), ("annex", ""), ("stall", "")];
        let houses = all.into_iter().filter(|(name, _)| has(name)).map(|(name, more)| House::new(&tools, name, more));
        let houses = houses.collect();
        let [street, town, elsewhere] = ["street", "town", "elsewhere"].map(|name| Arc::new(Machine::new(name)));
        let mut scene = Scene { stations: Vec::new(), houses, others: Vec::new(), street, town, elsewhere, tools };
        for (number, kind) in kinds.iter().enumerate() {
            let station = scene.open(*kind, seed.wrapping_add(number as u64 * 1_000));
            scene.stations.push(station);
        }
        for station in &scene.stations {
            station.answers_again("at first");
        }
        scene
    }

    pub fn house(&self, station: &Station) -> Option<&House> {
        self.houses.iter().find(|house| house.machine.name == station.kind.place())
    }

    /// Where a service runs.
    fn machine_of(&self, kind: Kind) -> &Arc<Machine> {
        let house = self.houses.iter().find(|house| house.machine.name == kind.place());
        house.map_or(&self.street, |house| &house.machine)
    }

    fn open(&mut self, kind: Kind, seed: u64) -> Station {
        let machine = Arc::clone(self.machine_of(kind));
        let directory = self.tools.directory(kind.name());
        std::fs::create_dir_all(directory.join("site")).expect("a directory");
        std::fs::write(directory.join("site/page"), page(0)).expect("a page");
        std::fs::write(directory.join("example.zone"), zone(1, ADDRESS)).expect("a zone");
        let names =
            self.stations.iter().find(|station| station.kind.is_dns()).map(|station| Arc::clone(&station.truth));
        // A secondary answers as its primary does, or did.
        let names = if kind.is_dns() { names.or_else(|| Some(Truth::of(&ADDRESS))) } else { None };
        let truth = names.unwrap_or_else(|| Truth::of(&page(0)));
        let wire = (kind.place() == "street").then(|| links::Wire::lay(self, kind.number()));
        let house = self.houses.iter().find(|house| house.machine.name == kind.place());
        let house = house.map(|house| house.directory.clone()).unwrap_or_default();
        let place = super::kinds::Place { tools: Arc::clone(&self.tools), house, directory: directory.clone() };
        if let Some(recipe) = kind.helper(&place) {
            let name = format!("{} helper", kind.name());
            self.others.push(Unit::start(&machine, &name, &self.tools.logs, recipe));
        }
        let unit = Unit::start(&machine, kind.name(), &self.tools.logs, kind.recipe(&place));
        let asking = if wire.is_some() { &self.town } else { &machine };
        let address: SocketAddr = format!("{}:{}", kind.address(), kind.port()).parse().expect("an address");
        let start = |(number, question): (usize, Question)| {
            Asker::start(asking, address, question, Arc::clone(&truth), seed + number as u64)
        };
        let askers = kind.questions().into_iter().enumerate().map(start).collect();
        Station::new(kind, unit, askers, truth, directory, wire)
    }
}
