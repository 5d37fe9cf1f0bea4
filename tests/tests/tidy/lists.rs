//! Lists of what breaks a rule today. A list may only shrink: what is not in it is an error, and what is in it although the rule is
//! kept is one as well. `QANAT_UPDATE=1` takes the latter away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Names, each with how often it breaks the rule.
pub(super) type Counts = BTreeMap<String, usize>;

/// How a list differs from what is found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Found more often than listed.
    new: Vec<String>,
    /// Listed more often than found.
    gone: Vec<String>,
}

fn difference(listed: &Counts, found: &Counts) -> Difference {
    let mut difference = Difference::default();
    let names: BTreeSet<&String> = listed.keys().chain(found.keys()).collect();
    for name in names {
        let count = |counts: &Counts| counts.get(name).copied().unwrap_or(0);
        let (before, now) = (count(listed), count(found));
        let line = format!("{name}: {now}, listed {before}");
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => difference.new.push(line),
            std::cmp::Ordering::Less => difference.gone.push(line),
            std::cmp::Ordering::Equal => {}
        }
    }
    difference
}

/// The list with everything taken away that is not found any more. Nothing is added.
fn shrunk(listed: &Counts, found: &Counts) -> Counts {
    let left = |(name, before): (&String, &usize)| {
        let now = found.get(name).copied().unwrap_or(0).min(*before);
        (now > 0).then(|| (name.clone(), now))
    };
    listed.iter().filter_map(left).collect()
}

/// Lines of a name, or of a name and a count after a space.
fn parse(text: &str) -> Counts {
    let line = |line: &str| match line.rsplit_once(' ') {
        Some((name, count)) => (name.to_owned(), count.parse().unwrap_or_else(|_| panic!("no count: {line}"))),
        None => (line.to_owned(), 1),
    };
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(line).collect()
}

fn write(head: &str, counts: &Counts, has_counts: bool) -> String {
    let line =
        |(name, count): (&String, &usize)| if has_counts { format!("{name} {count}\n") } else { format!("{name}\n") };
    format!(
        "# {head} `QANAT_UPDATE=1` takes those away that do not any more.\n{}",
        counts.iter().map(line).collect::<String>()
    )
}

/// Compares what is found with the list in `file`, which begins with `head`.
///
/// # Panics
/// They differ, or the file can't be read or written.
pub(super) fn check(file: &Path, head: &str, found: &Counts, has_counts: bool) {
    let mut listed = listed(file);
    if std::env::var_os("QANAT_UPDATE").is_some() {
        listed = shrunk(&listed, found);
        fs::write(file, write(head, &listed, has_counts)).expect("the list");
    }
    let Difference { new, gone } = difference(&listed, found);
    assert!(new.is_empty(), "{head} These are new: {new:#?}");
    assert!(gone.is_empty(), "{head} These do not any more, so take them from {}: {gone:#?}", file.display());
}

/// Lines that are found and not listed, and the other way round.
pub(super) fn added_and_gone(listed: &BTreeSet<String>, found: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    (found.difference(listed).cloned().collect(), listed.difference(found).cloned().collect())
}

/// What is listed in `file`.
pub(super) fn listed(file: &Path) -> Counts {
    parse(&fs::read_to_string(file).expect("the list"))
}

#[test]
fn a_list_only_shrinks() {
    let counts = |text: &str| parse(text);
    let (listed, found) = (counts("# head\na 3\nb 1\nc 2\n"), counts("a 2\nc 3\nd 1\n"));
    let Difference { new, gone } = difference(&listed, &found);
    assert_eq!(new, ["c: 3, listed 2", "d: 1, listed 0"]);
    assert_eq!(gone, ["a: 2, listed 3", "b: 0, listed 1"]);
    assert_eq!(shrunk(&listed, &found), counts("a 2\nc 2\n"), "nothing is added");
    assert_eq!(difference(&listed, &listed), Difference::default());
    let names = counts("x/y.rs\nz.rs\n");
    assert_eq!(write("Head.", &names, false).lines().skip(1).collect::<Vec<_>>(), ["x/y.rs", "z.rs"]);
    assert_eq!(parse(&write("Head.", &listed, true)), listed);
}
