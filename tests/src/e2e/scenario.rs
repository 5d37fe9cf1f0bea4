//! Where a system test runs: as root, one at a time, in a network namespace that dies with it.

use super::program::Program;
use qanat_nic::link::Namespace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Scenarios run one at a time, because they measure time and the machine has few cores.
static TURN: Mutex<()> = Mutex::new(());

/// Whether this process may make network namespaces and devices.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that this test is not run, and why.
fn skipped(why: &str, remedy: &str) {
    let name = std::thread::current().name().unwrap_or("a system test").to_owned();
    // Past libtest's capture: a run in which nothing ran must not look like one in which all went well.
    let text = format!("\nSKIPPED ({why}): {name}{remedy}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

/// A [`scenario`] that takes so many processors. Skips, and says so, where there are fewer.
///
/// # Panics
/// As `scenario` does.
pub fn scenario_on(processors: usize, test: impl FnOnce() + Send) {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    if count < processors {
        return skipped(&format!("needs {processors} processors, has {count}"), "");
    }
    scenario(test);
}

/// Runs `test` in a fresh network namespace whose loopback is up: every program and socket made there is in it, and
/// none of its traffic can meet anyone else's. Skips, and says so, without root.
///
/// # Panics
/// As `test` does; without root if `QANAT_REQUIRE_ROOT` is set.
pub fn scenario(test: impl FnOnce() + Send) {
    if !is_root() {
        skipped("needs root", ": run `sudo make test-system`");
        assert!(std::env::var_os("QANAT_REQUIRE_ROOT").is_none(), "QANAT_REQUIRE_ROOT is set, and this is not root");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let namespace = Namespace::anonymous().expect("a network namespace of the test's own");
    let inside = || {
        Program::new("ip").arguments(["link", "set", "lo", "up"]).succeeds();
        catch_unwind(AssertUnwindSafe(test))
    };
    let outcome = namespace.within(inside).expect("entering the test's network namespace");
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}
