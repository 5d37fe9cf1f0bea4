//! The kinds of service, how each is started, and what it promises to outlive.

use super::PATIENCE;
use super::asker::{Asker, Question, Truth};
use super::links::Wire;
use super::scene::Tools;
use super::unit::{Life, Unit};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `qanat web`, stack linked, a daemon's card.
    Web,
    /// On the daemon's net core.
    WebSplit,
    /// Several processes on the daemon's net core.
    WebAppCores,
    Dns,
    /// A secondary of that.
    Secondary,
    Echo,
    /// `qanat run -- redis-server`.
    Redis,
    /// On a daemon's card by a net core of its own.
    WebSplitOwn,
    /// On `qanat net`, started by hand.
    EchoByHand,
    Memcached,
    /// On a card that an administrator makes.
    WebVnic,
    /// On an interface that is there.
    WebInterface,
    /// The same, by a net core of its own.
    WebSplitInterface,
    /// On an interface, without a daemon, as root.
    Nginx,
    /// `qanat kv`, durable, on a daemon's card.
    Kv,
    /// `qanat cache`, on a daemon's card.
    Cache,
}

/// All there are.
pub const KINDS: [Kind; 16] = [
    Kind::Web,
    Kind::WebSplit,
    Kind::WebAppCores,
    Kind::Dns,
    Kind::Secondary,
    Kind::Echo,
    Kind::Redis,
    Kind::WebSplitOwn,
    Kind::EchoByHand,
    Kind::Memcached,
    Kind::WebVnic,
    Kind::WebInterface,
    Kind::WebSplitInterface,
    Kind::Nginx,
    Kind::Kv,
    Kind::Cache,
];

/// What a kind of service promises for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It goes on. Questions may fail until some time after the fault has gone.
    GoesOn,
    /// It ends with a status that is not 0 and says why, before the fault has gone.
    Ends,
    /// The fault itself ended it: its manager starts it again.
    Restarted,
    /// It goes on, or ends with a reason.
    GoesOnOrEnds,
}

/// A wait that is worth to be looked at, if it is not the last.
const LONG: std::time::Duration = std::time::Duration::from_secs(15);

/// Where a station's files are.
pub struct Place {
    pub tools: Arc<Tools>,
    /// The daemon's directory.
    pub house: PathBuf,
    pub directory: PathBuf,
}

pub type Recipe = Box<dyn Fn() -> Command + Send + Sync>;

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Web => "web",
            Kind::WebSplit => "web-split",
            Kind::WebAppCores => "web-app-cores",
            Kind::Dns => "dns",
            Kind::Secondary => "dns-secondary",
            Kind::Echo => "echo",
            Kind::Redis => "redis",
            Kind::WebSplitOwn => "web-split-own",
            Kind::EchoByHand => "echo-by-hand",
            Kind::Memcached => "memcached",
            Kind::WebVnic => "web-vnic",
            Kind::WebInterface => "web-interface",
            Kind::WebSplitInterface => "web-split-interface",
            Kind::Nginx => "nginx-interface",
            Kind::Kv => "kv",
            Kind::Cache => "cache",
        }
    }

    pub fn number(self) -> usize {
        KINDS.iter().position(|kind| *kind == self).unwrap_or(0)
    }

    /// The machine it runs on.
    pub fn place(self) -> &'static str {
        match self {
            Kind::WebSplitOwn | Kind::EchoByHand | Kind::Memcached => "annex",
            Kind::WebVnic => "stall",
            Kind::WebInterface | Kind::WebSplitInterface | Kind::Nginx => "street",
            _ => "house",
        }
    }

    /// Whether its card is a daemon's.
    pub fn is_on_card(self) -> bool {
        self.place() != "street"
    }

    pub fn address(self) -> String {
        match self.is_on_card() {
            true => format!("10.77.0.{}", self.number() + 2),
            false => format!("10.78.{}.7", self.number()),
        }
    }

    pub fn port(self) -> u16 {
        match self {
            Kind::Dns | Kind::Secondary => 53,
            Kind::Echo | Kind::EchoByHand => 7,
            Kind::Redis | Kind::Kv => 6_379,
            Kind::Memcached | Kind::Cache => 11_211,
            _ => 80,
        }
    }

    /// Under `qanat run`.
    pub fn is_program(self) -> bool {
        matches!(self, Kind::Redis | Kind::Memcached | Kind::Nginx)
    }

    pub fn is_dns(self) -> bool {
        matches!(self, Kind::Dns | Kind::Secondary)
    }

    /// Whether it serves files.
    pub fn has_pages(self) -> bool {
        self.port() == 80
    }

    /// `qanat web`, whatever its placement.
    pub fn is_web(self) -> bool {
        self.has_pages() && !self.is_program()
    }

    pub fn questions(self) -> Vec<Question> {
        match self {
            Kind::Dns | Kind::Secondary => [true, false].map(|by_stream| Question::Name { by_stream }).to_vec(),
            Kind::Echo | Kind::EchoByHand => [true, false].map(|by_stream| Question::Echo { by_stream }).to_vec(),
            Kind::Redis => vec![Question::Redis],
            Kind::Memcached | Kind::Cache => vec![Question::Memcached],
            Kind::Kv => vec![Question::Count],
            _ => [true, false].map(|keeps| Question::Page { path: "/page", keeps }).to_vec(),
        }
    }

    /// How it is started.
    pub fn recipe(self, place: &Place) -> Recipe {
        let (tools, house, directory) = (Arc::clone(&place.tools), place.house.clone(), place.directory.clone());
        let at = |name: &str| directory.join(name).display().to_string();
        let address = format!("{}/24", self.address());
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let (site, log) = (at("site"), at("access.log"));
        let web = ["web", site.as_str(), "--json", "--address", address.as_str(), "--access-log", log.as_str()];
        let split = ["--placement", "split"];
        let interface = format!("near{}", self.number());
        let on_interface = ["--interface", interface.as_str()];
        let run = ["run", "--address", address.as_str()];
        let words = match self {
            Kind::Web => own(&web),
            Kind::WebSplit | Kind::WebSplitOwn => own(&[&web[..], &split].concat()),
            Kind::WebAppCores => own(&[&web[..], &["--app-cores", "2"]].concat()),
            Kind::WebVnic => own(&["web", &site, "--json", "--vnic", "0", "--access-log", &log]),
            Kind::WebInterface => own(&[&web[..], &on_interface].concat()),
            Kind::WebSplitInterface => own(&[&web[..], &on_interface, &split].concat()),
            Kind::Dns | Kind::Secondary => {
                std::fs::write(directory.join("dns.toml"), self.dns_file(&at("example.zone"))).expect("a file");
                own(&["dns", "--json", "--config", &at("dns.toml"), "--control", &at("control"), "--address", &address])
            }
            Kind::Echo => own(&["echo", "--json", "--address", &address]),
            Kind::EchoByHand => own(&["echo", "--json", "--net", &at("net.sock")]),
            Kind::Redis => {
                let own_address = self.address();
                let redis = ["--", "redis-server", "--bind", &own_address, "--protected-mode", "no", "--save", ""];
                own(&[&run[..], &redis].concat())
            }
            Kind::Kv => own(&["kv", "--json", "--disk", &at("kv.img"), "--size", "64M", "--address", &address]),
            Kind::Cache => own(&["cache", "--json", "--address", &address]),
            Kind::Memcached => own(&[&run[..], &["--", "memcached", "-l", &self.address(), "-t", "2"]].concat()),
            Kind::Nginx => {
                let text = format!(
                    "daemon off; user nobody nogroup; worker_processes 2; pid {0}/pid; error_log stderr; events {{}}\nhttp {{ \
                     access_log off; server {{ listen {1}:80; root {0}/site; }} }}",
                    directory.display(),
                    self.address()
                );
                std::fs::write(directory.join("nginx.conf"), text).expect("a file");
                let nginx = ["--", "nginx", "-q", "-e", "stderr", "-c", &at("nginx.conf")];
                own(&[&run[..], &on_interface, &nginx].concat())
            }
        };
        let is_root = !self.is_on_card();
        Box::new(move || {
            let mut command = if is_root { tools.root() } else { tools.nobody(&house) };
            command.args(&words);
            command
        })
    }

    fn dns_file(self, zone: &str) -> String {
        match self {
            Kind::Secondary => {
                format!("[[zone]]\nname = \"example.test\"\nprimary = [\"{}\"]\n", Kind::Dns.address())
            }
            _ => format!(
                "[[zone]]\nname = \"example.test\"\nfile = \"{zone}\"\nallow_transfer = [\"10.77.0.0/24\"]\nalso_notify = [\"{}\"]\n",
                Kind::Secondary.address()
            ),
        }
    }

    /// What it needs beside it, under a manager as well.
    pub fn helper(self, place: &Place) -> Option<Recipe> {
        let (tools, house, directory) = (Arc::clone(&place.tools), place.house.clone(), place.directory.clone());
        let address = format!("{}/24", self.address());
        match self {
            Kind::EchoByHand => Some(Box::new(move || {
                let mut command = tools.nobody(&house);
                command.arg("net").arg("--socket").arg(directory.join("net.sock")).args(["--address", &address]);
                command
            })),
            // An administrator who makes the card anew when there is none.
            Kind::WebVnic => Some(Box::new(move || {
                let mut nobody = tools.nobody(&house);
                nobody.args(["vnic", "create", "kept", "--service", "tcp/80", "--address", &address]);
                let words: Vec<String> = std::iter::once(nobody.get_program())
                    .chain(nobody.get_args())
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect();
                let mut command = Command::new("sh");
                command.args(["-c", &format!("while :; do {} >&2 2>/dev/null; sleep 0.3; done", words.join(" "))]);
                command.env("QANAT_SOCKET", house.join("control.sock"));
                command
            })),
            _ => None,
        }
    }
}

/// One service, its manager, and who asks it.
pub struct Station {
    pub kind: Kind,
    pub unit: Unit,
    pub askers: Vec<Asker>,
    pub truth: Arc<Truth>,
    pub directory: PathBuf,
    pub wire: Option<Wire>,
    /// Which version of its content is the newest.
    pub version: AtomicU64,
    /// Signals that a fault sent it: it may have ended by those.
    excuses: Mutex<Vec<i32>>,
}

/// How a station was before a fault.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    pub lives: usize,
    pub failed: u64,
}

impl Station {
    pub fn new(
        kind: Kind,
        unit: Unit,
        askers: Vec<Asker>,
        truth: Arc<Truth>,
        directory: PathBuf,
        wire: Option<Wire>,
    ) -> Station {
        let (version, excuses) = (AtomicU64::new(0), Mutex::default());
        Station { kind, unit, askers, truth, directory, wire, version, excuses }
    }

    pub fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn failed(&self) -> u64 {
        self.askers.iter().map(Asker::failed).sum()
    }

    pub fn right(&self) -> u64 {
        self.askers.iter().map(Asker::right).sum()
    }

    pub fn before(&self) -> Before {
        self.excuses.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Before { lives: self.unit.lives_count(), failed: self.failed() }
    }

    /// A fault is about to send it this: its next life may end by that.
    pub fn excuse(&self, signal: rustix::process::Signal) {
        self.excuses.lock().unwrap_or_else(PoisonError::into_inner).push(signal.as_raw());
    }

    /// Each of its clients gets a right answer to a question that it asks from now on, of the newest version.
    pub fn answers_again(&self, when: &str) {
        let version = self.truth.last();
        for asker in &self.askers {
            let mark = asker.mark();
            let what = || format!("answers {:?} {when}; last: {}", asker.what(), asker.last_failure());
            self.waits_until(what, || asker.has_answered_since(mark, version));
        }
    }

    /// Waits until it `is_so`. If that takes long, it is said, with what the program said and is at.
    fn waits_until(&self, what: impl Fn() -> String, is_so: impl Fn() -> bool) {
        let state = || {
            let (said, links) = (self.unit.stderr(), self.unit.machine.links());
            format!("{} {}; it said: {said}\n{}\n{links}", self.kind.name(), what(), self.unit.look())
        };
        let (began, mut is_told) = (std::time::Instant::now(), false);
        while !is_so() {
            if !is_told && began.elapsed() > LONG {
                is_told = true;
                println!("after {LONG:?}, still waiting: {}", state());
            }
            assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {}", state());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// It has ended, for a reason that it tells. If it does not end, what it is at is said.
    pub fn has_ended(&self, before: Before, why: &str) {
        self.waits_until(|| format!("ends: {why}"), || self.unit.lives_count() > before.lives);
    }

    /// What is wrong about the lives that are over since then.
    pub fn complaints(&self, before: Before, promise: Promise) -> Vec<String> {
        let lives = self.unit.lives();
        let new = lives.get(before.lives..).unwrap_or_default();
        let mut wrong: Vec<String> = new.iter().filter_map(|life| self.complaint(life)).collect();
        if promise == Promise::GoesOn && !new.is_empty() {
            wrong.push(format!("it was to go on, and ended: {new:?}"));
        }
        for asker in &self.askers {
            wrong.extend(asker.wrongs().iter().map(|what| format!("a wrong answer: {what}")));
        }
        wrong.iter().map(|what| format!("{}: {what}", self.kind.name())).collect()
    }

    fn complaint(&self, life: &Life) -> Option<String> {
        if life.stderr.contains("panicked at") {
            return Some(format!("a panic: {life:?}"));
        }
        let excuses = self.excuses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // By the signal, or in its own way: with 0, or as a shell would say it.
        let by = life.signal().or_else(|| life.status.code().map(|code| code - 128));
        let is_told = !excuses.is_empty() && (life.status.success() || by.is_some_and(|by| excuses.contains(&by)));
        // A program is ended by signals, and may make of them what it likes; its library says why.
        let is_explained = life.is_explained() || (self.kind.is_program() && !life.stderr.trim().is_empty());
        (!is_told && !is_explained).then(|| format!("it ended without a reason: {life:?}"))
    }
}
