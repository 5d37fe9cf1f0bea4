//! The cases of `socket-cases` run bare on Linux, and under `qanat run`: the outcomes are to be those stored in `expected.txt`,
//! which are Linux's, but for those that `known` names.
#![forbid(unsafe_code)]

mod epolls;
mod known;

use known::{How, Known};
use qanat_nic::link::Namespace;
use qanat_tests::e2e::{Program, Running, eventually, qanat, scenario};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_socket-cases");
/// A case whose outcome changed on purpose, or a new one: run with this set, review the file's difference, commit it.
const UPDATE: &str = "QANAT_UPDATE";
/// For all of the cases; a subject that hangs is ended by its own watchdog long before.
const PATIENCE: Duration = Duration::from_secs(600);
/// Subjects of `qanat run` at once: a case mostly waits, and so does a program that gets its card.
const PARTS: usize = 4;

/// Where a run's two sides are.
struct Sides<'a> {
    /// The subject's addresses: IPv4, then IPv6.
    subject: &'a str,
    /// The peer's.
    peer: &'a str,
}

/// The peer, in the calling thread's namespace.
struct Peer {
    directory: tempfile::TempDir,
    _running: Running,
}

impl Peer {
    fn start() -> Peer {
        // Refusals are part of what is compared, and Linux sends a host few of them per second.
        for limit in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
            std::fs::write(Path::new("/proc/sys/net").join(limit), "0").expect("no limit to the peer's ICMP");
        }
        let directory = tempfile::tempdir().expect("a directory for the control socket");
        let control = directory.path().join("control");
        let running = Program::new(PROGRAM).arguments(["peer", "--control"]).arguments([&control]).start();
        eventually("the peer's socket", Duration::from_secs(15), || control.exists());
        Peer { directory, _running: running }
    }

    /// What runs cases in the calling thread's namespace.
    fn drive(&self, sides: &Sides<'_>, options: &[&str]) -> Program {
        let control = self.directory.path().join("control");
        Program::new(PROGRAM)
            .arguments(["drive", "--address", sides.subject, "--peer", sides.peer, "--control"])
            .arguments([&control])
            .arguments(options)
            .patience(PATIENCE)
    }
}

/// Cases that are tried again if they differ, at most.
const AGAIN_MAX: usize = 5;

type Outcomes = BTreeMap<String, String>;

fn pairs(text: &str) -> Outcomes {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
        .collect()
}

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expected.txt")
}

/// The differences from Linux that nobody knows of, and the known ones that are none (any more).
fn differences(found: &Outcomes, known: &[Known<'_>]) -> Vec<String> {
    let expected = pairs(&std::fs::read_to_string(stored()).expect("the outcomes on Linux"));
    let known_of = |name: &str| known.iter().find(|known| known.has(name));
    let mut wrong = Vec::new();
    for (name, wanted) in &expected {
        let seen = found.get(name).map_or("(did not run)", String::as_str);
        match known_of(name) {
            None if seen != wanted => wrong.push(format!("{name}\n  Linux  {wanted}\n  here   {seen}")),
            Some(known) if seen == wanted && known.how != How::NowAndThen => {
                wrong.push(format!("{name} is as on Linux: strike it from the known differences ({})", known.why));
            }
            _ => {}
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        wrong.push(format!("{name}: a new case; {UPDATE}=1 stores its outcome on Linux"));
    }
    for known in known {
        for case in known.cases.iter().filter(|case| !expected.keys().any(|name| name.starts_with(**case))) {
            wrong.push(format!("{case}: among the known differences, but there is no such case"));
        }
    }
    wrong
}

/// Whether nobody knows of this case's difference.
fn differs(found: &Outcomes, name: &str) -> bool {
    differences(found, known::KNOWN).iter().any(|text| text.starts_with(&format!("{name}\n")))
}

fn hold(found: &Outcomes, known: &[Known<'_>]) {
    let wrong = differences(found, known);
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), found.len(), wrong.join("\n"));
}

fn ip(line: &str) {
    Program::new("ip").arguments(line.split_whitespace()).succeeds();
}

#[test]
fn every_case_passes_on_linux() {
    scenario(|| {
        let far = Namespace::anonymous().expect("a namespace for the peer");
        // The kernel names a namespace by a process in it.
        let keeper = far.within(|| Program::new("sleep").arguments(["1500"]).start()).expect("entering it");
        ip(&format!("link add cases-near type veth peer name cases-far netns {}", keeper.id()));
        let address = |device: &str, last: u8| {
            ip(&format!("address add 10.78.8.{last}/24 dev {device}"));
            ip(&format!("address add fd78:8::{last}/64 dev {device} nodad"));
            ip(&format!("link set {device} up"));
        };
        address("cases-near", 2);
        let both_sides_of_fast_open =
            || Program::new("sysctl").arguments(["-qw", "net.ipv4.tcp_fastopen=3"]).succeeds();
        both_sides_of_fast_open();
        let start = || {
            ip("link set lo up");
            address("cases-far", 1);
            both_sides_of_fast_open();
            Peer::start()
        };
        let peer = far.within(start).expect("the peer's namespace");
        let sides = Sides { subject: "10.78.8.2,fd78:8::2", peer: "10.78.8.1,fd78:8::1" };
        let outcomes = || pairs(&peer.drive(&sides, &[]).succeeds().text());
        if std::env::var_os(UPDATE).is_some() {
            let lines = outcomes().into_iter().map(|(name, outcome)| format!("{name}\t{outcome}\n"));
            std::fs::write(stored(), lines.collect::<String>()).expect("the file of outcomes");
        }
        hold(&outcomes(), &[]);
    });
}

/// The cases that `which` names, in a namespace with a daemon and a peer of its own.
fn under_qanat_run(which: &[&str], hanging: &Path) -> Outcomes {
    let namespace = Namespace::anonymous().expect("a namespace for a part of the cases");
    let all = || {
        ip("link set lo up");
        Program::new("sysctl").arguments(["-qw", "net.ipv4.tcp_fastopen=3"]).succeeds();
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("control.sock");
        let _daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]).start();
        eventually("the daemon's socket", Duration::from_secs(15), || socket.exists());
        let sides = Sides { subject: "10.77.0.2,fd77::2", peer: "10.77.0.1,fd77::1" };
        let command = qanat();
        let hanging = hanging.to_str().expect("a path");
        // Nothing is wrong with what takes long on a busy machine; what is known to hang is given up sooner.
        let options = [which, &["--limit", "20", "--hanging", hanging, "--"]].concat();
        let peer = Peer::start();
        let drive = peer.drive(&sides, &options).arguments([&command]);
        let words = ["run", "--address", "10.77.0.2/24", "--address", "fd77::2/64", "--"];
        pairs(&drive.arguments(words).environment("QANAT_SOCKET", &socket).succeeds().text())
    };
    namespace.within(all).expect("entering it")
}

#[test]
fn under_qanat_run_the_cases_see_what_they_see_on_linux() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let hanging = directory.path().join("hanging");
        let hang = known::KNOWN.iter().filter(|known| known.how == How::Hangs).flat_map(|known| known.cases);
        std::fs::write(&hanging, hang.map(|case| format!("{case}\n")).collect::<String>()).expect("a file");
        let hanging = &hanging;
        let part = |part: usize| under_qanat_run(&["--part", &format!("{part}/{PARTS}")], hanging);
        let mut found: Outcomes = std::thread::scope(|scope| {
            let parts: Vec<_> = (0..PARTS).map(|number| scope.spawn(move || part(number))).collect();
            parts.into_iter().flat_map(|part| part.join().expect("a part of the cases")).collect()
        });
        // On a busy machine a card may not be there in time for a case: a difference counts if it is there twice.
        let once: Vec<String> = found.keys().filter(|name| differs(&found, name)).take(AGAIN_MAX).cloned().collect();
        for name in once {
            println!("{name} differs, and is tried again: {}", found[&name]);
            found.extend(under_qanat_run(&["--filter", &name], hanging));
        }
        hold(&found, known::KNOWN);
    });
}

#[test]
fn a_difference_is_told_with_both_outcomes() {
    let mut found = pairs(&std::fs::read_to_string(stored()).expect("the outcomes on Linux"));
    assert!(found.len() > 350, "{} cases", found.len());
    assert!(differences(&found, &[]).is_empty());
    let name = "bind/tcp_twice/v4";
    found.insert(name.to_owned(), "bind=0; again=0".to_owned());
    let wrong = differences(&found, &[]);
    assert!(wrong.len() == 1 && wrong[0].contains("again=EINVAL") && wrong[0].contains("again=0"), "{wrong:?}");
    let known = |how, cases| Known { how, why: "a reason", cases };
    assert!(differences(&found, &[known(How::Differs, &["bind/tcp_twice/v4"])]).is_empty());
    // Each of the cases it stands for must differ.
    let stale = differences(&found, &[known(How::Differs, &["bind/tcp_twice/"])]);
    assert!(stale.len() == 1 && stale[0].contains("tcp_twice/v6 is as on Linux"), "{stale:?}");
    assert!(differences(&found, &[known(How::NowAndThen, &["bind/tcp_twice/"])]).is_empty());
    let unknown = differences(&found, &[known(How::NowAndThen, &["bind/tcp_twice/", "bind/no_such"])]);
    assert!(unknown.len() == 1 && unknown[0].contains("no such case"), "{unknown:?}");
    found.remove(name);
    assert!(differences(&found, &[])[0].contains("did not run"));
}
