//! The header in `include/` is what the crate says, and the list of versioned symbols has each of its functions.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The header, as cbindgen writes it of the crate's text.
fn made() -> String {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).expect("a configuration");
    let mut sources = vec!["address", "event", "lent", "status"].into_iter().map(|name| format!("src/{name}.rs"));
    let calls = ["texts", "options", "run", "connections", "datagrams", "memory", "areas", "guard"];
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources.by_ref().chain(calls.into_iter().map(|name| format!("src/calls/{name}.rs"))) {
        builder = builder.with_src(here(&source));
    }
    let mut written = Vec::new();
    builder.generate().expect("a header").write(&mut written);
    // What a program writes most often is short.
    String::from_utf8(written)
        .expect("a text")
        .replace("QANAT_EVENT_KIND_", "QANAT_EVENT_")
        .replace("QANAT_STATUS_CODE_", "QANAT_STATUS_")
}

#[test]
fn the_header_is_what_the_crate_says() {
    let (path, made) = (here("include/qanat-native.h"), made());
    if std::env::var_os("QANAT_UPDATE").is_some() {
        std::fs::write(&path, &made).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("a header");
    assert!(kept == made, "include/qanat-native.h is not what the crate says: run this with QANAT_UPDATE=1");
}

/// Words that a line of the header declares as functions.
fn functions(header: &str) -> BTreeSet<String> {
    let words =
        header.lines().filter(|line| !line.starts_with("//")).flat_map(|line| line.split(['(', ')', ' ', '*', ';']));
    let named = words.filter(|word| word.starts_with("qanat_") && header.contains(&format!("{word}(")));
    named.map(str::to_owned).collect()
}

#[test]
fn each_function_has_a_version() {
    let map = std::fs::read_to_string(here("qanat-native.map")).expect("a list of symbols");
    let listed = map.lines().map(str::trim).filter_map(|line| line.strip_suffix(';'));
    let listed: BTreeSet<String> = listed.filter(|line| line.starts_with("qanat_")).map(str::to_owned).collect();
    let declared = functions(&made());
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(declared, listed, "qanat-native.map has other functions than the header");
}
