//! packetdrill itself, if it is there, runs those of tests/scripts that are in its own language, against the sockets of
//! libqanat.so. It is not in Debian, so it is not asked for: `tools/packetdrill` fetches it, `PACKETDRILL=…` says where it is.
#![forbid(unsafe_code)]

use qanat_tests::e2e::workspace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What packetdrill says of what it does not understand: our scripts' language has more than its own.
const FOREIGN: [&str; 4] = ["parse error", "semantic error", "unknown", "first event should be at time 0"];
/// What our scripts' language has beside packetdrill's: such scripts need not be tried.
const MARKS: [&str; 5] = ["--sysctl", "--check_push", "wscale *", "val *", "[qanat]"];
/// Scripts that ask for what sockets of this library don't do; docs/posix.md names it.
const EXPECTED: [&str; 4] = [
    // SO_RCVBUF has no effect.
    "data/window-edge.pkt",
    "flow/receive-window-closes.pkt",
    "flow/zero-window-probe-answered.pkt",
    // Over IPv6, which is not what it is run with here.
    "open/ipv6-mss-absent-means-1220.pkt",
];
/// It would be no test if they were all foreign.
const PASSED_MIN: usize = 30;

fn checkout() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/qanat/packetdrill"));
    let found = std::env::var_os("PACKETDRILL").map(PathBuf::from).or_else(home)?;
    found.join("gtests/net/packetdrill/packetdrill").exists().then_some(found)
}

fn scripts() -> Vec<PathBuf> {
    let entries = |directory: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path()).collect()
    };
    let is_plain = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a script");
        !MARKS.iter().any(|mark| text.contains(mark))
    };
    entries(&workspace().join("tests/scripts")).iter().flat_map(|topic| entries(topic)).filter(is_plain).collect()
}

#[test]
fn packetdrill_runs_our_own_scripts() {
    let Some(checkout) = checkout() else {
        let text = "\nNOT RUN (no packetdrill): our scripts by packetdrill itself: `make packetdrill` fetches it\n";
        // Past the capture of a test's output.
        let _ = std::io::stderr().write_all(text.as_bytes());
        return;
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "qanat-packetdrill"])
        .current_dir(workspace())
        .status()
        .expect("cargo");
    assert!(built.success());
    let output = Command::new(workspace().join("tools/packetdrill"))
        .args(scripts())
        .env("PACKETDRILL", checkout)
        .output()
        .expect("python3");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = || text.lines().filter(|line| line.contains(".pkt"));
    let failed: Vec<&str> = lines()
        .filter(|line| line.starts_with("FAIL"))
        .filter(|line| !FOREIGN.iter().any(|words| line.contains(words)))
        .filter(|line| !EXPECTED.iter().any(|name| line.contains(name)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = lines().filter(|line| line.starts_with("ok")).count();
    assert!(passed >= PASSED_MIN, "only {passed} passed: {text}");
}
