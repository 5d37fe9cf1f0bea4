//! Puts the version into the binary, with the commit that it was built from.

use std::process::Command;

/// What any change of which makes another program, from this package's directory.
const SOURCES: [&str; 3] = ["..", "../../bench", "../../services"];

fn main() {
    // A package is built from an archive, where there is no repository: its maker names the commit.
    println!("cargo:rerun-if-env-changed=QANAT_COMMIT");
    let named = std::env::var("QANAT_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(|| git(&["describe", "--always", "--dirty", "--abbrev=10"]));
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        Some(commit) => println!("cargo:rustc-env=QANAT_VERSION={version} ({commit})"),
        None => println!("cargo:rustc-env=QANAT_VERSION={version}"),
    }
    SOURCES.iter().for_each(|source| println!("cargo:rerun-if-changed={source}"));
    // It grows with each commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
}

/// What git says of this repository, if there is one and git.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
