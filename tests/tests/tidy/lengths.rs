//! How long files and functions may get.

use super::repository::{is_test, sources};
use super::{FILE_LINES_MAX, FUNCTION_LINES_MAX};

fn is_long(text: &str) -> bool {
    text.lines().count() > FILE_LINES_MAX
}

#[test]
fn files_are_short() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(file, text)| !is_test(file) && is_long(text))
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
}

#[test]
fn both_are_found() {
    assert!(is_long(&"\n".repeat(FILE_LINES_MAX + 1)) && !is_long(&"\n".repeat(FILE_LINES_MAX)));
    let body = "    x();\n".repeat(FUNCTION_LINES_MAX);
    assert_eq!(long_functions(&format!("fn a() {{\n}}\n\npub fn b(x: u8) {{\n{body}}}\n")).len(), 1);
}
