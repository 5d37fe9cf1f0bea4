//! `epoll` by random sequences of calls (`socket-cases epolls`), on Linux and under `qanat run`.

use super::PROGRAM;
use qanat_tests::e2e::{Program, eventually, qanat, scenario};
use std::time::Duration;

/// Seeds of a run; `QANAT_SEEDS` tries more of them, `QANAT_SEED=N` does one again.
const SEEDS: u64 = 150;
/// For all seeds; each takes some hundredths of a second.
const PATIENCE: Duration = Duration::from_secs(600);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What the program says of all seeds, with connections that come in at `address`.
fn said(program: Program, address: &str) -> Vec<String> {
    let (from, count) = match number("QANAT_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("QANAT_SEEDS").unwrap_or(SEEDS)),
    };
    let words = ["epolls", "--address", address, "--from", &from.to_string(), "--seeds", &count.to_string()];
    let text = program.arguments(words).patience(PATIENCE).succeeds().text();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len() as u64, 2 * count, "a sequence and a race of each seed");
    lines
}

/// The lines of `kind`, which begins each.
fn of<'a>(lines: &'a [String], kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let rest = lines.iter().filter_map(move |line| line.strip_prefix(kind)?.strip_prefix('\t'));
    rest.filter_map(|line| line.split_once('\t'))
}

fn keeps_the_rules(lines: &[String]) {
    let broken: Vec<_> = of(lines, "race").filter(|(_, said)| *said != "as the rules").collect();
    let replay = "QANAT_SEED=N does a seed again";
    assert!(broken.is_empty(), "{} of {} seeds; {replay}: {broken:#?}", broken.len(), lines.len() / 2);
}

/// What of a line differs, and what was before that.
fn difference(linux: &str, here: &str) -> String {
    let both: Vec<_> = linux.split("; ").zip(here.split("; ")).collect();
    let at = both.iter().position(|(linux, here)| linux != here).unwrap_or(both.len());
    let before: Vec<&str> = both.iter().take(at).map(|(linux, _)| *linux).collect();
    let (linux, here) = both.get(at).unwrap_or(&("more", "less"));
    format!("{}\nLinux  {linux}\nhere   {here}", before.join("\n"))
}

#[test]
fn epoll_answers_as_on_linux_and_keeps_its_rules_under_threads() {
    scenario(|| {
        let linux = said(Program::new(PROGRAM), "127.0.0.1");
        // The rules are Linux' own.
        keeps_the_rules(&linux);
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("control.sock");
        let _daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]).start();
        eventually("the daemon's socket", Duration::from_secs(15), || socket.exists());
        let run = Program::new(qanat()).arguments(["run", "--address", "10.77.0.2/24", "--", PROGRAM]);
        let here = said(run.environment("QANAT_SOCKET", &socket), "10.77.0.2");
        keeps_the_rules(&here);
        for ((seed, linux), (_, here)) in of(&linux, "sequence").zip(of(&here, "sequence")) {
            assert!(linux == here, "QANAT_SEED={seed}:\n{}", difference(linux, here));
        }
    });
}
