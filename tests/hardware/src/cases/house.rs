//! A daemon in the machine, as its administrator has it.

use crate::kernel::eventually;
use crate::program::{Started, output_of, run};
use qanat_control::client::Session;
use std::path::PathBuf;

/// Where the daemon listens.
const SOCKET: &str = "/tmp/control.sock";
const POLICY: &str = "socket = \"/tmp/control.sock\"\ndisk_records = \"/tmp/disks\"\n[[rule]]\nname = \"root\"\nusers = [\"root\"]\n\
                      disks = [\"*\"]\nareas = 8\narea_mib = 64\n";

/// A daemon, which ends with this.
pub struct House {
    _daemon: Started,
}

impl House {
    pub fn start() -> House {
        std::fs::write("/tmp/policy", POLICY).expect("a file");
        let daemon = Started::new("qanat up --config /tmp/policy");
        eventually("the daemon listens", || Session::connect(&PathBuf::from(SOCKET)).ok());
        House { _daemon: daemon }
    }

    pub fn session(&self) -> Session {
        Session::connect(&PathBuf::from(SOCKET)).expect("the daemon listens")
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
