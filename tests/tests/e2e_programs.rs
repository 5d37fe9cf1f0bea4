//! A table of programs as they are, each tried under `qanat run` by clients on the kernel's sockets, or the other way round. The rows
//! are in `e2e_programs/*.py`, a test for each file; `docs/posix.md` has the same table.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Outcome, Program, qanat, scenario, workspace};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BEGIN: &str = "<!-- made by the test `e2e_programs`: `make posix-table` -->\n";
const END: &str = "<!-- end of the programs -->\n";
/// Set: the document is written anew.
const UPDATE: &str = "QANAT_UPDATE";
/// A row takes some seconds; this is for a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(150);

fn programs() -> Program {
    let table: PathBuf = workspace().join("tests/tests/e2e_programs/programs.py");
    Program::new("python3").arguments([table]).environment("PYTHONDONTWRITEBYTECODE", "1")
}

/// Tries all rows of a file, each in a network namespace of its own; those that fail are told when all have been tried.
fn all_of(file: &str) {
    let list = programs().succeeds().text();
    let rows: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix(&format!("{file}\t"))).collect();
    assert!(!rows.is_empty(), "{file}.py has no rows");
    let mut failed = Vec::new();
    for row in rows {
        let start = Instant::now();
        let mut outcome: Option<Outcome> = None;
        scenario(|| outcome = Some(programs().arguments([qanat()]).arguments([row]).patience(PATIENCE).run()));
        // None: no root, and the scenario has said so.
        let Some(outcome) = outcome else { return };
        let is_well = outcome.code == Some(0);
        println!("{} {row} ({:.1} s)", if is_well { "well" } else { "FAILED" }, start.elapsed().as_secs_f64());
        if !is_well {
            failed.push(format!("{row}\n{}{}", outcome.text(), outcome.stderr));
        }
    }
    assert!(failed.is_empty(), "{} of {file}.py failed:\n\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn web_servers() {
    all_of("web_servers");
}

#[test]
fn frameworks() {
    all_of("frameworks");
}

#[test]
fn languages() {
    all_of("languages");
}

#[test]
fn middle() {
    all_of("middle");
}

#[test]
fn services() {
    all_of("services");
}

#[test]
fn files_and_mail() {
    all_of("files_and_mail");
}

#[test]
fn datagrams() {
    all_of("datagrams");
}

#[test]
fn clients() {
    all_of("clients");
}

#[test]
fn the_document_has_the_table() {
    let table = programs().arguments(["--table"]).succeeds().text();
    let path = workspace().join("docs/posix.md");
    let document = std::fs::read_to_string(&path).expect("docs/posix.md");
    let (before, rest) = document.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where it ends");
    let wanted = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &wanted).expect("docs/posix.md");
    } else {
        assert!(
            document == wanted,
            "docs/posix.md has other programs than e2e_programs: `make posix-table` writes them"
        );
    }
}

/// A file of rows that no test names would never be tried.
#[test]
fn every_file_of_rows_is_tried() {
    let tests = include_str!("e2e_programs.rs");
    for line in programs().succeeds().text().lines() {
        let file = line.split('\t').next().unwrap_or_default();
        assert!(tests.contains(&format!("all_of(\"{file}\")")), "{file}.py has rows that no test tries");
    }
}
