//! A net core that can't be killed.

use super::cards::rule;
use qanat_control::client::Session;
use qanat_daemon::policy::Policy;
use qanat_daemon::{Daemon, Ending, Event};
use qanat_tests::e2e::{eventually, scenario, workspace};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn weapon(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(workspace().join("tests/tests/hostile_control/weapons.py")).args(arguments);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Of all children of this process, those that sleep where no signal wakes them.
fn hanging() -> usize {
    let is_hanging = |entry: &std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        line("PPid:").parse() == Ok(std::process::id()) && line("State:").starts_with('D')
    };
    std::fs::read_dir("/proc").expect("processes").flatten().filter(is_hanging).count()
}

// Attack: time and cost: a net core that hangs in the kernel and can't be killed
#[test]
fn a_net_core_that_cannot_be_killed_is_not_waited_for() {
    scenario(|| {
        // It is in the middle of closing a file whose server does not answer.
        let mut server = weapon(&["fuse"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut file = String::new();
        BufReader::new(server.stdout.take().expect("its output")).read_line(&mut file).expect("a line");
        let directory = tempfile::tempdir().expect("a directory");
        let mut policy = Policy::parse(&rule("")).expect("a policy");
        policy.socket = directory.path().join("control.sock");
        policy.net.cores = vec![0];
        let socket = policy.socket.clone();
        let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
        let quiet = |_: &Event| {};
        let mut daemon = Daemon::start(policy, stopped.into(), quiet).expect("a daemon");
        let path = file.trim().to_owned();
        let start = move |_: u32, orders: OwnedFd| -> std::io::Result<Child> {
            weapon(&["hang", &path]).stdin(Stdio::from(orders)).spawn()
        };
        daemon.start_net_cores(Box::new(start)).expect("a net core");
        let thread = std::thread::spawn(move || daemon.run());
        eventually("one hangs", Duration::from_secs(20), || hanging() > 0);
        let session = Session::connect(&socket).expect("a session");
        // It has been killed by now, or is soon; another is started, and hangs.
        eventually("another is started", Duration::from_secs(30), || {
            session.status().expect("a status").net_cores_started[0].restarts >= 2
        });
        assert!(hanging() > 0, "it was killed, and is still there");
        drop(stop);
        assert_eq!(
            thread.join().expect("no panic").expect("a way to end"),
            Ending::Down,
            "nor does the daemon's end wait for it"
        );
        assert!(hanging() > 0);
        drop(server.stdin.take());
        server.wait().expect("its end");
        eventually("with the server they end", Duration::from_secs(20), || hanging() == 0);
    });
}
