//! The repository as text: its packages, and their Rust files.

use qanat_tests::e2e::workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// A member of the workspace.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) manifest: String,
}

impl Package {
    /// Its name in code.
    pub(super) fn identifier(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// All members of the workspace.
pub(super) fn packages() -> Vec<Package> {
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

/// The package that a file belongs to: of those around it, the innermost.
pub(super) fn package_of<'a>(packages: &'a [Package], file: &Path) -> Option<&'a Package> {
    let around = packages.iter().filter(|package| file.starts_with(&package.directory));
    around.max_by_key(|package| package.directory.components().count())
}

/// Rust files below a directory.
pub(super) fn rust_files(directory: &Path) -> Vec<PathBuf> {
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

/// Every Rust file of the checkout, by its path from the root, with its text.
pub(super) fn sources() -> Vec<(PathBuf, String)> {
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

/// Whether a file is there for tests only. Its path is from the repository's root, or from its package's.
pub(super) fn is_test(file: &Path) -> bool {
    file.starts_with("tests")
        || file.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs") || part == "testing.rs"
        })
}

/// Whether an item is compiled for tests only.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().starts_with("test"))
    })
}

/// The code of a Rust file.
pub(super) fn parsed(file: &Path, text: &str) -> syn::File {
    syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn tests_are_known_by_their_place() {
    for file in ["tests/src/e2e/mod.rs", "crates/a/tests/b.rs", "src/a/tests.rs", "src/a_tests.rs", "src/testing.rs"] {
        assert!(is_test(Path::new(file)), "{file}");
    }
    for file in ["src/a.rs", "crates/a/src/testsuite.rs", "src/contests/a.rs"] {
        assert!(!is_test(Path::new(file)), "{file}");
    }
    let package =
        |directory: &str| Package { name: directory.to_owned(), directory: directory.into(), manifest: String::new() };
    let packages = [package("/r/tests"), package("/r/tests/sockets"), package("/r/bench")];
    let of = |file: &str| package_of(&packages, Path::new(file)).map(|package| package.name.as_str());
    assert_eq!(of("/r/tests/sockets/src/main.rs"), Some("/r/tests/sockets"));
    assert_eq!((of("/r/tests/src/lib.rs"), of("/r/other/src/lib.rs")), (Some("/r/tests"), None));
}
