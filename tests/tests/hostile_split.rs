//! Services of a net core that are stopped, killed, or become another program, at several points under load. A neighbour's
//! echo goes on meanwhile, every byte of it as it was; what they held is free afterwards. (What a service may *say* and *write*
//! is in `services/echo/tests/split`.)
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Program, Running, eventually, qanat, scenario, workspace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(20);
const VICTIM: &str = "10.77.0.2:7";
const NEIGHBOUR: &str = "10.78.0.2:7";

fn start(arguments: &[&str]) -> Running {
    Program::new(qanat()).arguments(arguments).start()
}

fn signal(running: &Running, signal: Signal) {
    let process = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, signal).expect("a signal");
}

/// `length` bytes to an echo and back; false: the connection ended otherwise.
fn stream(to: &str, length: usize) -> bool {
    let sent: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
    let Ok(mut stream) = TcpStream::connect(to) else { return false };
    stream.set_read_timeout(Some(GRACE)).expect("a timeout");
    let mut writer = stream.try_clone().expect("a descriptor");
    let to_send = sent.clone();
    let writing =
        std::thread::spawn(move || writer.write_all(&to_send).and_then(|()| writer.shutdown(Shutdown::Write)));
    let mut back = Vec::new();
    let read = stream.read_to_end(&mut back).is_ok();
    let written = writing.join().is_ok_and(|outcome| outcome.is_ok());
    assert!(sent.starts_with(&back), "what comes back is what was sent");
    read && written && back.len() == length
}

fn datagram_returns(to: &str) -> bool {
    let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    udp.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let mut bytes = [0; 64];
    udp.send_to(b"there and back", to).is_ok() && udp.recv(&mut bytes).is_ok_and(|length| length == 14)
}

/// Streams to the neighbour, one after the other.
struct Load {
    stop: Arc<AtomicBool>,
    streams: Arc<AtomicU64>,
    thread: JoinHandle<(bool, Vec<Duration>)>,
}

impl Load {
    fn start() -> Load {
        let (stop, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (its_stop, its_streams) = (Arc::clone(&stop), Arc::clone(&streams));
        let thread = std::thread::spawn(move || {
            let (mut all_well, mut times) = (true, Vec::new());
            while all_well && !its_stop.load(Ordering::Acquire) {
                let started = std::time::Instant::now();
                all_well = stream(NEIGHBOUR, 500_000);
                times.push(started.elapsed());
                its_streams.fetch_add(1, Ordering::Release);
            }
            (all_well, times)
        });
        Load { stop, streams, thread }
    }

    /// One that begins after this was called comes back.
    fn goes_on(&self) {
        let before = self.streams.load(Ordering::Acquire);
        eventually("the neighbour's streams go on", GRACE, || {
            assert!(!self.thread.is_finished(), "a stream of the neighbour's was cut off");
            self.streams.load(Ordering::Acquire) >= before + 2
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Release);
        let (all_well, mut times) = self.thread.join().expect("the load");
        assert!(all_well, "every stream came back whole");
        // Told, not judged: it depends on what else the machine does.
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        eprintln!("neighbour: {} streams of 500 KB, p50 {:?}, p99 {:?}", times.len(), at(50), at(99));
    }
}

/// A net core with two cards, a neighbour under load on the second.
struct Scene {
    _place: tempfile::TempDir,
    socket: String,
    net: Running,
    _neighbour: Running,
    load: Load,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join("qanat-net.sock").to_str().expect("a name").to_owned();
        let net = start(&["net", "--direct", "--socket", &socket, "--card", "10.78.0.2/24", "--frames", "1024"]);
        let mut scene = Scene {
            _neighbour: eventually_echoes(&socket, "10.78.0.2/24", NEIGHBOUR),
            load: Load::start(),
            _place: place,
            socket,
            net,
        };
        scene.load.goes_on();
        assert!(scene.net.is_running());
        scene
    }

    fn victim(&self) -> Running {
        eventually_echoes(&self.socket, "10.77.0.2/24", VICTIM)
    }

    fn status(&self) -> Value {
        let outcome = Program::new(qanat()).arguments(["status", "--json", "--net", &self.socket]).run();
        let status: Value = serde_json::from_str(outcome.text().trim()).unwrap_or_default();
        status["net_cores"][0].clone()
    }

    /// Of the service on the first card.
    fn service(&self) -> Value {
        let cards = self.status()["cards"].as_array().cloned().unwrap_or_default();
        let card = cards.into_iter().find(|card| card["addresses"][0][0] == "10.77.0.2").unwrap_or_default();
        card["service"].clone()
    }

    fn end(mut self) {
        self.load.goes_on();
        // Whatever it was, the card is good for the next.
        let next = self.victim();
        assert!(stream(VICTIM, 300_000), "the next service is served");
        eventually("all comes home", GRACE, || {
            let service = self.service();
            service["credits_used"] == 0 && service["connections"] == 0
        });
        drop(next);
        self.load.end();
        assert!(self.net.is_running(), "the net core never fell");
    }
}

/// Starts an echo on a card, which may be another's a moment longer.
fn eventually_echoes(socket: &str, card: &str, at: &str) -> Running {
    let mut echo = None;
    eventually("it echoes", GRACE, || {
        let running = echo.as_mut().is_some_and(Running::is_running);
        if !running {
            echo = Some(start(&["echo", "--net", socket, "--address", card]));
        }
        datagram_returns(at)
    });
    echo.expect("started")
}

/// A flood that a service does not take is counted, and dropped for it alone.
fn flood() {
    let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    for _ in 0..4_000 {
        let _ = udp.send_to(&[9; 512], VICTIM);
    }
}

// Attack: time and cost: a service of a net core that is stopped under load
#[test]
fn a_stopped_service_is_bounded_and_goes_on_well() {
    scenario(|| {
        let scene = Scene::new();
        let victim = scene.victim();
        // In the middle of a stream, of a flood, and with nothing under way.
        for point in ["stream", "flood", "idle"] {
            let streaming = (point == "stream").then(|| std::thread::spawn(|| stream(VICTIM, 20_000_000)));
            if point == "stream" {
                eventually("it is under way", GRACE, || scene.service()["connections"] == 1);
            }
            signal(&victim, Signal::STOP);
            scene.load.goes_on();
            if point == "flood" {
                eventually("what it does not take is dropped, and counted", GRACE, || {
                    flood();
                    let service = scene.service();
                    let count = |name: &str| service[name].as_u64().unwrap_or(0);
                    assert!(count("credits_used") <= count("credits"));
                    count("datagrams_without_credit") + count("receive_no_buffer") > 0
                });
                scene.load.goes_on();
            }
            signal(&victim, Signal::CONT);
            eventually("it goes on", GRACE, || datagram_returns(VICTIM));
            assert!(streaming.is_none_or(|stream| stream.join().expect("the stream")), "whole, after standing still");
        }
        drop(victim);
        scene.end();
    });
}

// Attack: descriptors: a service of a net core killed at any moment
#[test]
fn a_killed_service_leaves_nothing_wherever_it_was() {
    scenario(|| {
        let scene = Scene::new();
        for point in ["idle", "stream", "flood", "stopped"] {
            let victim = scene.victim();
            let streaming = (point == "stream").then(|| std::thread::spawn(|| stream(VICTIM, 50_000_000)));
            match point {
                "stream" => eventually("it is under way", GRACE, || scene.service()["connections"] == 1),
                "flood" => flood(),
                "stopped" => {
                    signal(&victim, Signal::STOP);
                    flood();
                }
                _ => {}
            }
            signal(&victim, Signal::KILL);
            assert!(streaming.is_none_or(|stream| !stream.join().expect("the stream")), "{point}: it is reset");
            scene.load.goes_on();
            eventually("it is gone", GRACE, || scene.service().is_null());
        }
        scene.end();
    });
}

/// The memory and the connection live on in a program that knows nothing of them, until it ends.
// Attack: descriptors: a service of a net core that becomes another program
#[test]
fn a_service_that_becomes_another_program_is_held_back_until_that_ends() {
    scenario(|| {
        let scene = Scene::new();
        let attack = workspace().join("tests/hostile/split.py");
        let (version, layout) = (qanat::split::ABI_VERSION.to_string(), qanat::split::abi_layout());
        let mut other = Program::new("python3")
            .arguments([attack.to_str().expect("a path"), &scene.socket, &version, &layout, "10.77.0.2", "exec"])
            .start();
        eventually("it is attached", GRACE, || scene.service()["name"] == "attacker");
        flood();
        scene.load.goes_on();
        assert!(other.is_running() && scene.service()["name"] == "attacker");
        signal(&other, Signal::KILL);
        eventually("it is gone", GRACE, || scene.service().is_null());
        scene.end();
    });
}

/// A descriptor that makes whoever closes it wait, sent to the net core by one it does not serve, and by one it does.
// Attack: descriptors: a socket that lingers, sent to a net core by a stranger
// Attack: descriptors: a socket that lingers, sent to a net core beside a bell
#[test]
fn a_net_core_is_sent_nothing_that_it_would_have_to_close() {
    scenario(|| {
        let scene = Scene::new();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(scene._place.path(), open).expect("its mode");
        let weapons = workspace().join("tests/tests/hostile_control/weapons.py");
        let mut stranger = Command::new("python3")
            .args([weapons.as_os_str(), "knock".as_ref(), scene.socket.as_ref()])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .uid(1_001)
            .gid(1_001)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut said = String::new();
        BufReader::new(stranger.stdout.take().expect("its output")).read_line(&mut said).expect("a line");
        // It can't send the weapon, and it hears why it isn't served.
        assert!(said.starts_with("refused:") && said.contains("does not serve user 1001"), "{said}");
        scene.load.goes_on();
        let (version, layout) = (qanat::split::ABI_VERSION.to_string(), qanat::split::abi_layout());
        let attack = workspace().join("tests/hostile/split.py");
        let outcome = Program::new("python3")
            .arguments([attack.to_str().expect("a path"), &scene.socket, &version, &layout, "10.77.0.2", "linger"])
            .run();
        assert_eq!(outcome.code, Some(3), "{}", outcome.text());
        scene.load.goes_on();
        assert_eq!(scene.status()["strangers"], 1, "counted");
        drop(stranger.stdin.take());
        stranger.wait().expect("its end");
        scene.end();
    });
}
