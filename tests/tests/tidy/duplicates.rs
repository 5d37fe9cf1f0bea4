//! What is written twice: ten lines and more that two files have in common. The pairs of files are listed, and the list may only
//! shrink. Tests may repeat themselves, since each is to be read alone.

use super::lists::{Counts, check};
use super::repository::{is_test, sources};
use qanat_tests::e2e::workspace;
use std::collections::HashMap;

/// Lines in common that count as one mechanism written twice.
const LINES: usize = 10;
/// How many of them have to say more than that a block ends.
const LINES_THAT_SAY_SOMETHING: usize = 6;
/// More places with the same lines are a pattern of the language.
const PLACES_MAX: usize = 20;

/// A file's lines of code, without indentation, comments, attributes and imports. Tests at its end are left out.
fn code(text: &str) -> Vec<&str> {
    let text = text.split_once("\n#[cfg(test)]\nmod tests {").map_or(text, |(before, _)| before);
    let is_code =
        |line: &&str| !line.is_empty() && !["//", "use ", "#["].iter().any(|beginning| line.starts_with(beginning));
    text.lines().map(str::trim).filter(is_code).collect()
}

fn says_something(window: &[&str]) -> bool {
    window.iter().filter(|line| line.len() > 3).count() >= LINES_THAT_SAY_SOMETHING
}

/// Pairs of files, each with how many passages both have. A passage counts once, however long it is.
fn pairs(files: &[(String, Vec<&str>)]) -> Counts {
    let mut places: HashMap<&[&str], Vec<(usize, usize)>> = HashMap::new();
    for (number, (_, lines)) in files.iter().enumerate() {
        for (start, window) in lines.windows(LINES).enumerate() {
            if says_something(window) {
                places.entry(window).or_default().push((number, start));
            }
        }
    }
    let mut counts = Counts::new();
    for places in places.values().filter(|places| (2..=PLACES_MAX).contains(&places.len())) {
        for (index, (first, here)) in places.iter().enumerate() {
            for (second, there) in places.iter().skip(index + 1) {
                // It goes on from passages a line before, which count.
                let before = |file: usize, at: usize| files[file].1.get(at.checked_sub(1)?..at.checked_sub(1)? + LINES);
                let goes_on = before(*first, *here)
                    .is_some_and(|window| says_something(window) && Some(window) == before(*second, *there));
                if first != second && !goes_on {
                    *counts.entry(format!("{} {}", files[*first].0, files[*second].0)).or_default() += 1;
                }
            }
        }
    }
    counts
}

#[test]
fn no_mechanism_is_written_twice() {
    let sources = sources();
    let files: Vec<(String, Vec<&str>)> = sources
        .iter()
        .filter(|(file, _)| !is_test(file))
        .map(|(file, text)| (file.display().to_string(), code(text)))
        .collect();
    let list = workspace().join("tests/tests/tidy/duplicates.txt");
    let head = "Pairs of files with ten lines and more in common, and how many such passages.";
    check(&list, head, &pairs(&files), true);
}

#[test]
fn passages_are_found_and_counted_once() {
    let passage: String = (0..14).map(|number| format!("    statement_{number}();\n")).collect();
    let one = format!("use a::b;\nfn one() {{\n{passage}}}\n");
    let other = format!("fn other() {{\n    // A comment.\n{}\n}}\n", passage.replace("    ", "        "));
    let short = format!("fn short() {{\n{}}}\n", passage.lines().take(9).collect::<Vec<_>>().join("\n"));
    let tests = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{passage}}}\n");
    let ends = "fn g() {\n".to_owned() + &"}\n".repeat(12);
    let files: Vec<(String, Vec<&str>)> = [&one, &other, &short, &tests, &ends, &ends]
        .iter()
        .enumerate()
        .map(|(number, text)| (number.to_string(), code(text)))
        .collect();
    assert_eq!(pairs(&files), Counts::from([("0 1".to_owned(), 1)]));
    // Another line between them makes two.
    let apart = format!("{passage}between_them();\n{passage}");
    let twice: Vec<(String, Vec<&str>)> = vec![("a".to_owned(), code(&apart)), ("b".to_owned(), code(&passage))];
    assert_eq!(pairs(&twice), Counts::from([("a b".to_owned(), 2)]));
}
