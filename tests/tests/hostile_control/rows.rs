//! The list of all attacks by class: the rows of `attacks.py`, and the tests in Rust that are attacks too, which say so in a
//! comment above them: `// Attack: CLASS: what is tried`. `docs/attacks.md` has the list; it is compared here, and written
//! when QANAT_UPDATE is set.

use qanat_tests::e2e::{Program, workspace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub const CLASSES: [&str; 8] = [
    "frames",
    "fields and memory",
    "descriptors",
    "identity and names",
    "time and cost",
    "side channels",
    "privilege",
    "administration",
];
/// Fewer than there are: none is to be lost unnoticed.
const ROWS_MIN: usize = 110;
const CLASS_MIN: usize = 2;
const BEGIN: &str =
    "<!-- attacks: written by QANAT_UPDATE=1 cargo test -p qanat-tests --test hostile_control all_attacks -->\n";
const END: &str = "<!-- end of attacks -->\n";

/// What is tried, and the test that tries it.
type Row = (String, String);

fn of_python() -> Vec<(String, Row)> {
    let script = "tests/tests/hostile_control/attacks.py";
    let listed = Program::new("python3")
        .arguments([workspace().join(script)])
        .environment("PYTHONDONTWRITEBYTECODE", "1")
        .succeeds();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a line of JSON");
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        (text("class"), (text("name"), "table".to_owned()))
    };
    listed.text().lines().map(row).collect()
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Declared above their functions, in this crate's tests, the crates' and the services'.
fn of_rust() -> Vec<(String, Row)> {
    let (mut files, mut rows) = (Vec::new(), Vec::new());
    for top in ["crates", "services", "tests"] {
        rust_files(&workspace().join(top), &mut files);
    }
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(declared) = line.trim().strip_prefix("// Attack: ") else { continue };
            let place = format!("{}: {declared}", file.display());
            let (class, name) = declared.split_once(": ").unwrap_or_else(|| panic!("{place}: write CLASS: NAME"));
            let mut after = lines.clone().map(str::trim).skip_while(|line| line.starts_with("//"));
            let mut is_test = false;
            let function = after.find_map(|line| {
                is_test |= line == "#[test]";
                line.strip_prefix("fn ").or_else(|| line.strip_prefix("pub fn "))?.split_once('(')
            });
            let (function, _) = function.unwrap_or_else(|| panic!("{place}: no function follows"));
            assert!(is_test, "{place}: {function} is no test");
            rows.push((class.to_owned(), (name.to_owned(), format!("`{function}`"))));
        }
    }
    rows
}

#[test]
fn all_attacks_are_listed_by_class() {
    let mut classes: BTreeMap<&str, Vec<Row>> = CLASSES.iter().map(|class| (*class, Vec::new())).collect();
    for (class, row) in of_python().into_iter().chain(of_rust()) {
        let rows =
            classes.get_mut(class.as_str()).unwrap_or_else(|| panic!("{}: {class} is no class of attacks", row.0));
        assert!(rows.iter().all(|known| known.0 != row.0), "{class}: {} is there twice", row.0);
        rows.push(row);
    }
    let count: usize = classes.values().map(Vec::len).sum();
    let mut table = format!("{count} attacks.\n\n| class | what is tried | test |\n|---|---|---|\n");
    for class in CLASSES {
        for (name, test) in &classes[class] {
            let _ = writeln!(table, "| {class} | {name} | {test} |");
        }
    }
    let counts: Vec<String> = CLASSES.iter().map(|class| format!("{class} {}", classes[class].len())).collect();
    println!("{count} attacks: {}", counts.join(", "));
    assert!(classes.values().all(|rows| rows.len() >= CLASS_MIN), "a class is too small: {counts:?}");
    assert!(count >= ROWS_MIN, "{count} attacks are left");
    let page = workspace().join("docs/attacks.md");
    let text = std::fs::read_to_string(&page).expect("docs/attacks.md");
    let (before, rest) = text.split_once(BEGIN).expect("where the list begins");
    let (listed, after) = rest.split_once(END).expect("where the list ends");
    if std::env::var_os("QANAT_UPDATE").is_some() {
        return std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).expect("written");
    }
    assert!(listed == table, "docs/attacks.md has another list: run with QANAT_UPDATE=1");
}
