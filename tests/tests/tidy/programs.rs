//! Where `unsafe` may be, and that every test program is run.

use super::repository::{packages, sources};
use super::{UNSAFE, UNSAFE_TEST, UNSAFE_TEST_MODULE};
use qanat_tests::e2e::workspace;
use std::fs;
use std::path::Path;

/// Whether a crate's root keeps `unsafe` out: it forbids it, or, in the one test program that needs it, denies it.
fn keeps_unsafe_out(package: &str, root: &str) -> bool {
    let has = |attribute: &str| root.lines().any(|line| line == attribute);
    has("#![forbid(unsafe_code)]") || (package == UNSAFE_TEST && has("#![deny(unsafe_code)]"))
}

/// Whether a line that is no comment has the word.
fn has_unsafe(text: &str) -> bool {
    let word = ["un", "safe"].concat();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).any(|line| line.split([' ', '(']).any(|part| part == word))
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let mut wrong = Vec::new();
    for package in packages().iter().filter(|package| !UNSAFE.contains(&package.name.as_str())) {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| package.directory.join(root));
        for root in roots.iter().filter(|root| root.exists()) {
            let text = fs::read_to_string(root).expect("a crate's root");
            if !keeps_unsafe_out(&package.name, &text) {
                wrong.push(format!("{}: write #![forbid(unsafe_code)]", root.display()));
            }
        }
    }
    for (file, text) in sources().iter().filter(|(file, _)| file.starts_with("tests/sockets/src")) {
        if has_unsafe(text) && !file.with_extension("").starts_with(UNSAFE_TEST_MODULE) {
            wrong.push(format!("{}: put it into {UNSAFE_TEST_MODULE}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Names in a list of the Makefile.
fn listed(makefile: &str, name: &str) -> Vec<String> {
    let makefile = makefile.replace("\\\n", " ");
    let prefix = format!("{name} := ");
    let line = makefile.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
    line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The test programs in a package's folder of tests.
fn test_programs(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_program = path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").exists();
        found.extend(path.file_stem().filter(|_| is_program).map(|stem| stem.to_string_lossy().into_owned()));
    }
    found
}

/// A test program that no target of the Makefile names would never be run.
#[test]
fn every_test_program_is_run() {
    let makefile = fs::read_to_string(workspace().join("Makefile")).expect("the Makefile");
    let lists = ["UNIT_TESTS", "SYSTEM_TESTS", "WAITING_TESTS", "HOSTILE_TESTS", "HARDWARE_TESTS"]
        .map(|name| listed(&makefile, name));
    let mut wanted = [lists.concat(), vec!["fuzz-bounded".to_owned()]].concat();
    wanted.sort();
    let mut there: Vec<String> =
        packages().iter().flat_map(|package| test_programs(&package.directory.join("tests"))).collect();
    there.sort();
    assert_eq!(there, wanted, "left: what there is; right: what `make test` runs");
}

#[test]
fn both_are_found() {
    let forbidden = "//! A crate.\n#![forbid(unsafe_code)]\n";
    let denied = forbidden.replace("forbid", "deny");
    assert!(keeps_unsafe_out("qanat-a", forbidden) && keeps_unsafe_out(UNSAFE_TEST, &denied));
    assert!(!keeps_unsafe_out("qanat-a", &denied) && !keeps_unsafe_out("qanat-a", "//! A crate.\n"));
    let word = ["un", "safe"].concat();
    assert!(has_unsafe(&format!("    let a = {word} {{ b() }};\n")) && has_unsafe(&format!("{word}(no_mangle)\n")));
    assert!(!has_unsafe(&format!("// {word} code\nlet is_{word} = 1;\n")));

    let makefile = "UNIT_TESTS := a b \\\n\tc\nSYSTEM_TESTS := d\n";
    assert_eq!(
        (listed(makefile, "UNIT_TESTS").join(" "), listed(makefile, "SYSTEM_TESTS").join(" ")),
        ("a b c".to_owned(), "d".to_owned())
    );
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(directory.path().join("folder")).expect("a folder");
    fs::create_dir_all(directory.path().join("helpers")).expect("a folder");
    for file in ["one.rs", "folder/main.rs", "helpers/two.rs", "notes.txt"] {
        fs::write(directory.path().join(file), "").expect("a file");
    }
    let mut found = test_programs(directory.path());
    found.sort();
    assert_eq!(found, ["folder", "one"]);
}
