//! A veth device whose other end is another machine, as far as the kernel is concerned.

use super::program::{Program, Running};
use qanat_nic::link::Namespace;
use serde_json::Value;

/// Two namespaces and the wire between them:
///
/// ```text
///   the test's namespace                          another
///   e2e-near 10.78.9.1/24 ════════ veth ════════ e2e-far 10.78.9.2/24
/// ```
#[derive(Debug)]
pub struct Wire {
    other: Namespace,
    _keeper: Running,
}

fn ip(line: &str) {
    Program::new("ip").arguments(line.split_whitespace()).succeeds();
}

impl Wire {
    /// Interface in the test's namespace.
    pub const NEAR: &str = "e2e-near";
    /// Its address.
    pub const NEAR_ADDRESS: &str = "10.78.9.1";
    /// Address of the other end.
    pub const FAR_ADDRESS: &str = "10.78.9.2";

    /// Makes it.
    ///
    /// # Panics
    /// It can't be made.
    #[expect(clippy::new_without_default, reason = "it makes devices")]
    pub fn new() -> Wire {
        let other = Namespace::anonymous().expect("a second namespace");
        // The kernel names a namespace by a process in it.
        let keeper = other.within(|| Program::new("sleep").arguments(["300"]).start()).expect("entering it");
        ip("link add e2e-near type veth peer name e2e-far");
        ip(&format!("link set e2e-far netns {}", keeper.id()));
        ip("address add 10.78.9.1/24 dev e2e-near");
        ip("link set e2e-near up");
        let wire = Wire { other, _keeper: keeper };
        wire.far(|| {
            ip("link set lo up");
            ip("address add 10.78.9.2/24 dev e2e-far");
            ip("link set e2e-far up");
        });
        wire
    }

    /// Does something at the other end: programs and sockets started there stay there.
    ///
    /// # Panics
    /// It can't be entered, or `work` panics.
    pub fn far<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.other.within(work).expect("work at the far end")
    }
}

/// What `ip link` shows in the calling thread's namespace.
///
/// # Panics
/// `ip` fails.
pub fn links() -> Vec<Value> {
    let text = Program::new("ip").arguments(["-j", "-d", "link"]).succeeds().text();
    match serde_json::from_str(&text) {
        Ok(Value::Array(links)) => links,
        other => panic!("{other:?}: {text}"),
    }
}
