//! A machine whose name service does not answer.

use super::cards::Control;
use qanat_tests::e2e::{Program, qanat_for_anybody, scenario};
use std::path::Path;
use std::time::Duration;

/// A file of groups that nobody can read until somebody writes it: each look-up hangs.
fn hanging_groups(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("group");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o644)).expect("a FIFO");
    path
}

/// `qanat limits` of a user.
fn limits(control: &Control, command: &Path, user: &str) -> Program {
    let identity = ["--reuid", user, "--regid", "65534", "--clear-groups"];
    let program = Program::new("setpriv").arguments(identity).arguments([command]).arguments(["limits"]);
    program.environment("QANAT_SOCKET", &control.socket)
}

// Attack: time and cost: a name service that does not answer
#[test]
fn a_name_service_that_hangs_keeps_back_only_who_needs_it() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let command = qanat_for_anybody(directory.path());
        let groups = hanging_groups(directory.path());
        let rules = "[[rule]]\nname = \"ours\"\nusers = [\"root\"]\n[[rule]]\nname = \"by name\"\ngroups = [\"members\"]\nvnics = 7\n";
        let control = Control::with_groups(groups, rules);
        let waiting = limits(&control, &command, "nobody").start();
        // While somebody waits for a name, the daemon serves.
        for _ in 0..100 {
            control.session().status().expect("root is served");
        }
        let outcome = waiting.wait(Duration::from_secs(60));
        assert_eq!(outcome.code, Some(1), "nobody waits for ever: {}", outcome.stderr);
        assert!(outcome.stderr.contains("name service does not answer"), "{}", outcome.stderr);
    });
}

#[test]
fn a_policy_without_names_needs_no_name_service() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let command = qanat_for_anybody(directory.path());
        let rules = "[[rule]]\nname = \"by number\"\nusers = [\"root\", \"1001\"]\ngroups = [\"65534\"]\nvnics = 7\n";
        let control = Control::with_groups(hanging_groups(directory.path()), rules);
        limits(&control, &command, "1001").succeeds();
        limits(&control, &command, "nobody").succeeds();
    });
}
