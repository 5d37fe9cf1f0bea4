//! `--emulate-crossing`: how often a service enters the kernel by it.

use qanat_tests::e2e::{PATIENCE, Pages, Program, Server, eventually, scenario};
use rustix::process::{Pid, Signal, kill_process};

const REQUESTS: usize = 50;

/// The null calls of a service while it answers [`REQUESTS`] requests on one connection.
fn null_calls(more: &[&str]) -> usize {
    let pages = Pages::new().with("page", Pages::pattern(100));
    let server = Server::start(&[&[pages.argument()], more].concat());
    let directory = tempfile::tempdir().expect("a directory");
    let (trace, id) = (directory.path().join("trace").display().to_string(), server.id().to_string());
    let words = ["-f", "-qq", "-e", "trace=getppid", "-o", &trace, "-p", &id];
    let strace = Program::new("strace").arguments(words).start();
    eventually("strace is attached", PATIENCE, || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    });
    let url = format!("{}?[1-{REQUESTS}]", server.url("/page"));
    Program::new("curl").arguments(["-sf", "-o", "/dev/null", &url]).patience(PATIENCE).succeeds();
    let tracer = Pid::from_raw(i32::try_from(strace.id()).expect("a number")).expect("a process");
    kill_process(tracer, Signal::INT).expect("a signal");
    strace.wait(PATIENCE);
    assert!(server.stop().leaks().is_empty());
    std::fs::read_to_string(&trace).expect("calls").lines().filter(|line| line.contains("getppid(")).count()
}

#[test]
fn each_event_and_each_command_crosses_if_it_is_to_and_none_otherwise() {
    scenario(|| {
        assert_eq!(null_calls(&[]), 0);
        let calls = null_calls(&["--emulate-crossing"]);
        println!("{calls} null calls for {REQUESTS} requests");
        // A request comes, is consumed, answered, and the answer is acknowledged: two events and two commands. The rest is the connection's.
        assert!((4 * REQUESTS..10 * REQUESTS).contains(&calls), "{calls} for {REQUESTS} requests");
    });
}

#[test]
fn calls_that_leave_the_process_anyway_are_refused_one_more() {
    let pages = Pages::new().with("page", Pages::pattern(100));
    for place in ["kernel", "split"] {
        let words = ["web", pages.argument(), "--placement", place, "--emulate-crossing"];
        let outcome = Program::new(qanat_tests::e2e::qanat()).arguments(words).patience(PATIENCE).run();
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("linked"), "{}", outcome.stderr);
    }
}
