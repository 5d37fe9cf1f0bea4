//! A daemon in the test's own namespace, and cards of it.

use qanat::control::address::Address;
use qanat::control::client::{Session, VnicHandle};
use qanat::control::daemon::{Daemon, Ending, Event, LEAVE};
use qanat::control::policy::Policy;
use qanat::control::protocol::{VnicStatus, VnicWish};
use qanat::nic::{AfXdp, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2_048, receive_frames: 256, transmit_frames: 512, prepared_frames: 0 };

pub struct Control {
    pub socket: PathBuf,
    _directory: tempfile::TempDir,
    policy: Policy,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<Ending, String>>>,
}

fn quiet(_: &Event) {}

impl Control {
    /// A daemon with the rules given.
    pub fn start(rules: &str) -> Control {
        let directory = tempfile::tempdir().expect("a directory");
        // Others than root are to connect.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("its mode");
        let mut policy = Policy::parse(rules).expect("a policy");
        policy.socket = directory.path().join("control.sock");
        policy.group = "nogroup".to_owned();
        let socket = policy.socket.clone();
        let mut control = Control { socket, _directory: directory, policy, stop: None, thread: None };
        control.resume();
        control
    }

    /// Ends the daemon as a crash does: nothing is taken down, nobody is told.
    pub fn crash(&mut self) {
        let mut stop = self.stop.take().expect("a daemon runs");
        stop.write_all(&[LEAVE]).expect("told");
        let ending = self.thread.take().expect("a daemon runs").join().expect("no panic").expect("a good end");
        assert_eq!(ending, Ending::Left);
    }

    /// Starts a daemon where the last one was.
    pub fn resume(&mut self) {
        self.try_resume().expect("the daemon starts");
    }

    pub fn try_resume(&mut self) -> Result<(), String> {
        let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
        let mut daemon = Daemon::start(self.policy.clone(), stopped.into(), quiet)?;
        self.stop = Some(stop);
        self.thread = Some(std::thread::spawn(move || daemon.run()));
        Ok(())
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
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().expect("no panic").expect("a good end");
        }
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
