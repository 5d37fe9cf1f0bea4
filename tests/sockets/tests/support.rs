//! The table of what is supported, in `docs/posix.md`, is the library's own: what the command prints, what the library
//! exports, and what it looks at, agree.
#![forbid(unsafe_code)]

use object::{Object, ObjectSymbol};
use qanat_tests::e2e::{Program, qanat, workspace};
use std::collections::BTreeSet;

const BEGIN: &str = "<!-- made by `qanat run --support`: `make posix-table` -->\n";
const END: &str = "<!-- end -->\n";
/// Set: the document is written anew.
const UPDATE: &str = "QANAT_UPDATE";

fn printed() -> String {
    Program::new(qanat()).arguments(["run", "--support"]).succeeds().text()
}

/// What stands between backquotes in the first column of lines that say `support`, up to the first empty line.
fn names(text: &str, title: &str, support: &str) -> BTreeSet<String> {
    let part = text.split(&format!("| {title} |")).nth(1).expect("the table").split("\n\n").next().unwrap_or_default();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows = rows.filter(|(_, rest)| rest.starts_with(support));
    rows.flat_map(|(first, _)| first.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_document_has_the_table() {
    let path = workspace().join("docs/posix.md");
    let document = std::fs::read_to_string(&path).expect("docs/posix.md");
    let (before, rest) = document.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where it ends");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", printed());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &wanted).expect("docs/posix.md");
    } else {
        assert!(
            document == wanted,
            "docs/posix.md is not what `qanat run --support` prints: `make posix-table` writes it"
        );
    }
}

#[test]
fn what_the_library_exports_is_in_the_table() {
    let bytes = std::fs::read(qanat().with_file_name("libqanat_posix.so")).expect("the library beside the command");
    let file = object::File::parse(&*bytes).expect("a library");
    let exported: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        // Where the dynamic linker begins when it runs the library as the keeper: no function of the C library's.
        .filter(|name| name != "qanat_helper")
        .collect();
    assert_eq!(exported, names(&printed(), "calls", "supported"));
}

#[test]
fn what_is_supported_is_looked_at() {
    let source = std::fs::read_to_string(workspace().join("crates/posix/src/calls/options.rs")).expect("the source");
    let part =
        |start: &str| source.split(start).nth(1).and_then(|rest| rest.split("\n}\n").next()).expect("a function");
    let named = |part: &str| -> BTreeSet<String> {
        let words =
            part.split(|letter: char| !(letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_'));
        let prefixes = ["SO_", "TCP_", "UDP_", "IP_", "IPV6_"];
        words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))).map(str::to_owned).collect()
    };
    let looked_at = named(part("\nfn read("));
    let supported = names(&printed(), "options", "supported");
    let missing: Vec<_> = supported.difference(&looked_at).collect();
    assert!(missing.is_empty(), "said to be supported, but nothing is done about them: {missing:?}");
    // What it asks the kernel by, and values of options.
    let others = ["SO_BUF_LOCK", "IP_PMTUDISC_DO", "IP_PMTUDISC_PROBE"].map(str::to_owned);
    let unsaid: Vec<_> = looked_at.difference(&supported).filter(|name| !others.contains(name)).collect();
    assert!(unsaid.is_empty(), "looked at, but not said to be supported: {unsaid:?}");
    let answered = named(part("unsafe extern \"C\" fn getsockopt("));
    let said = names(&printed(), "options", "answered");
    assert!(said.is_subset(&answered), "said to be answered, but are not: {:?}", said.difference(&answered));
}
