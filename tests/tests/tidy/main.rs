//! The house rules, checked on the text of the code: what crates may use, where `unsafe` may be, how long files and
//! functions may get, that nothing is left for later, that the README speaks of this version. No root needed.
#![forbid(unsafe_code)]

mod rooms;

use qanat_tests::e2e::workspace;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up: a crate may use those of earlier rows, and of its own row none.
const LAYERS: [&[&str]; 12] = [
    &["qanat-wire", "qanat-launch"],
    &["qanat-nic"],
    &["qanat-api", "qanat-disk"],
    &["qanat-abi"],
    &["qanat-stack"],
    &["qanat-store", "qanat-control"],
    &["qanat", "qanat-daemon"],
    &[
        "qanat-web",
        "qanat-delay",
        "qanat-dns",
        "qanat-video",
        "qanat-cache",
        "qanat-kv",
        "qanat-balancer",
        "qanat-echo",
        "qanat-examples",
    ],
    &["qanat-posix", "qanat-bench"],
    &["qanat-packetdrill", "qanat-cli"],
    &["qanat-tests", "qanat-fuzz"],
    &["qanat-socket-cases"],
];
/// Crates in which `unsafe` may be.
const UNSAFE: [&str; 5] = ["qanat-nic", "qanat-abi", "qanat-disk", "qanat-posix", "qanat-packetdrill"];
/// The one test program that calls the C library as C programs do, and its one module in which `unsafe` may be.
const UNSAFE_TEST: &str = "qanat-socket-cases";
const UNSAFE_TEST_MODULE: &str = "tests/sockets/src/sys";
const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 100;

struct Package {
    name: String,
    directory: PathBuf,
    manifest: String,
}

fn packages() -> Vec<Package> {
    let root = workspace();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("its members").0;
    let packages: Vec<Package> = members
        .split('"')
        .skip(1)
        .step_by(2)
        .map(|member| {
            let directory = root.join(member);
            let manifest = fs::read_to_string(directory.join("Cargo.toml")).expect("a member's manifest");
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")).expect("a package name");
            Package { name: name.trim_end_matches('"').to_owned(), directory, manifest }
        })
        .collect();
    assert!(packages.len() >= 8, "the workspace has members");
    packages
}

/// Our crates that a manifest names, except for tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if section.ends_with("dependencies]")
            && section != "[dev-dependencies]"
            && (name == "qanat" || name.starts_with("qanat-"))
        {
            found.push(name.to_owned());
        }
    }
    found
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Every Rust file of the checkout, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let root = workspace();
    let mut sources = Vec::new();
    for top in ["crates", "services", "bench", "examples", "tests", "fuzz"] {
        for file in rust_files(&root.join(top)) {
            let text = fs::read_to_string(&file).expect("readable source");
            sources.push((file.strip_prefix(&root).map(Path::to_owned).unwrap_or(file), text));
        }
    }
    assert!(sources.len() > 50, "the sources are there");
    sources
}

fn is_test(file: &Path) -> bool {
    file.starts_with("tests")
        || file.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs") || part == "testing.rs"
        })
}

#[test]
fn crates_use_only_crates_below_them() {
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(height, names)| names.iter().map(move |name| (*name, height))).collect();
    let mut wrong = Vec::new();
    for package in packages() {
        let Some(height) = layer.get(package.name.as_str()) else {
            wrong.push(format!("{} has no layer: give it one in tests/tests/tidy/main.rs", package.name));
            continue;
        };
        for dependency in dependencies(&package.manifest) {
            if layer.get(dependency.as_str()).is_none_or(|below| below >= height) {
                wrong.push(format!("{} may not use {dependency}", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let mut wrong = Vec::new();
    for package in packages() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| package.directory.join(root));
        for root in roots.iter().filter(|root| root.exists()) {
            let text = fs::read_to_string(root).expect("a crate's root");
            let forbidden = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
            let denied = text.lines().any(|line| line == "#![deny(unsafe_code)]");
            let is_that_test = package.name == UNSAFE_TEST && denied;
            if !forbidden && !is_that_test && !UNSAFE.contains(&package.name.as_str()) {
                wrong.push(format!("{}: write #![forbid(unsafe_code)]", root.display()));
            }
        }
    }
    let word = ["un", "safe"].concat();
    for (file, text) in sources().iter().filter(|(file, _)| file.starts_with("tests/sockets/src")) {
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let has_some = text.lines().filter(is_code).any(|line| line.split([' ', '(']).any(|part| part == word));
        if has_some && !file.with_extension("").starts_with(UNSAFE_TEST_MODULE) {
            wrong.push(format!("{}: put it into {UNSAFE_TEST_MODULE}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A test program that no target of the Makefile names would never be run.
#[test]
fn every_test_program_is_run() {
    let makefile = fs::read_to_string(workspace().join("Makefile")).expect("the Makefile");
    let makefile = makefile.replace("\\\n", " ");
    let list = |name: &str| -> Vec<String> {
        let prefix = format!("{name} := ");
        let line = makefile.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let mut listed = [list("UNIT_TESTS"), list("SYSTEM_TESTS"), vec!["fuzz-bounded".to_owned()]].concat();
    listed.sort();
    let mut there: Vec<String> = Vec::new();
    for package in packages() {
        for entry in fs::read_dir(package.directory.join("tests")).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_program = path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").exists();
            there.extend(path.file_stem().filter(|_| is_program).map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    there.sort();
    assert_eq!(there, listed, "left: what there is; right: what `make test` runs");
}

#[test]
fn files_are_short() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(file, text)| !is_test(file) && text.lines().count() > FILE_LINES_MAX)
        .map(|(file, text)| format!("{}: {} lines", file.display(), text.lines().count()))
        .collect();
    assert!(long.is_empty(), "split these (at most {FILE_LINES_MAX} lines): {long:#?}");
}

/// Functions longer than the limit, by rustfmt's layout: from the line with `fn` to the closing brace of the same
/// indent.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut long = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<&str> = code.split(['(', '<']).next().unwrap_or_default().split_whitespace().collect();
        let is_function = words.iter().rev().nth(1) == Some(&"fn") && !code.starts_with("//");
        if !is_function || code.ends_with(';') || code.ends_with('}') {
            continue;
        }
        let closes = |other: &str| other.trim_start() == "}" && indent(other) == indent(line);
        if let Some(length) = lines.iter().skip(start).position(|other| closes(other))
            && length + 1 > FUNCTION_LINES_MAX
        {
            long.push((start + 1, length + 1));
        }
    }
    long
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for (file, text) in sources().iter().filter(|(file, _)| !is_test(file)) {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (line, length) in long_functions(code) {
            long.push(format!("{}:{line}: {length} lines", file.display()));
        }
    }
    assert!(long.is_empty(), "split these (at most {FUNCTION_LINES_MAX} lines): {long:#?}");
    // The ruler itself.
    let body = "    x();\n".repeat(FUNCTION_LINES_MAX);
    assert_eq!(long_functions(&format!("fn a() {{\n}}\n\npub fn b(x: u8) {{\n{body}}}\n")).len(), 1);
}

#[test]
fn nothing_is_left_for_later() {
    // In pieces, so that this file does not contain what it looks for.
    let marks = [["FIX", "ME"], ["TO", "DO"], ["XX", "X"]].map(|[first, rest]| format!("{first}{rest}"));
    let macros = ["to", "unimpl"].map(|start| format!("{start}{}", if start == "to" { "do!(" } else { "emented!(" }));
    let mut found = Vec::new();
    for (file, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let marked = line
                .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
                .any(|word| marks.iter().any(|mark| mark == word));
            if marked || macros.iter().any(|name| line.contains(name.as_str())) {
                found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "do these now, or write an issue: {found:#?}");
}

/// What is written for people.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut documents = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from).to_vec();
    for folder in ["docs", "docs/design"] {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "md") {
                documents.push(Path::new(folder).join(entry.file_name()));
            }
        }
    }
    documents
}

/// Files and folders of this repository that `text` names as code, from the root on. Patterns and abbreviations are not among them.
fn paths_named(text: &str) -> impl Iterator<Item = &str> {
    const ROOTS: [&str; 8] = ["crates/", "services/", "bench/", "tests/", "docs/", "packaging/", "tools/", "fuzz/"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(move |word| ROOTS.iter().any(|root| word.starts_with(root)) && word.chars().all(is_plain))
}

#[test]
fn the_documents_speak_of_this_version_and_of_files_that_exist() {
    let root = workspace();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")).expect("a version");
    let version = version.trim_end_matches('"');
    for name in ["README.md", "CHANGELOG.md"] {
        let text = fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(version), "{name} should speak of version {version}");
    }
    let mut broken = Vec::new();
    for document in documents(&root) {
        let Ok(text) = fs::read_to_string(root.join(&document)) else {
            broken.push(format!("{} is missing", document.display()));
            continue;
        };
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let outside = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            let base = root.join(document.parent().unwrap_or(Path::new("")));
            if !outside && !base.join(target).exists() {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
        for path in paths_named(&text).filter(|path| !root.join(path).exists()) {
            broken.push(format!("{}: `{path}`", document.display()));
        }
    }
    assert!(broken.is_empty(), "links to nowhere: {broken:#?}");
}
