//! What the user names on the command line is had, or is an error before the program begins; what goes to the kernel is told.

use super::{PATIENCE, ask, ends, run_with};
use qanat_control::client::Session;
use qanat_tests::e2e::{NOBODY, Outcome, Program, Wire, eventually, qanat, qanat_for_anybody, scenario};
use rustix::process::Signal;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// `qanat run` with those words, as it is: nothing is explained.
fn quietly(directory: &Path, words: &[&str]) -> Program {
    Program::new(qanat())
        .arguments(["run"])
        .arguments(words)
        .environment("QANAT_SOCKET", directory.join("control.sock"))
}

/// The program has not begun, and the reason and the remedy were said.
fn is_refused(outcome: &Outcome, code: i32, said: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{}\n{}", outcome.line, outcome.stderr);
    assert_eq!(outcome.text(), "", "{}: the program has not begun", outcome.line);
    for words in said {
        assert!(outcome.stderr.contains(words), "{}: «{words}» in {}", outcome.line, outcome.stderr);
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

const BEGINS: [&str; 3] = ["--", "echo", "begun"];

/// An address of the kernel's would make every socket the kernel's.
#[test]
fn an_address_of_the_kernels_is_refused() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let _wire = Wire::new();
        let on_wire = ["--interface", Wire::NEAR, "--address", "10.78.9.1/24"];
        let words = [on_wire.as_slice(), &BEGINS].concat();
        let remedy = "`ip address del 10.78.9.1/24 dev e2e-near`";
        is_refused(&quietly(directory.path(), &words).run(), 125, &["the kernel has 10.78.9.1, on e2e-near", remedy]);
        let words = [&["--address", "127.0.0.1/8"], BEGINS.as_slice()].concat();
        is_refused(&quietly(directory.path(), &words).run(), 125, &["127.0.0.1 is a loopback address"]);
        let words = [&["--interface", "no-such", "--address", "10.78.9.3/24"], BEGINS.as_slice()].concat();
        is_refused(&quietly(directory.path(), &words).run(), 125, &["--interface no-such", "`ip link`"]);
        // Another address of the same network is had.
        let on_wire = ["--interface", Wire::NEAR, "--address", "10.78.9.3/24"];
        let words = [on_wire.as_slice(), &BEGINS].concat();
        assert_eq!(quietly(directory.path(), &words).run().text().trim(), "begun");
    });
}

/// The daemon is asked once, before the program begins.
#[test]
fn an_address_that_the_policy_refuses_is_an_error_at_once() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (policy, socket) = (directory.path().join("policy.toml"), directory.path().join("control.sock"));
        let text = "host = [\"10.77.0.1/24\", \"10.78.0.1/24\"]\n[[rule]]\nname = \"few\"\nusers = [\"root\"]\nvnics = 1\n\
                    addresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n";
        std::fs::write(&policy, text).expect("a file");
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]);
        let daemon = daemon.arguments(["--config"]).arguments([&policy]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        let words = [&["--address", "10.78.0.2/24"], BEGINS.as_slice()].concat();
        let said = ["rule \"few\" does not allow address 10.78.0.2", "qanat up --config"];
        let before = refusals(&socket);
        is_refused(&quietly(directory.path(), &words).run(), 125, &said);
        assert!(refusals(&socket) - before <= 1, "it is asked once: {} before, {} after", before, refusals(&socket));
        // One that nobody has named, and that there is no card for, is the kernel's; once is said why.
        let words =
            ["--", "python3", "-c", "import socket\nfor port in (7001, 7002): socket.create_server(('', port))"];
        let card = run_with(directory.path(), &[], &["python3", "-c", SERVER]).start();
        eventually("it serves", PATIENCE, || ask(7_000, "", 0).is_some());
        let outcome = quietly(directory.path(), &words).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.matches("no virtual card").count(), 1, "{}", outcome.stderr);
        ends(card, Signal::KILL, directory.path());
        drop(daemon);
    });
}

const SERVER: &str = "import socket\ns = socket.create_server(('', 7000))\nwhile True: s.accept()";

/// Requests that a daemon has refused so far.
fn refusals(socket: &Path) -> u64 {
    let words = ["status", "--prometheus", "--socket"];
    let outcome = Program::new(qanat()).arguments(words).arguments([socket]).run();
    let line = outcome
        .text()
        .lines()
        .find_map(|line| Some(line.strip_prefix("qanat_requests_total{outcome=\"refused\"}")?.trim().to_owned()));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Whose a named address is decides: one's own program shares it, another user's is an error.
#[test]
fn an_address_of_another_users_is_refused_and_an_own_one_shared() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let command = qanat_for_anybody(directory.path());
        let library = qanat().with_file_name("libqanat_posix.so");
        std::fs::copy(library, command.with_file_name("libqanat.so")).expect("the library");
        let policy = directory.path().join("policy.toml");
        let text = "host = [\"10.77.0.1/24\"]\n[[rule]]\nname = \"all\"\nusers = [\"root\", \"nobody\"]\n\
                    addresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n";
        std::fs::write(&policy, text).expect("a file");
        let socket = directory.path().join("control.sock");
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]);
        let _daemon = daemon.arguments(["--config"]).arguments([&policy]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("its mode");
        let named = ["--address", "10.77.0.2/24"];
        let _server = run_with(directory.path(), &named, &["python3", "-c", SERVER]).start();
        eventually("it serves", PATIENCE, || ask(7_000, "", 0).is_some());
        let script = SERVER.replace("7000", "7001");
        let _other = run_with(directory.path(), &named, &["python3", "-c", &script]).start();
        eventually("one of the same user shares it", PATIENCE, || ask(7_001, "", 0).is_some());
        let nobody = Program::new("setpriv").arguments(NOBODY).arguments([&command]).arguments(["run"]);
        let nobody = nobody.arguments(named).arguments(BEGINS).environment("QANAT_SOCKET", &socket);
        is_refused(&nobody.run(), 125, &["address 10.77.0.2 is taken: choose another (--address)"]);
        // A service of the same user's has its card for itself.
        let echo = Program::new(qanat()).arguments(["echo", "--address", "10.77.0.4/24"]);
        let _echo = echo.environment("QANAT_SOCKET", &socket).start();
        let has_card =
            || Session::connect(&socket).is_ok_and(|session| session.status().is_ok_and(|s| s.vnics.len() == 2));
        eventually("the service has its card", PATIENCE, has_card);
        let second = run_with(directory.path(), &["--address", "10.77.0.4/24"], &BEGINS[1..]).run();
        is_refused(&second, 125, &["address 10.77.0.4 is taken: choose another (--address)"]);
    });
}

/// Who names no address has the next one beside a service at the first, and the daemon is not asked without end.
#[test]
fn beside_a_service_a_program_has_the_next_address() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("control.sock");
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        let _echo = Program::new(qanat()).arguments(["echo"]).environment("QANAT_SOCKET", &socket).start();
        let has_card =
            || Session::connect(&socket).is_ok_and(|session| session.status().is_ok_and(|s| s.vnics.len() == 1));
        eventually("the service has its card", PATIENCE, has_card);
        let before = refusals(&socket);
        let mut server = quietly(directory.path(), &["--", "python3", "-c", SERVER]).start();
        let answers =
            || TcpStream::connect_timeout(&([10, 77, 0, 3], 7_000).into(), Duration::from_millis(200)).is_ok();
        eventually("the program serves at the next address", PATIENCE, answers);
        assert!(server.is_running());
        let asked = refusals(&socket) - before;
        assert!(asked <= 20, "the daemon was asked {asked} times in vain");
        server.kill();
        drop(daemon);
    });
}

/// Addresses that no host can have, and next hops that nobody has on the link, are refused before the program begins: on an interface
/// by the launcher, else by the daemon, too.
#[test]
fn what_no_host_can_have_is_refused() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for words in ["link add near type veth peer name far", "link set near up", "link set far up"] {
            Program::new("ip").arguments(words.split(' ')).succeeds();
        }
        for (wrong, said) in [
            ("--address 10.77.0.255/24", "broadcast address of 10.77.0.0/24"),
            ("--address 224.0.0.5/24", "multicast"),
            ("--address 10.77.0.2/0", "all addresses"),
            ("--address 10.77.0.2/24 --gateway 10.78.0.1", "on the link of no own address"),
            ("--address 10.77.0.2/24 --gateway 10.77.0.2", "is an own address"),
        ] {
            let wrong: Vec<&str> = ["--interface", "near"].into_iter().chain(wrong.split(' ')).collect();
            is_refused(&run_with(directory.path(), &wrong, &BEGINS[1..]).run(), 125, &[said]);
        }
    });
}

/// Exit codes as `env`'s, and a tip for who forgets `--`.
#[test]
fn what_is_no_program_has_its_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "#!/bin/sh\n").expect("a file");
    let file = file.to_str().expect("a path");
    is_refused(&quietly(directory.path(), &["--", "no-such-program"]).run(), 127, &["no-such-program"]);
    is_refused(&quietly(directory.path(), &["--", "/no/such/program"]).run(), 127, &["/no/such/program"]);
    is_refused(&quietly(directory.path(), &["--", file]).run(), 126, &[file, "`chmod +x`"]);
    is_refused(&quietly(directory.path(), &["--", "/"]).run(), 126, &["permission denied"]);
    let words = ["--address", "10.77.0.9/24", "--explain", "curl", "-s", "http://10.77.0.1/"];
    let tip = "run --address 10.77.0.9/24 --explain -- curl -s http://10.77.0.1/";
    is_refused(&quietly(directory.path(), &words).run(), 2, &["put `--` before the program", tip]);
    // Another mistake has none.
    let outcome = quietly(directory.path(), &["--addres", "10.77.0.9/24", "--", "true"]).run();
    assert!(outcome.code == Some(2) && !outcome.stderr.contains("put `--`"), "{}", outcome.stderr);
}

/// The first socket of each kind that goes to the kernel is told, whether or not anybody wants it explained.
#[test]
fn what_goes_to_the_kernel_is_told_once() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for address in ["10.79.0.1/24", "10.79.0.2/24"] {
            Program::new("ip").arguments(["address", "add", address, "dev", "lo"]).succeeds();
        }
        let _servers = ["10.79.0.1:7000", "10.79.0.2:7000"].map(|name| TcpListener::bind(name).expect("a listener"));
        let datagrams = UdpSocket::bind("10.79.0.1:7000").expect("a socket");
        let script = "import os, socket\n\
                      for round in range(3):\n    \
                          for host in ('10.79.0.1', '10.79.0.2'): socket.create_connection((host, 7000))\n    \
                          u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.sendto(b'x', ('10.79.0.1', 7000))\n\
                      l = socket.create_server(('127.0.0.1', 7001)); socket.create_connection(('127.0.0.1', 7001))\n\
                      for port in (7002, 7003): socket.create_server(('10.79.0.1', port))\n\
                      for port in (7004, 7005): socket.create_server(('', port))\n\
                      for port in (7006, 7007):\n    \
                          if os.fork() == 0: socket.create_server(('10.79.0.1', port)); os._exit(0)\n    \
                          os.wait()";
        let outcome = quietly(directory.path(), &["--", "python3", "-c", script]).run();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let told: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(told.len(), 2, "a line for each kind: {told:#?}");
        assert!(told[0].contains("connect 10.79.0.1:7000: the kernel's") && told[0].contains("not on the card's link"));
        assert!(told[1].contains("listen 10.79.0.1:7002: the kernel's") && told[1].contains("--explain"));
        drop(datagrams);
        // A program that has something else in the place of its standard error finds nothing of ours there.
        let file = directory.path().join("data");
        let script = "import os, socket, sys\nos.close(2)\nassert os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY) == 2\n\
                      socket.create_connection(('10.79.0.1', 7000))";
        let words = ["--", "python3", "-c", script, file.to_str().expect("a path")];
        quietly(directory.path(), &words).succeeds();
        assert_eq!(std::fs::read(&file).expect("a file"), b"");
    });
}
