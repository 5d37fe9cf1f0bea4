//! A daemon in the machine, as its administrator has it.

use crate::kernel::within;
use crate::program::{Started, output_of, run};
use qanat_control::client::Session;
use std::path::PathBuf;
use std::time::Duration;

/// How long it may take to start.
const START: Duration = Duration::from_secs(300);
/// Where the daemon listens.
pub const SOCKET: &str = "/tmp/control.sock";
/// What root may have. What comes before rules goes before it.
const HEAD: &str = "socket = \"/tmp/control.sock\"\ndisk_records = \"/tmp/disks\"\n";
const RULE: &str = "[[rule]]\nname = \"root\"\nusers = [\"root\"]\ndisks = [\"*\"]\nareas = 8\narea_mib = 64\ntrusted = true\n\
                    addresses = [\"10.9.0.0/24\", \"10.10.0.0/24\"]\nservices = [\"any\"]\n";

/// A daemon, which ends with this.
pub struct House {
    daemon: Started,
}

impl House {
    /// `more`: what its policy says besides. It takes long to start in an emulated machine, whose kernel verifies its programs.
    pub fn with(more: &str) -> House {
        House::ruled(more, "")
    }

    /// The same; `ruled`: what its rule says besides.
    pub fn ruled(more: &str, ruled: &str) -> House {
        std::fs::write("/tmp/policy", [HEAD, more, RULE, ruled].concat()).expect("a file");
        let daemon = Started::new("qanat up --config /tmp/policy");
        // It listens before it serves.
        within(START, "the daemon serves", || Session::connect(&PathBuf::from(SOCKET)).ok()?.disks().ok());
        House { daemon }
    }

    /// The daemon ends without a word.
    pub fn kill(mut self) {
        self.daemon.kill();
    }

    pub fn session(&self) -> Session {
        Session::connect(&PathBuf::from(SOCKET)).expect("the daemon listens")
    }

    /// A command that asks this daemon.
    pub fn words(&self, words: &str) -> String {
        format!("busybox env QANAT_SOCKET={SOCKET} qanat {words}")
    }

    /// `qanat disk …`, which succeeds; what it printed.
    pub fn disk(&self, words: &str) -> String {
        run(&format!("qanat disk {words} --socket {SOCKET}"))
    }

    /// `qanat disk …`, which is refused; what it said.
    pub fn refuses(&self, words: &str) -> String {
        let (is_done, text) = output_of(&format!("qanat disk {words} --socket {SOCKET}"));
        assert!(!is_done, "{words}: {text}");
        text
    }
}
