//! Programs of the virtual machine.

use std::process::Command;

/// Runs a program; what it printed.
///
/// # Panics
/// It fails.
pub fn run(words: &str) -> String {
    let mut words_of = words.split_whitespace();
    let mut command = Command::new(words_of.next().expect("a program"));
    let output = command.args(words_of).output().unwrap_or_else(|error| panic!("{words}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {}\n{text}{errors}", output.status);
    text
}
