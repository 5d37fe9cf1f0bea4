//! A daemon with net cores, and what a test asks of those.

use super::patience::eventually;
use super::program::{NOBODY, Outcome, Program, Running, qanat, qanat_for_anybody};
use super::unit::Unit;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(20);

/// A daemon with net cores under the packaged unit's restrictions, and a copy of the command where anybody may run it. Cards are of 10.77.0.0/24.
#[derive(Debug)]
pub struct House {
    unit: Unit,
    command: PathBuf,
    daemon: Running,
}

/// A process by its number.
///
/// # Panics
/// No process can have that number.
pub fn process(number: u64) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process")
}

impl House {
    /// A daemon with a net core on each of these processors, which are written as in a policy.
    ///
    /// # Panics
    /// The daemon does not start.
    pub fn new(cores: &str) -> House {
        House::with_memory(cores, 1_024)
    }

    /// The same, and these lines in its policy, of what is no table.
    ///
    /// # Panics
    /// As [`new`](House::new).
    pub fn with_settings(cores: &str, settings: &str) -> House {
        House::with(cores, 1_024, settings)
    }

    /// The same. Each user may have at most so many MiB.
    ///
    /// # Panics
    /// As [`new`](House::new).
    pub fn with_memory(cores: &str, memory_mib: u32) -> House {
        House::with(cores, memory_mib, "")
    }

    fn with(cores: &str, memory_mib: u32, settings: &str) -> House {
        let unit = Unit::new();
        let place = unit.directory();
        let command = qanat_for_anybody(place);
        std::fs::write(place.join("small"), "It flows.").expect("a file");
        let policy = format!(
            "socket = \"{}\"\ngroup = \"nogroup\"\n{settings}\n[net]\ncores = \"{cores}\"\nframes = 1024\n[[rule]]\nusers = [\"root\", \
             \"65534\", \"65533\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"any/any\"]\nmemory_mib = {memory_mib}\n",
            place.join("control.sock").display()
        );
        std::fs::write(place.join("policy"), policy).expect("a policy");
        let daemon = unit.program();
        let daemon = daemon.arguments(["up".as_ref(), "--config".as_ref(), place.join("policy").as_os_str()]).start();
        let house = House { unit, command, daemon };
        eventually("the daemon listens", GRACE, || house.socket().exists());
        house
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.unit.directory().join("control.sock")
    }

    /// The daemon's process.
    pub fn daemon(&self) -> u32 {
        self.daemon.id()
    }

    /// The command that anybody may run.
    pub fn command(&self) -> &Path {
        &self.command
    }

    /// Starts the command without privileges, as all users of the daemon do.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let program = Program::new("setpriv").arguments(NOBODY).arguments([&self.command]).arguments(arguments);
        program.environment("QANAT_SOCKET", self.socket()).start()
    }

    /// `qanat net-core`, as root.
    pub fn net_core(&self, words: &[&str]) -> Outcome {
        let all = [&["net-core"], words].concat();
        Program::new(qanat()).arguments(all).environment("QANAT_SOCKET", self.socket()).run()
    }

    /// A directory with the page `small`.
    ///
    /// # Panics
    /// Its name is not UTF-8.
    pub fn root(&self) -> &str {
        self.unit.directory().to_str().expect("a name")
    }

    /// `qanat status --json`; nothing if it fails.
    pub fn status(&self) -> Value {
        let asked = Program::new(qanat()).arguments(["status", "--json"]).environment("QANAT_SOCKET", self.socket());
        serde_json::from_str(asked.run().text().trim()).unwrap_or_default()
    }

    /// `qanat status`.
    pub fn text(&self) -> String {
        Program::new(qanat()).arguments(["status"]).environment("QANAT_SOCKET", self.socket()).run().text()
    }

    /// The net core that has a service of that name, as it says itself.
    pub fn net_core_of(&self, service: &str) -> Value {
        let all = self.status()["net_cores"].as_array().cloned().unwrap_or_default();
        let has = |core: &Value| {
            let cards = core["cards"].as_array().cloned().unwrap_or_default();
            cards.iter().any(|card| card["service"]["name"] == service)
        };
        all.into_iter().find(has).unwrap_or_default()
    }

    /// Ends the daemon once all services have given up their cards.
    ///
    /// # Panics
    /// One has not, or as [`end`](House::end).
    pub fn end_without_cards(self) {
        eventually("no card is left", GRACE, || self.status()["vnics"].as_array().is_some_and(Vec::is_empty));
        self.end();
    }

    /// Ends the daemon, which leaves nothing.
    ///
    /// # Panics
    /// It fails, or leaves something.
    pub fn end(self) {
        kill_process_group(process(self.daemon.id().into()), Signal::INT).expect("Ctrl-C");
        let outcome = self.daemon.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        eventually("nothing is left", GRACE, || !Path::new("/sys/class/net/qanat0").exists());
    }
}

/// Sends so many bytes to an echo. Returns whether they came back as they were.
pub fn echoes(stream: &mut TcpStream, count: usize) -> bool {
    let sent: Vec<u8> = (0..count).map(|number| (number % 251) as u8).collect();
    let mut back = vec![0; count];
    stream.write_all(&sent).is_ok() && stream.read_exact(&mut back).is_ok() && sent == back
}

/// A connection, if it can be made within 200 ms.
///
/// # Panics
/// `to` is no address.
pub fn connect(to: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&to.parse().expect("an address"), Duration::from_millis(200)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    Some(stream)
}

/// Whether the other side has closed or reset it.
///
/// # Panics
/// It can't be asked.
pub fn has_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// The process of the net core that has a card at `address`, by a daemon's status. 0 if there is none.
pub fn net_core_at(status: &Value, address: &str) -> u64 {
    let all = status["net_cores"].as_array().cloned().unwrap_or_default();
    let has = |core: &&Value| core["cards"].to_string().contains(&format!("\"{address}\""));
    all.iter().find(has).and_then(|core| core["process"].as_u64()).unwrap_or(0)
}
