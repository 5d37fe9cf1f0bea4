//! `--app-cores` over the kernel's TCP/IP: several processes have one port, and strangers have it not.

use qanat_tests::e2e::{PATIENCE, Program, Running, connect, echoes, eventually, has_ended, process, qanat, scenario};
use rustix::process::{Signal, kill_process};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:7";

/// One process is without some of so many once in 2^31 times.
const CONNECTIONS: usize = 32;

fn echo(more: &[&str]) -> Program {
    Program::new(qanat()).arguments([&["echo", "--placement", "kernel"], more].concat())
}

/// The app cores of a service whose first process this is.
fn app_cores(leader: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{leader}/task/{leader}/children")).unwrap_or_default();
    let is_app_core = |process: &u32| {
        std::fs::read(format!("/proc/{process}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("--app-core\0"))
    };
    children.split_whitespace().filter_map(|process| process.parse().ok()).filter(is_app_core).collect()
}

/// Whether so many processes hear at the port: only then the kernel spreads connections over all.
fn are_listening(count: usize) -> bool {
    let tables = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
    tables.lines().filter(|line| line.contains(" 0100007F:0007 00000000:0000 0A ")).count() == count
}

fn start(engine: &str, count: &str) -> Running {
    let leader = echo(&["--sockets", engine, "--app-cores", count]).start();
    let wanted: usize = count.parse().expect("a number");
    eventually("all listen", PATIENCE, || are_listening(wanted) && app_cores(leader.id()).len() == wanted);
    leader
}

fn connected() -> Vec<TcpStream> {
    (0..CONNECTIONS).map(|_| connect(ADDRESS).expect("a connection")).collect()
}

/// The one's connections go with it, the others' go on, and another takes its place.
fn one_dies(engine: &str) {
    let leader = start(engine, "2");
    let mut streams = connected();
    assert!(streams.iter_mut().all(|stream| echoes(stream, 10_000)));
    let victim = app_cores(leader.id())[0];
    kill_process(process(victim.into()), Signal::KILL).expect("an app core to kill");
    eventually("another is in its place", PATIENCE, || {
        let all = app_cores(leader.id());
        all.len() == 2 && !all.contains(&victim) && are_listening(2)
    });
    let (ended, mut others): (Vec<TcpStream>, Vec<TcpStream>) =
        streams.into_iter().partition(|stream| has_ended(&mut stream.try_clone().expect("a descriptor")));
    assert!(!ended.is_empty() && !others.is_empty(), "{} of {CONNECTIONS} were its connections", ended.len());
    assert!(others.iter_mut().all(|stream| echoes(stream, 100)), "the others' go on");
    assert!(connected().iter_mut().all(|stream| echoes(stream, 100)), "the one in its place serves");
    // Datagrams are spread in the same way.
    for _ in 0..CONNECTIONS {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(ADDRESS).expect("an address");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a limit");
        eventually("an answer", PATIENCE, || socket.send(b"x").is_ok() && socket.recv(&mut [0; 1]).is_ok());
    }
    kill_process(process(leader.id().into()), Signal::INT).expect("Ctrl-C");
    let outcome = leader.wait(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(are_listening(0));
}

#[test]
fn processes_share_a_port_and_one_that_dies_is_started_again() {
    scenario(|| ["io-uring", "epoll"].iter().for_each(|engine| one_dies(engine)));
}

/// The kernel would let any process of the same user have a share.
#[test]
fn another_service_is_refused_however_many_processes_it_has() {
    scenario(|| {
        let leader = start("io-uring", "2");
        for more in [&[][..], &["--app-cores", "2"]] {
            let refused = echo(more).patience(PATIENCE).run();
            assert!(
                refused.code == Some(1) && refused.stderr.contains("another program is there"),
                "{}",
                refused.stderr
            );
        }
        assert!(are_listening(2) && app_cores(leader.id()).len() == 2);
    });
}

#[test]
fn they_end_with_who_started_them() {
    scenario(|| {
        let leader = start("io-uring", "3");
        kill_process(process(leader.id().into()), Signal::KILL).expect("the first process to kill");
        eventually("all have ended", PATIENCE, || are_listening(0));
    });
}
