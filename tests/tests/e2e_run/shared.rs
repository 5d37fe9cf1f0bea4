//! A card that several programs share: whatever one hands over to its processes works as if it were alone there, and whatever the others
//! do meanwhile.

use super::{OURS, PATIENCE, ask, run_with, signal, sleeps};
use qanat_tests::e2e::{Program, Running, eventually, scenario};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

const ADDRESS: [&str; 2] = ["--address", "10.77.0.2/24"];

/// The ways to hand a listener, or connections, to another process.
const WAYS: [&str; 7] =
    ["alone", "fork", "exec", "posix_spawn", "subprocess", "listener by message", "connections by message"];

/// What the others at the address do meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Others {
    /// They wait for connections.
    Blocked,
    /// They answer as quickly as they can.
    Busy,
    /// They have been stopped in the middle of what they do.
    Stopped,
    /// One after the other is killed while it waits.
    Killed,
}

/// Another program at the address: four processes that wait at one listener.
const OTHERS: &str = "import ctypes, os, socket\n\
    l = socket.create_server(('10.77.0.2', 7000))\n\
    for _ in range(3):\n    \
        if os.fork() == 0:\n            \
            ctypes.CDLL(None).prctl(1, 9)  # It ends with its parent.\n            \
            break\n\
    while True:\n    \
        c = l.accept()[0]\n    \
        try:\n        \
            while True:\n            \
                said = c.recv(100)\n            \
                if not said: break\n            \
                c.sendall(said)\n    \
        except OSError: pass  # Its client was killed.";

/// Those that have not ended.
fn children_of(process: u32) -> Vec<Pid> {
    let list = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let is_there =
        |id: &&str| std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    list.split_whitespace().filter(is_there).filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Clients that keep the others busy until they are dropped.
struct Load(#[expect(dead_code, reason = "kept for their end")] Vec<Running>);

impl Load {
    fn new() -> Load {
        let script = "import socket\nc = socket.create_connection(('10.77.0.2', 7000))\n\
                      while True:\n    c.sendall(b'x' * 50)\n    c.recv(100)";
        Load((0..2).map(|_| Program::new("python3").arguments(["-c", script]).start()).collect())
    }
}

fn says_back(port: u16, words: &str) -> bool {
    ask(port, &format!("{words}\n"), words.len() + 1).is_some_and(|answer| answer.trim_end() == words)
}

/// Every way of handing over, beside others that do as they are said to.
fn hands_over_beside(how: Others) {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let others = run_with(directory.path(), &ADDRESS, &["python3", "-c", OTHERS]).start();
        eventually("the others answer", PATIENCE, || says_back(7_000, "hello"));
        eventually("they are four", PATIENCE, || children_of(others.id()).len() == 3);
        let load = matches!(how, Others::Busy | Others::Stopped).then(Load::new);
        let mut processes = children_of(others.id());
        let mut servers = Vec::new();
        if how == Others::Stopped {
            for process in &processes {
                kill_process(*process, Signal::STOP).expect("a signal");
            }
            signal(&others, Signal::STOP);
        }
        for (port, way) in (7_100..).zip(WAYS) {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_run/hand_over.py");
            let words = ["python3", script, way, &port.to_string()];
            let server = run_with(directory.path(), &ADDRESS, &words).start();
            eventually(&format!("{way} beside {how:?} ones begins"), PATIENCE, || says_back(port, "hello"));
            if how == Others::Killed
                && let Some(process) = processes.pop()
            {
                is_killed(process);
            }
            for round in 0..10 {
                let words = format!("{way} {round}");
                // A process that leads and has been stopped is stood in for after a while, one after the other.
                match how {
                    Others::Stopped => eventually(&words, PATIENCE, || says_back(port, &words)),
                    _ => assert!(says_back(port, &words), "{words} beside {how:?} ones"),
                }
            }
            servers.push(server);
        }
        // Who is killed in the middle of the stack's work takes the card along (docs/posix.md): not before there is none.
        drop(load);
        signal(&others, Signal::CONT);
        let rest = children_of(others.id());
        rest.iter().for_each(|process| kill_process(*process, Signal::CONT).expect("a signal"));
        eventually("the others are as they were", PATIENCE, || says_back(7_000, "hello"));
        servers.into_iter().for_each(ends_with_its_children);
        assert!(says_back(7_000, "hello"), "the others are as they were");
        ends_with_its_children(others);
    });
}

/// Killed while it waits.
fn is_killed(process: Pid) {
    sleeps(process.as_raw_nonzero().get() as u32);
    kill_process(process, Signal::KILL).expect("a signal");
}

fn ends_with_its_children(program: Running) {
    children_of(program.id()).into_iter().for_each(is_killed);
    // One that waited for them ends by itself; another sleeps, as before it was looked at for a while.
    let mut looks = 0;
    eventually("it ends, or sleeps", PATIENCE, || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap_or_default();
        looks = if stat.contains(") S ") { looks + 1 } else { 0 };
        looks > 5 || stat.is_empty() || stat.contains(") Z ")
    });
    let _ = Pid::from_raw(program.id() as i32).map(|id| kill_process(id, Signal::KILL));
    program.wait(PATIENCE);
}

#[test]
fn listeners_and_connections_are_handed_over_beside_others_that_wait() {
    hands_over_beside(Others::Blocked);
}

#[test]
fn listeners_and_connections_are_handed_over_beside_others_that_are_busy() {
    hands_over_beside(Others::Busy);
}

#[test]
fn listeners_and_connections_are_handed_over_beside_others_that_were_stopped() {
    hands_over_beside(Others::Stopped);
}

#[test]
fn listeners_and_connections_are_handed_over_beside_others_that_are_killed() {
    hands_over_beside(Others::Killed);
}

/// Fetches from each worker of a cluster of Node's, which is at port 8000.
fn cluster_answers(directory: &Path, options: &[&str], policy: &str, port: u16) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_run/cluster.js");
    let cluster = run_with(directory, options, &["node", script, policy, &port.to_string()]).start();
    let url = format!("http://{OURS}:{port}/");
    let fetch = || Program::new("curl").arguments(["-sS", "-m", "5", &url]).run().text();
    eventually("the cluster answers", PATIENCE, || fetch().starts_with("by "));
    for _ in 0..10 {
        assert!(fetch().starts_with("by "), "{policy}");
    }
    ends_with_its_children(cluster);
}

/// The master hands over connections, or the listener, by messages, beside another program that waits at the address.
#[test]
fn a_cluster_of_nodes_answers_beside_another_program() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let others = run_with(directory.path(), &ADDRESS, &["python3", "-c", OTHERS]).start();
        eventually("the others answer", PATIENCE, || says_back(7_000, "hello"));
        cluster_answers(directory.path(), &ADDRESS, "round", 8_000);
        cluster_answers(directory.path(), &ADDRESS, "none", 8_001);
        // Bound by the program alone, without an option.
        cluster_answers(directory.path(), &[], "none", 8_002);
        assert!(says_back(7_000, "hello"), "the others are as they were");
        ends_with_its_children(others);
    });
}
