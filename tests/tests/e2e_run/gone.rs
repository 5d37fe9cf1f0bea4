//! The card of a program is gone for good: its user is told why, once, and the program ends, so that whoever sees to it starts it anew.

use super::{OURS, PATIENCE, ask, cards, keeper_of, run, run_with, sleeps};
use qanat_tests::e2e::{Pages, Program, Running, Wire, eventually, qanat, scenario};
use rustix::process::{Signal, kill_process};
use std::path::Path;

const LINE: &str = "the virtual card is gone";

/// It is told by calls and by `SIGTERM`, and goes on all the same; its child does nothing but wait.
const STUBBORN: &str = "\
import os, signal, socket, time
s = socket.create_server(('10.77.0.2', 7000))
if os.fork() == 0:
    while True: time.sleep(1000)
signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True))
while True:
    try: s.accept()[0].sendall(b'hello')
    except OSError: time.sleep(.1)
";

/// It makes no call on its sockets, and so hears of nothing by them.
const ASLEEP: &str = "\
import signal, socket, sys, time
def end(*_): print('told'); sys.exit(7)
signal.signal(signal.SIGTERM, end)
s = socket.create_server(('10.77.0.2', 7000))
while True: time.sleep(1000)
";

fn listens(program: &Running) {
    eventually("it listens", PATIENCE, || std::net::TcpStream::connect((OURS, 7000)).is_ok());
    sleeps(program.id());
}

fn order(directory: &Path, words: &[&str]) {
    let socket = directory.join("control.sock");
    Program::new(qanat()).arguments(words).arguments(["--socket"]).arguments([socket]).succeeds();
}

/// The first card of the daemon.
fn card(directory: &Path) -> String {
    let socket = directory.join("control.sock");
    let status = Program::new(qanat()).arguments(["status", "--json", "--socket"]).arguments([socket]).succeeds();
    let value: serde_json::Value = status.text().lines().find_map(|line| serde_json::from_str(line).ok()).expect("it");
    value["vnics"][0]["vnic"].to_string()
}

/// Each way in which a card goes, and what the line says of it.
type Cause = (&'static str, &'static str, fn(&Path, &Running));
const CAUSES: [Cause; 4] = [
    ("the daemon goes down", "interface was deleted", |directory, _| order(directory, &["down"])),
    ("the card is deleted", "interface was deleted", |directory, _| {
        order(directory, &["vnic", "delete", &card(directory)]);
    }),
    ("its interface is deleted", "interface was deleted", |_, _| {
        Program::new("ip").arguments(["link", "delete", "qanat0"]).succeeds();
    }),
    ("the keeper is killed", "qanat-keeper was", |_, program| {
        kill_process(keeper_of(program), Signal::KILL).expect("a signal");
    }),
];

#[test]
fn a_program_that_goes_on_without_its_card_is_ended_and_its_user_is_told_once() {
    for (cause, reason, happens) in CAUSES {
        scenario(|| {
            let directory = tempfile::tempdir().expect("a directory");
            let program = run(directory.path(), &["python3", "-c", STUBBORN]).start();
            listens(&program);
            happens(directory.path(), &program);
            // Its output is whole: its child, which has it too, has ended.
            let said = program.wait(PATIENCE);
            assert_eq!(said.code, None, "{cause}: a signal that it can't handle\n{}", said.stderr);
            assert_eq!(said.text().trim(), "told", "{cause}: first it was asked to\n{}", said.stderr);
            assert_eq!(said.stderr.matches(LINE).count(), 1, "{cause}: {}", said.stderr);
            let line = said.stderr.lines().find(|line| line.contains(LINE)).unwrap_or_default();
            assert!(line.contains(reason) && line.contains("start it again"), "{cause}: {line}");
        });
    }
}

#[test]
fn a_program_that_makes_no_calls_is_told_as_well_and_ends_in_its_own_way() {
    for (cause, reason, happens) in CAUSES {
        scenario(|| {
            let directory = tempfile::tempdir().expect("a directory");
            let program = run(directory.path(), &["python3", "-c", ASLEEP]).start();
            listens(&program);
            happens(directory.path(), &program);
            let said = program.wait(PATIENCE);
            assert_eq!((said.code, said.text().trim()), (Some(7), "told"), "{cause}: {}", said.stderr);
            assert_eq!(said.stderr.matches(LINE).count(), 1, "{cause}: {}", said.stderr);
            assert!(said.stderr.contains(reason), "{cause}: {}", said.stderr);
        });
    }
}

/// Who started it has no card, and neither has a program beside it that has lost none.
#[test]
fn nobody_else_is_ended() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("server.py");
        std::fs::write(&file, ASLEEP.replace("end)", "signal.SIG_DFL)")).expect("a file");
        let script = format!("python3 {} & wait $!; echo ended with $?; exec sleep 1000", file.display());
        let mut shell = run(directory.path(), &["sh", "-c", &script]).start();
        eventually("it listens", PATIENCE, || std::net::TcpStream::connect((OURS, 7000)).is_ok());
        let words = ["--address", "10.77.0.3/24"];
        let other = STUBBORN.replace("10.77.0.2", "10.77.0.3");
        let mut beside = run_with(directory.path(), &words, &["python3", "-c", &other]).start();
        eventually("the other listens", PATIENCE, || std::net::TcpStream::connect(("10.77.0.3", 7000)).is_ok());
        order(directory.path(), &["vnic", "delete", &card(directory.path())]);
        eventually("its card is gone", PATIENCE, || cards(directory.path()) == 1);
        let shells = shell.id().to_string();
        eventually("the program has ended, and the shell goes on", PATIENCE, || {
            std::fs::read_to_string(format!("/proc/{shells}/comm")).is_ok_and(|name| name == "sleep\n")
        });
        // For longer than any of the signals would take.
        std::thread::sleep(std::time::Duration::from_secs(7));
        assert!(shell.is_running() && beside.is_running());
        shell.kill();
        let said = shell.wait(PATIENCE);
        assert!(said.text().contains("ended with 143"), "{}{}", said.text(), said.stderr);
        beside.kill();
        assert!(!beside.wait(PATIENCE).stderr.contains(LINE));
    });
}

/// Its master keeps root's rights, and the keeper has become as little as its workers.
#[test]
fn nginx_ends_with_its_card() {
    for (cause, _, happens) in CAUSES {
        scenario(|| {
            let directory = tempfile::tempdir().expect("a directory");
            let site = Pages::new().with("index.html", "It flows.");
            let text = format!(
                "daemon off; user nobody nogroup; worker_processes 2; pid {0}/pid; error_log {0}/log; events {{}}\n\
                 http {{ access_log off; server {{ listen {OURS}:7000; root {1}; }} }}",
                directory.path().display(),
                site.argument()
            );
            let path = directory.path().join("nginx.conf");
            std::fs::write(&path, text).expect("a file");
            let words = ["nginx", "-q", "-c", path.to_str().expect("a path")];
            let program = run(directory.path(), &words).start();
            eventually("it answers", PATIENCE, || {
                ask(7000, "GET / HTTP/1.0\r\n\r\n", 15).is_some_and(|said| said.starts_with("HTTP/1.1"))
            });
            sleeps(program.id());
            happens(directory.path(), &program);
            let id = program.id().to_string();
            let said = program.wait(PATIENCE);
            // nginx makes its log its standard error.
            let log = std::fs::read_to_string(directory.path().join("log")).expect("its log");
            assert_eq!(log.matches(LINE).count(), 1, "{cause}: {log}{}", said.stderr);
            let workers = Program::new("pgrep").arguments(["-P", &id]).run();
            assert!(workers.text().is_empty(), "{cause}: its workers, too");
        });
    }
}

#[test]
fn a_card_on_an_interface_there_is_goes_with_that() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let wire = Wire::new();
        let script = ASLEEP.replace("10.77.0.2", "10.78.9.3");
        let words = ["--interface", Wire::NEAR, "--address", "10.78.9.3/24"];
        let program = run_with(directory.path(), &words, &["python3", "-c", &script]).start();
        eventually("it has a card", PATIENCE, || keepers(&program) == 1);
        sleeps(program.id());
        Program::new("ip").arguments(["link", "delete", Wire::NEAR]).succeeds();
        let said = program.wait(PATIENCE);
        assert_eq!((said.code, said.text().trim()), (Some(7), "told"), "{}", said.stderr);
        assert_eq!(said.stderr.matches(LINE).count(), 1, "{}", said.stderr);
        drop(wire);
    });
}

fn keepers(program: &Running) -> usize {
    let words = ["--ns", &program.id().to_string(), "--nslist", "net", "-x", "qanat-keeper"];
    Program::new("pgrep").arguments(words).run().text().lines().count()
}
