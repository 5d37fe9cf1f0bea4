//! A daemon in the test's own namespace, and cards of it.

use qanat_control::address::Address;
use qanat_control::client::{Session, VnicHandle};
use qanat_control::protocol::{VnicStatus, VnicWish};
use qanat_nic::{AfXdp, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};
use qanat_tests::e2e::{Program, Running, Unit, qanat};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2_048, receive_frames: 256, transmit_frames: 512, prepared_frames: 0 };

/// A daemon under the packaged unit's restrictions: a process of its own.
pub struct Control {
    pub socket: PathBuf,
    unit: Unit,
    /// What the daemon finds at /etc/group.
    groups: Option<PathBuf>,
    daemon: Option<Running>,
}

impl Control {
    /// A daemon with the rules given.
    pub fn start(rules: &str) -> Control {
        Control::start_in(Unit::new(), None, "nogroup", rules)
    }

    /// A daemon without the unit's restrictions, as root starts it by hand.
    pub fn by_hand(rules: &str) -> Control {
        Control::start_in(Unit::bare(), None, "nogroup", rules)
    }

    /// As [`by_hand`](Control::by_hand), with another file at /etc/group.
    pub fn with_groups(groups: PathBuf, rules: &str) -> Control {
        Control::start_in(Unit::bare(), Some(groups), "65534", rules)
    }

    fn start_in(unit: Unit, groups: Option<PathBuf>, group: &str, rules: &str) -> Control {
        let socket = unit.directory().join("control.sock");
        // Others than root are to connect.
        let policy = format!("socket = {socket:?}\ngroup = \"{group}\"\n{rules}");
        std::fs::write(unit.directory().join("policy"), policy).expect("a policy");
        let mut control = Control { socket, unit, groups, daemon: None };
        control.resume();
        control
    }

    /// Ends the daemon as a crash does: nothing is taken down, nobody is told.
    pub fn crash(&mut self) {
        self.daemon.take().expect("a daemon runs").kill();
    }

    /// Starts a daemon where the last one was.
    pub fn resume(&mut self) {
        self.try_resume().expect("the daemon starts");
    }

    /// As `resume`; what it says if it ends at once.
    pub fn try_resume(&mut self) -> Result<(), String> {
        let policy = self.unit.directory().join("policy");
        let program = match &self.groups {
            None => self.unit.program(),
            Some(groups) => {
                let bind = "mount --bind \"$1\" /etc/group && shift && exec \"$@\"";
                let unshare = Program::new("unshare").arguments(["--mount", "--", "sh", "-c", bind, "sh"]);
                unshare.arguments([groups.as_os_str(), qanat().as_os_str()])
            }
        };
        let mut daemon = program.arguments(["up".as_ref(), "--config".as_ref(), policy.as_os_str()]).start();
        let start = Instant::now();
        while Session::connect(&self.socket).and_then(|session| session.limits()).is_err() {
            if !daemon.is_running() {
                return Err(daemon.wait(Duration::from_secs(1)).stderr);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the daemon neither listens nor ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// The daemon's process.
    pub fn process(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon runs").id()
    }

    /// One with a rule that lets everybody have anything of 10.77.0.0/24.
    pub fn generous() -> Control {
        Control::start(&rule(""))
    }

    pub fn session(&self) -> Session {
        Session::connect(&self.socket).expect("a session")
    }

    pub fn vnics(&self) -> Vec<VnicStatus> {
        self.session().status().expect("a status").vnics
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let Some(daemon) = self.daemon.take().filter(|_| !std::thread::panicking()) else { return };
        let process = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, Signal::TERM).expect("told to end");
        let outcome = daemon.wait(Duration::from_secs(20));
        assert_eq!(outcome.code, Some(0), "a good end: {}", outcome.stderr);
    }
}

/// A rule for everybody, with more lines.
pub fn rule(more: &str) -> String {
    format!(
        "[[rule]]\nname = \"test\"\nusers = [\"*\"]\nvnics = 64\naddresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n{more}\n"
    )
}

pub fn wish(last: u8, services: &[&str]) -> VnicWish {
    VnicWish {
        name: format!("card {last}"),
        addresses: vec![(Address::from([10, 77, 0, last]), 24)],
        services: services.iter().map(|text| text.parse().expect("a service")).collect(),
        ..VnicWish::default()
    }
}

/// A card with address 10.77.0.`last` and its queue.
pub fn card(control: &Control, last: u8, services: &[&str]) -> (VnicHandle, AfXdp) {
    let vnic = control.session().create_vnic(wish(last, services)).expect("a VNIC");
    let queue = vnic.open_queue(0, PLAN).expect("a queue");
    (vnic, queue)
}

/// Sends frames in one batch.
pub fn send(queue: &mut AfXdp, frames: &[Vec<u8>]) {
    for bytes in frames {
        let mut frame = queue.transmit_pool().allocate(64).expect("a free frame");
        frame.append(bytes.len()).expect("room").copy_from_slice(bytes);
        queue.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).expect("room in the ring");
    }
    queue.flush();
}

/// Everything that arrives until nothing has for 50 ms.
pub fn arrivals(queue: &mut AfXdp) -> Vec<Vec<u8>> {
    let (mut frames, mut bytes) = (Vec::new(), Vec::new());
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < Duration::from_millis(50) {
        if queue.receive(&mut frames, 64) > 0 {
            quiet_since = Instant::now();
        }
        bytes.extend(frames.drain(..).map(|frame| frame.bytes().to_vec()));
        std::thread::sleep(Duration::from_millis(1));
    }
    bytes
}

/// Frames of a card in one direction, by fate.
pub fn count(status: &VnicStatus, transmit: bool, cause: &str) -> (u64, u64) {
    let direction = if transmit { &status.transmit } else { &status.receive };
    let found = direction.counts.iter().find(|count| count.cause == cause);
    found.map_or((0, 0), |count| (count.frames, count.bytes))
}
