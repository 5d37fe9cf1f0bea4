//! Programs as they are, under `qanat run`: servers asked by the kernel's clients, a client that asks the kernel's server, and
//! what becomes of their connections when they are killed.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{NOBODY, Pages, Program, Running, Wire, eventually, qanat, qanat_for_anybody, scenario};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

#[path = "e2e_run/addresses.rs"]
mod addresses;
#[path = "e2e_run/apache.rs"]
mod apache;
#[path = "e2e_run/exec.rs"]
mod exec;
#[path = "e2e_run/gone.rs"]
mod gone;
#[path = "e2e_run/interfaces.rs"]
mod interfaces;
#[path = "e2e_run/invisible.rs"]
mod invisible;
#[path = "e2e_run/killed.rs"]
mod killed;
#[path = "e2e_run/privilege.rs"]
mod privilege;
#[path = "e2e_run/programs.rs"]
mod programs;
#[path = "e2e_run/shared.rs"]
mod shared;
#[path = "e2e_run/waits.rs"]
mod waits;
#[path = "e2e_run/wishes.rs"]
mod wishes;

const PATIENCE: Duration = Duration::from_secs(20);
const OURS: &str = "10.77.0.2";

/// `qanat run`, its daemon's socket in `directory`.
fn run(directory: &Path, words: &[&str]) -> Program {
    run_with(directory, &[], words)
}

fn run_with(directory: &Path, options: &[&str], words: &[&str]) -> Program {
    let program = Program::new(qanat()).arguments(["run", "--explain"]).arguments(options).arguments(["--"]);
    program.arguments(words).environment("QANAT_SOCKET", directory.join("control.sock"))
}

fn signal(process: &Running, signal: Signal) {
    let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, signal).expect("a signal");
}

/// What a server of ours says to `question`, up to the end or `enough` bytes; `None`: nobody is there yet.
fn ask(port: u16, question: &str, enough: usize) -> Option<String> {
    let address = format!("{OURS}:{port}").parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(question.as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4_096];
    while answer.len() < enough {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
        }
    }
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Cards there are at the daemon of `directory`; none if it is gone.
fn cards(directory: &Path) -> usize {
    let outcome = Program::new(qanat())
        .arguments(["status", "--json", "--socket"])
        .arguments([directory.join("control.sock")])
        .run();
    let text = outcome.text();
    let value: serde_json::Value = text.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    value["vnics"].as_array().map_or(0, Vec::len)
}

/// Waits until a program sleeps, and has for a while.
fn sleeps(process: u32) {
    let mut looks = 0;
    eventually("it sleeps", PATIENCE, || {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        looks = if state.contains(") S ") { looks + 1 } else { 0 };
        looks > 3
    });
}

/// The keeper of a program that is alone in its network namespace.
fn keeper_of(program: &Running) -> Pid {
    let words = ["--ns", &program.id().to_string(), "--nslist", "net", "-x", "qanat-keeper"];
    let found = Program::new("pgrep").arguments(words).succeeds().text();
    found.trim().parse().ok().and_then(Pid::from_raw).expect("the one keeper")
}

/// Ends a server, and sees that its card goes with it.
fn ends(server: Running, by: Signal, directory: &Path) -> String {
    signal(&server, by);
    let outcome = server.wait(PATIENCE);
    eventually("its card is gone", PATIENCE, || cards(directory) == 0);
    format!("{}{}", outcome.text(), outcome.stderr)
}

#[test]
fn redis_serves_and_saves() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_str().expect("a path");
        let words = ["redis-server", "--bind", OURS, "--protected-mode", "no", "--save", "", "--dir", path];
        let server = run(directory.path(), &words).start();
        eventually("redis answers", PATIENCE, || ask(6379, "PING\r\n", 7).as_deref() == Some("+PONG\r\n"));
        assert_eq!(ask(6379, "SET a hello\r\nGET a\r\n", 16).as_deref(), Some("+OK\r\n$5\r\nhello\r\n"));
        let large = "x".repeat(300_000);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n{large}\r\n", large.len());
        assert_eq!(ask(6379, &set, 5).as_deref(), Some("+OK\r\n"));
        let got = ask(6379, "GET b\r\n", large.len() + 11).expect("an answer");
        assert_eq!(got.len(), large.len() + 11, "all of a large value comes back");
        // A child of fork has the parent's sockets, and does nothing to them.
        assert!(ask(6379, "BGSAVE\r\n", 1).is_some_and(|answer| answer.starts_with('+')));
        eventually("the child has saved", PATIENCE, || directory.path().join("dump.rdb").exists());
        assert_eq!(ask(6379, "GET a\r\n", 11).as_deref(), Some("$5\r\nhello\r\n"));
        let said = ends(server, Signal::TERM, directory.path());
        assert!(said.contains("listen 10.77.0.2:6379: ours"), "{said}");
    });
}

#[test]
fn memcached_with_threads_serves_tcp_and_udp() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        // The card has the address the program binds.
        let server =
            run(directory.path(), &["memcached", "-u", "nobody", "-l", "10.77.0.5", "-U", "11211", "-t", "4"]).start();
        let ask = |question: &str, enough: usize| {
            let mut stream =
                TcpStream::connect_timeout(&"10.77.0.5:11211".parse().ok()?, Duration::from_secs(1)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            stream.write_all(question.as_bytes()).ok()?;
            let mut answer = vec![0; enough];
            stream.read_exact(&mut answer).ok()?;
            String::from_utf8(answer).ok()
        };
        eventually("memcached answers", PATIENCE, || {
            ask("set a 0 0 5\r\nhello\r\n", 8).as_deref() == Some("STORED\r\n")
        });
        // More connections at once than threads.
        let others: Vec<_> = (0..16)
            .map(|_| std::thread::spawn(move || TcpStream::connect("10.77.0.5:11211").map(|stream| stream.peer_addr())))
            .collect();
        assert!(others.into_iter().all(|other| other.join().is_ok_and(|outcome| outcome.is_ok())));
        assert_eq!(ask("get a\r\n", 25).as_deref(), Some("VALUE a 0 5\r\nhello\r\nEND\r\n"));
        let socket = std::net::UdpSocket::bind("10.77.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
        let mut answer = [0; 200];
        eventually("an answer by UDP", PATIENCE, || {
            socket.send_to(b"\x12\x34\0\0\0\x01\0\0get a\r\n", "10.77.0.5:11211").is_ok()
                && socket.recv(&mut answer).is_ok_and(|count| answer[8..count].starts_with(b"VALUE a 0 5\r\nhello"))
        });
        ends(server, Signal::TERM, directory.path());
    });
}

#[test]
fn nginx_with_workers_serves_both_and_reloads() {
    scenario(|| {
        let site = Pages::new().with("index.html", "It flows.").with("large.bin", Pages::pattern(3_000_000));
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().display();
        let config = format!(
            "user root; daemon off; worker_processes 2; error_log stderr; pid {at}/pid; events {{ }}\n\
             http {{ access_log off; sendfile on; client_body_temp_path {at}/b; proxy_temp_path {at}/p; \
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen 80; root {}; }} }}\n",
            site.argument()
        );
        std::fs::write(directory.path().join("nginx.conf"), config).expect("a file");
        let file = format!("{at}/nginx.conf");
        let server = run(directory.path(), &["nginx", "-c", &file]).start();
        let get = |url: &str| Program::new("curl").arguments(["-sS", "-m", "5", url]).run();
        eventually("nginx answers", PATIENCE, || get("http://10.77.0.2/").text() == "It flows.");
        // All addresses: the kernel's too.
        assert_eq!(get("http://127.0.0.1/").text(), "It flows.");
        assert_eq!(get("http://10.77.0.2/large.bin").stdout, Pages::pattern(3_000_000), "by sendfile");
        let many = Program::new("wrk").arguments(["-t1", "-c16", "-d1", "--timeout", "20s", "http://10.77.0.2/"]).run();
        assert!(!many.text().contains("Socket errors") && many.text().contains("requests in"), "{}", many.text());
        // New workers, forked from the master, with the listeners it has.
        site.write("index.html", "It flows on.");
        signal(&server, Signal::HUP);
        eventually("after the reload", PATIENCE, || get("http://10.77.0.2/").text() == "It flows on.");
        ends(server, Signal::QUIT, directory.path());
    });
}

#[test]
fn a_killed_program_has_its_connections_ended() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for by in [Signal::KILL, Signal::TERM] {
            let server =
                run(directory.path(), &["redis-server", "--bind", OURS, "--protected-mode", "no", "--save", ""])
                    .start();
            eventually("redis answers", PATIENCE, || ask(6379, "PING\r\n", 7).as_deref() == Some("+PONG\r\n"));
            let mut stream = TcpStream::connect((OURS, 6379)).expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
            stream.write_all(b"PING\r\n").expect("sent");
            let mut answer = [0; 7];
            stream.read_exact(&mut answer).expect("an answer");
            // Killed in the middle of the stack's work a program leaves the stack as no one can go on with (docs/posix.md).
            sleeps(server.id());
            signal(&server, by);
            let ended = stream.read(&mut answer);
            assert!(
                matches!(ended, Ok(0)) || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
            );
            drop(stream);
            server.wait(PATIENCE);
            eventually("its card is gone", PATIENCE, || cards(directory.path()) == 0);
        }
    });
}

#[test]
fn a_stopped_programs_peers_are_answered() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!(
            "import socket\ns = socket.create_server(('{OURS}', 7000))\nwhile True: s.accept()[0].sendall(b'hello')"
        );
        let server = run(directory.path(), &["python3", "-c", &script]).start();
        eventually("it answers", PATIENCE, || ask(7000, "", 5).as_deref() == Some("hello"));
        sleeps(server.id());
        signal(&server, Signal::STOP);
        // As on Linux: the program does nothing, its sockets do.
        let address = format!("{OURS}:7000").parse().expect("an address");
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection to a stopped program");
        signal(&server, Signal::CONT);
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).expect("an answer, once it goes on");
        assert_eq!(&answer, b"hello");
        // A connection that only one side has closed outlives its program, as on Linux.
        drop(stream);
        ends(server, Signal::TERM, directory.path());
    });
}

/// Without a daemon, too, a program's processes share the frames they receive: a worker and the keeper have what the first
/// process would have had.
#[test]
fn on_a_given_interface_workers_serve_and_a_stopped_program_is_stood_in_for() {
    scenario(|| {
        let wire = Wire::new();
        let directory = tempfile::tempdir().expect("a directory");
        let script = "import os, socket\nos.setpgid(0, 0)\n\
            s = socket.create_server(('10.78.9.3', 7000))\n\
            if (worker := os.fork()) == 0:\n    \
                while True: s.accept()[0].sendall(b'hello')\n\
            print(worker, file=open('worker', 'w'))\n\
            os.wait()";
        let worker = directory.path().join("worker.py");
        std::fs::write(&worker, script).expect("a file");
        let server = Program::new(qanat())
            .arguments(["run", "--interface", Wire::NEAR, "--address", "10.78.9.3/24", "--", "python3"])
            .arguments([&worker])
            .directory(directory.path())
            .start();
        let hello = |stream: &mut TcpStream| {
            let mut answer = [0; 5];
            stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a time limit");
            stream.read_exact(&mut answer).is_ok_and(|()| &answer == b"hello")
        };
        let connect = || {
            let address = "10.78.9.3:7000".parse().expect("an address");
            wire.far(|| TcpStream::connect_timeout(&address, PATIENCE)).ok()
        };
        eventually("the worker answers", PATIENCE, || connect().is_some_and(|mut stream| hello(&mut stream)));
        let all = |by| {
            let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process_group(group, by).expect("a signal to all of them");
        };
        let id = std::fs::read_to_string(directory.path().join("worker")).expect("its number");
        sleeps(id.trim().parse().expect("a number"));
        all(Signal::STOP);
        let mut stream = connect().expect("a connection to a stopped program");
        all(Signal::CONT);
        assert!(hello(&mut stream), "it goes on");
        all(Signal::TERM);
        server.wait(PATIENCE);
    });
}

#[test]
fn an_ordinary_users_client_asks_the_kernels_server() {
    scenario(|| {
        let site = Pages::new().with("index.html", "It flows.");
        let directory = tempfile::tempdir().expect("a directory");
        let command = qanat_for_anybody(directory.path());
        let library = qanat().with_file_name("libqanat_posix.so");
        std::fs::copy(&library, directory.path().join("libqanat.so")).expect("the library beside the command");
        let policy = directory.path().join("policy.toml");
        std::fs::write(
            &policy,
            "group = \"nogroup\"\n[[rule]]\nname = \"all\"\nusers = [\"nobody\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"tcp/30000-40000\"]\n",
        )
        .expect("a file");
        let socket = directory.path().join("control.sock");
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]);
        let daemon = daemon.arguments(["--config"]).arguments([&policy]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        // Any address of this machine's will do: it is reached by the card's link.
        Program::new("ip").arguments(["address", "add", "10.77.0.1/32", "dev", "lo"]).succeeds();
        let words = ["-m", "http.server", "8000", "--bind", "10.77.0.1", "--directory", site.argument()];
        let _server = Program::new("python3").arguments(words).start();
        let get = || {
            let words = ["run", "--explain", "--", "curl", "-sS", "-m", "5", "http://10.77.0.1:8000/"];
            Program::new("setpriv")
                .arguments(NOBODY)
                .arguments([&command])
                .arguments(words)
                .environment("QANAT_SOCKET", &socket)
                .run()
        };
        let mut outcome = get();
        eventually("the page", PATIENCE, || {
            outcome = get();
            outcome.text() == "It flows."
        });
        assert!(outcome.stderr.contains("connect 10.77.0.1:8000: ours"), "{}", outcome.stderr);
        let strange = Program::new("setpriv")
            .arguments(NOBODY)
            .arguments([&command])
            .arguments(["run", "--", "true"])
            .environment("QANAT_SOCKET", directory.path().join("nowhere"))
            .run();
        assert!(strange.code == Some(125) && strange.stderr.contains("sudo qanat up"), "{}", strange.stderr);
        signal(&daemon, Signal::TERM);
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
    });
}
