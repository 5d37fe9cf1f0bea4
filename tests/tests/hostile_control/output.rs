//! Standard output that nobody reads, or that can't be written: no command panics.

use super::cards::{Control, wish};
use qanat_tests::e2e::{qanat, scenario};
use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

/// Commands that print, and need no more than a daemon.
const COMMANDS: [&[&str]; 14] = [
    &["--help"],
    &["--version"],
    &["hello"],
    &["hello", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["bench", "--list"],
    &["run", "--support"],
    &["status"],
    &["status", "--json"],
    &["status", "--prometheus"],
    &["vnic", "list"],
    &["filter", "list"],
    &["limits"],
];

fn said(control: &Control, words: &[&str], stdout: Stdio) -> Output {
    let mut command = Command::new(qanat());
    command.args(words).env("QANAT_SOCKET", &control.socket).stdin(Stdio::null());
    command.stdout(stdout).stderr(Stdio::piped()).output().expect("the command runs")
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    scenario(|| {
        let control = Control::generous();
        let _card = control.session().create_vnic(wish(2, &["udp/7"])).expect("a VNIC");
        for words in COMMANDS {
            let whole = said(&control, words, Stdio::piped());
            let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
            drop(reader);
            let alone = said(&control, words, Stdio::from(writer));
            let errors = String::from_utf8_lossy(&alone.stderr);
            assert!(!whole.stdout.is_empty(), "{words:?} prints nothing");
            assert_eq!(
                (alone.status.code(), errors.contains("panicked")),
                (whole.status.code(), false),
                "{words:?}: {errors}"
            );
        }
    });
}

#[test]
fn output_that_cannot_be_written_is_told() {
    scenario(|| {
        let control = Control::generous();
        for words in [&["status", "--json"][..], &["bench", "--list"], &["limits"]] {
            let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
            let failed = said(&control, words, Stdio::from(full));
            let errors = String::from_utf8_lossy(&failed.stderr);
            assert_eq!(failed.status.code(), Some(1), "{words:?}: {errors}");
            assert!(errors.contains("write to standard output") && !errors.contains("panicked"), "{words:?}: {errors}");
        }
    });
}
