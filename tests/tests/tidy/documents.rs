//! Nothing is left for later, and what is written for people speaks of what is there.

use super::repository::sources;
use qanat_tests::e2e::workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that put something off, from 1.
fn left_for_later(text: &str) -> Vec<usize> {
    // In pieces, so that this file does not contain what it looks for.
    let marks = [["FIX", "ME"], ["TO", "DO"], ["XX", "X"]].map(|[first, rest]| format!("{first}{rest}"));
    let macros = ["to", "unimpl"].map(|start| format!("{start}{}", if start == "to" { "do!(" } else { "emented!(" }));
    let puts_off = |line: &str| {
        let mut words = line.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        words.any(|word| marks.iter().any(|mark| mark == word))
            || macros.iter().any(|name| line.contains(name.as_str()))
    };
    text.lines().enumerate().filter(|(_, line)| puts_off(line)).map(|(number, _)| number + 1).collect()
}

#[test]
fn nothing_is_left_for_later() {
    let mut found = Vec::new();
    for (file, text) in sources() {
        found.extend(left_for_later(&text).into_iter().map(|line| format!("{}:{line}", file.display())));
    }
    assert!(found.is_empty(), "do these now, or write an issue: {found:#?}");
}

/// What is written for people.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut documents =
        ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(PathBuf::from).to_vec();
    for folder in ["docs", "docs/design", "docs/guide"] {
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

/// Links of a document in `folder`, and paths that it names, that lead nowhere.
fn broken(root: &Path, folder: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let target = link.split('#').next().unwrap_or_default();
        let outside = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
        if !outside && !root.join(folder).join(target).exists() {
            broken.push(link.to_owned());
        }
    }
    broken.extend(paths_named(text).filter(|path| !root.join(path).exists()).map(|path| format!("`{path}`")));
    broken
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
    let mut wrong = Vec::new();
    for document in documents(&root) {
        let Ok(text) = fs::read_to_string(root.join(&document)) else {
            wrong.push(format!("{} is missing", document.display()));
            continue;
        };
        let found = broken(&root, document.parent().unwrap_or(Path::new("")), &text);
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", document.display())));
    }
    assert!(wrong.is_empty(), "links to nowhere: {wrong:#?}");
}

#[test]
fn both_are_found() {
    let mark = ["TO", "DO"].concat();
    let text = format!("let a = 1;\n// {mark}: later\n    {}!()\nlet {mark}S = 2;\n", ["to", "do"].concat());
    assert_eq!(left_for_later(&text), [2, 3]);

    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(directory.path().join("docs")).expect("a folder");
    fs::write(directory.path().join("docs/there.md"), "").expect("a file");
    let text = "[a](there.md#part) [b](gone.md) [c](https://example.org) [d](#here)\n`docs/there.md` `docs/{a,b}.md` `docs/gone.md`\n";
    assert_eq!(broken(directory.path(), Path::new("docs"), text), ["gone.md", "`docs/gone.md`"]);
}
