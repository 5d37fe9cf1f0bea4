//! Every segment script, on this project's stack and on the Linux kernel (which needs root: namespaces and TUN).
//!
//! `SCRIPT=part-of-a-name` runs only those; `QANAT_REQUIRE_ROOT=1` makes a skipped kernel run an error;
//! `QANAT_UPDATE_DOCS=1` rewrites the tables of `docs/conformance.md`.

use qanat_tests::script::linux::{self, LinuxBackend};
use qanat_tests::script::qanat::QanatBackend;
use qanat_tests::script::syntax::Note;
use qanat_tests::script::{Failure, Script, Stack, conformance, parse, run};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Kernel scripts at a time: they mostly sleep.
const WORKERS: usize = 24;
/// Runs of a kernel script before its failure counts: one among others, the rest alone.
const ATTEMPTS: usize = 4;
/// Further runs for those in which the machine kept even the runner waiting.
const DISTURBED_MAX: usize = 12;
/// A runner later than this was kept waiting.
const DISTURBED: Duration = Duration::from_millis(5);

fn scripts_in(root: &Path, directory: &Path, scripts: &mut Vec<Script>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            scripts_in(root, &path, scripts);
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            scripts.push(parse::parse(&name, &text).unwrap_or_else(|error| panic!("{error}")));
        }
    }
}

fn all_scripts() -> Vec<Script> {
    let mut scripts = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    scripts_in(&root, &root, &mut scripts);
    scripts
}

fn chosen_scripts() -> Vec<Script> {
    let filter = std::env::var("SCRIPT").unwrap_or_default();
    all_scripts().into_iter().filter(|script| script.name.contains(&filter)).collect()
}

/// Turns a result into a complaint, given what is known of the script.
fn judge(script: &Script, stack: Stack, result: Result<(), String>) -> Option<String> {
    match (script.note(stack), result) {
        (Some(Note::Bug(_)), Err(_)) => None,
        (Some(Note::Bug(reason)), Ok(())) => {
            Some(format!("{}: passes now: remove its bug note ({reason})", script.name))
        }
        (_, Err(message)) => Some(message),
        (_, Ok(())) => None,
    }
}

fn report(stack: &str, count: usize, failures: &[String]) {
    println!("{stack}: {count} scripts, {} failed", failures.len());
    assert!(failures.is_empty(), "on {stack}:\n{}", failures.join("\n"));
}

fn skips(script: &Script, stack: Stack) -> bool {
    matches!(script.note(stack), Some(Note::Skip(_)))
}

#[test]
fn on_qanat() {
    let mut failures = Vec::new();
    let mut count = 0;
    for script in chosen_scripts().iter().filter(|script| !skips(script, Stack::Qanat)) {
        count += 1;
        let mut backend = QanatBackend::new(script).unwrap();
        let result = run(script, &mut backend).map_err(|failure| failure.to_string());
        failures.extend(judge(script, Stack::Qanat, result));
    }
    report("qanat", count, &failures);
}

#[test]
fn on_linux() {
    if !linux::is_permitted() {
        assert!(std::env::var_os("QANAT_REQUIRE_ROOT").is_none(), "QANAT_REQUIRE_ROOT is set, and this is not root");
        println!("SKIPPED (needs root): the scripts were not run against the Linux kernel");
        eprintln!("SKIPPED (needs root): the scripts were not run against the Linux kernel");
        return;
    }
    let scripts: Vec<Script> = chosen_scripts().into_iter().filter(|script| !skips(script, Stack::Linux)).collect();
    let queue: Mutex<VecDeque<&Script>> = Mutex::new(scripts.iter().collect());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(script) = queue.lock().unwrap().pop_front() else { break };
                    let result = run_on_linux(script).map_err(|failure| failure.to_string());
                    if judge(script, Stack::Linux, result).is_some() {
                        failed.lock().unwrap().push(script);
                    }
                }
            });
        }
    });
    let failures: Vec<String> = failed.into_inner().unwrap().into_iter().filter_map(repeat_on_linux).collect();
    report("linux", scripts.len(), &failures);
}

/// Runs a script in a namespace of its own; needs a thread of its own, which stays there.
fn run_on_linux(script: &Script) -> Result<(), Failure> {
    match LinuxBackend::new(script) {
        Ok(mut backend) => run(script, &mut backend),
        Err(message) => Err(Failure { place: script.name.clone(), message, lateness: Duration::ZERO }),
    }
}

/// Runs a script that failed among others again, alone: its complaint, if it goes on failing.
fn repeat_on_linux(script: &Script) -> Option<String> {
    let (mut attempts, mut complaint) = (1, None);
    for _ in 0..DISTURBED_MAX {
        let result = std::thread::scope(|scope| scope.spawn(|| run_on_linux(script)).join().unwrap());
        let disturbed = result.as_ref().is_err_and(|failure| failure.lateness > DISTURBED);
        complaint = judge(script, Stack::Linux, result.map_err(|failure| failure.to_string()));
        attempts += usize::from(!disturbed);
        if complaint.is_none() || attempts >= ATTEMPTS {
            break;
        }
    }
    complaint
}

#[test]
fn the_document_lists_every_script() {
    const MARK: &str = "<!-- generated from the scripts -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, old) = text.split_once(MARK).expect("the mark that begins the tables");
    let tables = conformance::tables(&all_scripts());
    if old != tables && std::env::var_os("QANAT_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{MARK}{tables}")).unwrap();
        return;
    }
    assert!(old == tables, "docs/conformance.md is out of date: QANAT_UPDATE_DOCS=1 cargo test --test scripts");
}
