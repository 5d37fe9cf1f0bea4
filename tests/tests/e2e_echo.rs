//! `qanat echo` and `qanat load udp`/`tcp` as their users run them: over veth, over shared memory in both roles, over
//! kernel sockets; with peers that are killed; and with DPDK's `testpmd` as the other end of the memory.
//!
//! `dpdk-testpmd` is too large to be installed for a test (174 MB): without it that one says loudly that it is skipped.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Outcome, Program, Running, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

const TARGET: &str = "10.77.0.2:7";
const GRACE: Duration = Duration::from_secs(15);

fn start(arguments: &[&str]) -> Running {
    Program::new(qanat()).arguments(arguments).start()
}

fn interrupt(running: Running) -> Outcome {
    let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
    kill_process_group(group, Signal::INT).expect("Ctrl-C");
    let outcome = running.wait(GRACE);
    assert_eq!(outcome.code, Some(0), "{}\n{}{}", outcome.line, outcome.text(), outcome.stderr);
    outcome
}

/// Runs a load and gives its report.
fn load(protocol: &str, more: &[&str]) -> Value {
    let mut words = vec!["load", protocol, TARGET, "--json", "--duration", "300ms", "--warm-up", "50ms"];
    // On a busy machine slow is not lost.
    words.extend(["--timeout", "5s"]);
    words.extend_from_slice(more);
    let text = Program::new(qanat()).arguments(&words).succeeds().text();
    let report = text.lines().last().unwrap_or_default();
    serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report}"))
}

fn all_came_back(report: &Value) {
    assert!(number(report, "received") > 50, "{report}");
    assert_eq!(number(report, "lost") + number(report, "strange"), 0, "{report}");
}

fn socket_in(directory: &tempfile::TempDir, name: &str) -> PathBuf {
    directory.path().join(name)
}

fn is_there(path: &Path) {
    eventually("the socket", GRACE, || path.exists());
}

#[test]
fn over_veth_for_the_kernel_and_for_our_own_load() {
    scenario(|| {
        for mode in [&[][..], &["--copies"], &["--raw"]] {
            let mut words = vec!["echo", "--json"];
            words.extend_from_slice(mode);
            let echo = start(&words);
            let raw = mode.contains(&"--raw");
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
            let mut bytes = [0; 2_048];
            eventually("an echo", GRACE, || {
                if raw {
                    // On veth the kernel leaves its checksums to the peer, and this one only swaps: it must write them
                    // itself. (Each time: the first that is found may be the last echo's device, on its way out.)
                    Program::new("ethtool").arguments(["-K", "qanat0", "tx", "off"]).run();
                }
                socket.send_to(&[7; 1_400], TARGET).is_ok()
                    && matches!(socket.recv(&mut bytes), Ok(1_400))
                    && bytes[..1_400] == [7; 1_400]
            });
            if !raw {
                let mut stream = TcpStream::connect(TARGET).expect("a connection");
                let sent: Vec<u8> = (0..300_000u32).map(|index| index as u8).collect();
                let mut writer = stream.try_clone().expect("its other half");
                let whole = sent.clone();
                let writing = std::thread::spawn(move || {
                    writer.write_all(&whole).expect("writing");
                    writer.shutdown(std::net::Shutdown::Write).expect("closing");
                });
                let mut back = Vec::new();
                stream.read_to_end(&mut back).expect("reading");
                writing.join().expect("the writer");
                assert!(back == sent, "the stream comes back as it was");
                all_came_back(&load("tcp", &["-c", "4", "--size", "500"]));
            }
            for size in ["64", "1400"] {
                all_came_back(&load("udp", &["--window", "8", "--size", size]));
            }
            let open = load("udp", &["--window", "64", "--rate", "2000"]);
            assert!((1..=700).contains(&number(&open, "received")), "at most 2,000 a second for 0.3 s: {open}");
            let text = interrupt(echo).text();
            assert!(text.contains("\"event\":\"stopped\""), "{text}");
        }
    });
}

#[test]
fn over_kernel_sockets() {
    let modes = [&["epoll"][..], &["epoll", "--batch"], &["uring"], &["uring", "--batch"]];
    // A port of its own for each: the kernel takes a ring, and its socket, apart behind our back.
    for (port, mode) in (17_007..).zip(modes) {
        let echo = start(&[&["echo", "--port", &port.to_string(), "--kernel"][..], mode].concat());
        let target = format!("127.0.0.1:{port}");
        let words = ["load", "udp", &target, "--kernel", "--json", "-d", "200ms", "--window", "4"];
        let mut outcome = Program::new(qanat()).arguments(words).run();
        for _ in 0..40 {
            if outcome.code == Some(0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(250));
            outcome = Program::new(qanat()).arguments(words).run();
        }
        assert_eq!(outcome.code, Some(0), "{mode:?}: {outcome:?}");
        let text = outcome.text();
        let report: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a report");
        all_came_back(&report);
        assert!(interrupt(echo).text().contains("Echoed "));
    }
}

#[test]
fn over_memory_in_both_roles_and_all_modes() {
    let directory = tempfile::tempdir().expect("a directory");
    for mode in [&[][..], &["--copies"], &["--raw"]] {
        let path = socket_in(&directory, "master");
        let (master, slave) = (format!("memif:{}", path.display()), format!("memif-slave:{}", path.display()));
        let mut words = vec!["echo", "--link", &master];
        words.extend_from_slice(mode);
        let echo = start(&words);
        is_there(&path);
        // One load after the other: the echo goes on.
        for size in ["64", "1514"] {
            all_came_back(&load("udp", &["--link", &slave, "--window", "32", "--size", size]));
        }
        if !mode.contains(&"--raw") {
            all_came_back(&load("tcp", &["--link", &slave, "-c", "8", "--size", "1400"]));
        }
        interrupt(echo);
        assert!(!path.exists(), "the socket goes with its owner");
        // The other way round: the echo connects, and ends with its master.
        words[2] = &slave;
        let echo = start(&words);
        all_came_back(&load("udp", &["--link", &master, "--window", "32"]));
        let outcome = echo.wait(GRACE);
        assert!(outcome.text().contains("the peer disconnected"), "{outcome:?}");
    }
}

#[test]
fn whoever_is_killed_takes_nobody_along() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = socket_in(&directory, "killed");
    let (master, slave) = (format!("memif:{}", path.display()), format!("memif-slave:{}", path.display()));
    let kill = |running: &Running| {
        let id = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(id, Signal::KILL).expect("kill -9");
    };
    let mut echo = start(&["echo", "--link", &master]);
    is_there(&path);
    for _ in 0..3 {
        let loading = start(&["load", "udp", TARGET, "--link", &slave, "--window", "64", "--duration", "10s"]);
        std::thread::sleep(Duration::from_millis(300));
        kill(&loading);
        assert_eq!(loading.wait(GRACE).code, None, "killed");
        assert!(echo.is_running());
    }
    all_came_back(&load("udp", &["--link", &slave, "--window", "64"]));
    // And the other: a load whose echo is killed says so, or reports what it had.
    let loading =
        start(&["load", "udp", TARGET, "--link", &slave, "--window", "4", "--duration", "1s", "--warm-up", "0s"]);
    std::thread::sleep(Duration::from_millis(400));
    kill(&echo);
    let outcome = loading.wait(GRACE);
    assert!(outcome.code.is_some(), "{outcome:?}");
    assert!(path.exists(), "kill -9 leaves its socket file");
    // Which is in nobody's way.
    let echo = start(&["echo", "--link", &master]);
    std::thread::sleep(Duration::from_millis(300));
    all_came_back(&load("udp", &["--link", &slave]));
    interrupt(echo);
}

/// `testpmd` with one memif port that sends everything back.
fn testpmd(role: &str, path: &Path) -> Running {
    let device = format!("--vdev=net_memif0,role={role},socket={},socket-abstract=no", path.display());
    let prefix = format!("--file-prefix=qanat-{}-{role}", std::process::id());
    let environment = ["--lcores=0@0,1@0", "--no-huge", "--no-pci", "--no-telemetry", "-m", "256", "--iova-mode=va"];
    let own = ["--", "--forward-mode=5tswap", "--auto-start", "--stats-period=1", "--total-num-mbufs=4096"];
    Program::new("dpdk-testpmd").arguments(environment).arguments([&device, &prefix]).arguments(own).start()
}

fn has_testpmd(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|path| path.join("dpdk-testpmd").exists());
    if !found {
        let text = format!("\nSKIPPED (no dpdk-testpmd): {name}: `apt-get install dpdk-dev` (174 MB) has it\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    found
}

#[test]
fn dpdk_understands_us_as_slave_and_as_master() {
    if !has_testpmd("dpdk_understands_us_as_slave_and_as_master") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let more = ["--peer-mac", "02:00:00:00:00:09", "--window", "32"];
    // DPDK listens; one each, for it may crash when a peer hangs up while it looks at the ring.
    for size in ["64", "1024", "1514"] {
        let path = socket_in(&directory, &format!("dpdk-server-{size}"));
        let peer = testpmd("server", &path);
        is_there(&path);
        std::thread::sleep(Duration::from_millis(1_500));
        let slave = format!("memif-slave:{}", path.display());
        let report = load("udp", &[&["--link", &slave, "--size", size][..], &more].concat());
        println!("testpmd as master, {size} bytes: {}/s", report["packets_per_s"]);
        all_came_back(&report);
        drop(peer);
    }
    // DPDK connects; before it forwards, a few packets may find nobody.
    let path = socket_in(&directory, "dpdk-client");
    let master = format!("memif:{}", path.display());
    let words = ["load", "udp", TARGET, "--json", "--link", &master, "--duration", "1s", "--warm-up", "2s"];
    let loading = Program::new(qanat()).arguments(words).arguments(more).start();
    is_there(&path);
    let peer = testpmd("client", &path);
    let outcome = loading.wait(GRACE * 2);
    let report: Value = serde_json::from_str(outcome.text().lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    println!("testpmd as slave, 64 bytes: {}/s", report["packets_per_s"]);
    all_came_back(&report);
    drop(peer);
}
