//! The cases of `socket-cases` run bare on Linux, and under whatever stack is put before the program: the outcomes are
//! to be those stored in `expected.txt`, which are Linux's.
#![forbid(unsafe_code)]

use qanat::nic::link::Namespace;
use qanat_tests::e2e::{Program, Running, eventually, scenario};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_socket-cases");
/// A case whose outcome changed on purpose, or a new one: run with this set, review the file's difference, commit it.
const UPDATE: &str = "QANAT_UPDATE";
/// For all of the cases; a subject that hangs is ended by its own watchdog long before.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Names of cases (or how they begin) that are known to differ, each with the reason.
type Known<'a> = [(&'a str, &'a str)];

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

    /// Runs all cases in the calling thread's namespace, behind the words of `prefix`; what each saw.
    fn outcomes(&self, sides: &Sides<'_>, prefix: &[&str]) -> BTreeMap<String, String> {
        let control = self.directory.path().join("control");
        let outcome = Program::new(PROGRAM)
            .arguments(["drive", "--address", sides.subject, "--peer", sides.peer, "--control"])
            .arguments([&control])
            .arguments(["--"])
            .arguments(prefix)
            .patience(PATIENCE)
            .succeeds();
        pairs(&outcome.text())
    }
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
        .collect()
}

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expected.txt")
}

/// The differences from Linux that nobody knows of, and the known ones that are none (any more).
fn differences(found: &BTreeMap<String, String>, known: &Known<'_>) -> Vec<String> {
    let expected = pairs(&std::fs::read_to_string(stored()).expect("the outcomes on Linux"));
    let reason = |name: &str| known.iter().position(|(start, _)| name.starts_with(start));
    let mut used = vec![false; known.len()];
    let mut wrong = Vec::new();
    for (name, wanted) in &expected {
        let seen = found.get(name).map_or("(did not run)", String::as_str);
        if seen == wanted {
            continue;
        }
        match reason(name) {
            Some(at) => used[at] = true,
            None => wrong.push(format!("{name}\n  Linux  {wanted}\n  here   {seen}")),
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        wrong.push(format!("{name}: a new case; {UPDATE}=1 stores its outcome on Linux"));
    }
    for ((start, reason), _) in known.iter().zip(&used).filter(|(_, is_used)| !**is_used) {
        wrong.push(format!("{start} is as on Linux: strike it from the known differences ({reason})"));
    }
    wrong
}

/// Runs the cases behind `prefix` (as `["/path/qanat", "run", "--"]`), the peer being in the calling thread's namespace,
/// and holds their outcomes against Linux's.
///
/// # Panics
/// One differs that is not among the known, or a known one does not.
fn compare(prefix: &[&str], sides: &Sides<'_>, peer: &Peer, known: &Known<'_>) {
    let found = peer.outcomes(sides, prefix);
    let wrong = differences(&found, known);
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
        let start = || {
            ip("link set lo up");
            address("cases-far", 1);
            Peer::start()
        };
        let peer = far.within(start).expect("the peer's namespace");
        let sides = Sides { subject: "10.78.8.2,fd78:8::2", peer: "10.78.8.1,fd78:8::1" };
        if std::env::var_os(UPDATE).is_some() {
            let lines = peer.outcomes(&sides, &[]).into_iter().map(|(name, outcome)| format!("{name}\t{outcome}\n"));
            std::fs::write(stored(), lines.collect::<String>()).expect("the file of outcomes");
        }
        compare(&[], &sides, &peer, &[]);
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
    assert!(differences(&found, &[("bind/tcp_twice", "a reason")]).is_empty());
    let stale = differences(&found, &[("bind/tcp_twice", "a reason"), ("bind/udp_twice", "another")]);
    assert!(stale.len() == 1 && stale[0].contains("udp_twice"), "{stale:?}");
    found.remove(name);
    assert!(differences(&found, &[])[0].contains("did not run"));
}
