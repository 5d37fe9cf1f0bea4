//! Signed answers as validators see them: BIND's `delv` with the zone's key as trust anchor, `ldns-verify-zone` on a transferred
//! copy; and `dnsperf` asking the same server.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Program, Running, Signed, directory_for_anybody, eventually, qanat, scenario, workspace};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::path::Path;
use std::time::Duration;

const SERVER: &str = "@10.77.0.2";
const GRACE: Duration = Duration::from_secs(15);
const POSITIVE: &str = "; fully validated";
const NEGATIVE: &str = "; negative response, fully validated";
/// Asked, and what `delv` says: each way an answer can be proved (RFC 4035 section 3.1.3, RFC 5155 section 7.2). An alias to what
/// is not there is a validated alias whose negative end `delv` names first.
const QUESTIONS: [(&str, &str, &str); 16] = [
    ("corners.test", "SOA", POSITIVE),
    ("corners.test", "DNSKEY", POSITIVE),
    ("www.corners.test", "A", POSITIVE),
    ("mixed.case.corners.test", "TXT", POSITIVE),
    ("secure.corners.test", "DS", POSITIVE),
    ("delegated.corners.test", "DS", NEGATIVE),
    ("www.corners.test", "MX", NEGATIVE),
    ("b.c.empty.corners.test", "TXT", NEGATIVE),
    ("nothing.at.all.corners.test", "AAAA", NEGATIVE),
    ("x.there.wild.corners.test", "A", NEGATIVE),
    ("x.wild.corners.test", "A", POSITIVE),
    ("x.wild.corners.test", "TXT", NEGATIVE),
    ("alias3.corners.test", "A", POSITIVE),
    ("towild.corners.test", "A", POSITIVE),
    ("dangling.corners.test", "A", ";; resolution failed: ncache nxdomain"),
    ("www.dname2.corners.test", "A", POSITIVE),
];

/// A trust anchor for `delv` of a DNSKEY record.
fn anchor(key: &Path) -> String {
    let record = fs::read_to_string(key).expect("the key");
    let words: Vec<&str> = record.split_whitespace().collect();
    let [_, _, _, flags, protocol, algorithm, data, ..] = words[..] else { panic!("no DNSKEY record: {record}") };
    format!("trust-anchors {{ corners.test. initial-key {flags} {protocol} {algorithm} \"{data}\"; }};\n")
}

fn start(directory: &Path, zone: &Path) -> Running {
    let config = directory.join("dns.toml");
    let zone = zone.to_str().expect("a path");
    let text = format!("[[zone]]\nname = \"corners.test\"\nfile = \"{zone}\"\nallow_transfer = [\"10.77.0.1\"]\n");
    fs::write(&config, text).expect("a file");
    let running = Program::new(qanat()).arguments(["dns", "--json", "--config"]).arguments([&config]).start();
    eventually("an answer", GRACE, || {
        let dig = Program::new("dig").arguments([SERVER, "+tries=1", "+time=1", "+short", "corners.test", "SOA"]).run();
        !dig.text().trim().is_empty() && dig.code == Some(0)
    });
    running
}

fn delv(anchors: &Path, name: &str, rtype: &str) -> String {
    let outcome = Program::new("delv")
        .arguments([SERVER, "-a"])
        .arguments([anchors])
        .arguments(["+root=corners.test", name, rtype])
        .run();
    outcome.text() + &outcome.stderr
}

fn validate(options: &[&str]) {
    scenario(|| {
        let directory = directory_for_anybody();
        let directory = directory.path();
        let plain = directory.join("corners.zone");
        fs::copy(workspace().join("tests/data/dns/corners.zone"), &plain).expect("the zone");
        let signed = Signed::new(directory, "corners.test", &plain, options);
        let running = start(directory, &signed.zone);
        let anchors = directory.join("anchors");
        fs::write(&anchors, anchor(&signed.key)).expect("a file");
        for (name, rtype, verdict) in QUESTIONS {
            let text = delv(&anchors, name, rtype);
            assert!(text.lines().any(|line| line == verdict), "{name} {rtype}: no `{verdict}`:\n{text}");
            assert!(!text.contains("unsigned") && !text.contains("no valid"), "{name} {rtype}:\n{text}");
        }
        // With another's key nothing is believed.
        let other = directory.join("other.zone");
        fs::copy(&plain, &other).expect("the zone");
        fs::write(&anchors, anchor(&Signed::new(directory, "corners.test", &other, options).key)).expect("a file");
        let text = delv(&anchors, "www.corners.test", "A");
        assert!(!text.contains("fully validated"), "{text}");
        let transferred = directory.join("transferred");
        let dig = Program::new("dig").arguments([SERVER, "+noall", "+answer", "corners.test", "AXFR"]).succeeds();
        fs::write(&transferred, dig.text()).expect("a file");
        let verified = Program::new("ldns-verify-zone").arguments([&transferred]).run();
        assert_eq!(verified.code, Some(0), "{}{}", verified.text(), verified.stderr);
        load(directory);
        let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, Signal::INT).expect("Ctrl-C");
        let outcome = running.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.text(), outcome.stderr);
    });
}

/// `dnsperf` gets answers of both kinds and no others. (It counts the last ones as lost now and then, whoever the server is.)
fn load(directory: &Path) {
    let questions = directory.join("questions");
    fs::write(&questions, "www.corners.test A\nnothing.corners.test A\n").expect("a file");
    let outcome = Program::new("dnsperf")
        .arguments(["-s", "10.77.0.2", "-n", "100", "-D", "-d"])
        .arguments([&questions])
        .succeeds();
    let text = outcome.text();
    let codes = text.lines().find(|line| line.contains("Response codes:")).unwrap_or_default();
    let kinds: Vec<&str> = codes.split_whitespace().filter(|word| word.chars().all(char::is_uppercase)).collect();
    assert_eq!(kinds, ["NOERROR", "NXDOMAIN"], "{text}");
}

#[test]
fn nsec_proofs_validate() {
    validate(&[]);
}

#[test]
fn nsec3_proofs_validate() {
    validate(&["-n", "-t", "2", "-s", "aabb"]);
}
