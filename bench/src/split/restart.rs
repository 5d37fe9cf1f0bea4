//! A net core of the daemon's is killed: how long until there is another, and until its service serves again.

use crate::harness::HarnessError;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::scratch::Scratch;
use qanat_nic::link::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// A net core that has lived longer is started again at once.
const LIVES: Duration = Duration::from_millis(700);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 80);
/// A connection refused or not answered is tried again after this, and not when the kernel would.
const TRY: Duration = Duration::from_millis(4);
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";

/// What was found.
pub struct Found {
    /// Time until another process is there.
    pub back: Duration,
    /// Time until a page is served.
    pub served: Duration,
}

/// Kills the net core of a service of a daemon, `busy` other threads running.
pub fn killed(program: &Path, busy: usize) -> Result<Found, HarnessError> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let found = kill(program);
        over.store(true, Ordering::Relaxed);
        found
    })
}

fn kill(program: &Path) -> Result<Found, HarnessError> {
    let namespace = Namespace::anonymous()
        .map_err(|error| HarnessError::system("make a network namespace (it needs root: sudo)", error))?;
    let place = Scratch::create("restart")?;
    // Apart from the daemon's files, which whoever serves may not read.
    let root = place.path().join("site");
    std::fs::create_dir(&root).map_err(|error| HarnessError::system(format!("make {}", root.display()), error))?;
    place.write("site/file", "It flows.")?;
    let socket = place.path().join("control").display().to_string();
    let policy = place.write(
        "policy",
        format!(
            "socket = \"{socket}\"\n[net]\ncores = \"0\"\n[[rule]]\nusers = [\"root\"]\naddresses = \
             [\"10.77.0.0/24\"]\nservices = [\"any/any\"]\n"
        ),
    )?;
    let mut daemon = run(&namespace, "qanat up", program, &socket, &["up", "--config", &policy.display().to_string()])?;
    if !wait_until(PATIENCE, || Path::new(&socket).exists()) {
        return Err(daemon.failure("does not listen"));
    }
    let root = root.display().to_string();
    let mut web = run(&namespace, "qanat web", program, &socket, &["web", &root, "--placement", "split"])?;
    let daemons = daemon.id();
    let found = namespace.within(|| {
        if !wait_until(PATIENCE, serves) {
            return None;
        }
        std::thread::sleep(LIVES);
        let before = children(daemons);
        let victim = before.first().and_then(|process| Pid::from_raw(*process))?;
        let killed = Instant::now();
        kill_process(victim, Signal::KILL).ok()?;
        let is_new = || children(daemons).iter().any(|process| !before.contains(process));
        while !is_new() && killed.elapsed() < PATIENCE {}
        let back = killed.elapsed();
        while !serves() && killed.elapsed() < PATIENCE {}
        Some(Found { back, served: killed.elapsed() })
    });
    let found = found.map_err(|error| HarnessError::system("enter the namespace", error))?;
    found.ok_or_else(|| web.failure("does not serve"))
}

fn run(
    namespace: &Namespace,
    name: &str,
    program: &Path,
    socket: &str,
    arguments: &[&str],
) -> Result<Running, HarnessError> {
    let (told, program) = (format!("QANAT_SOCKET={socket}"), program.display().to_string());
    let all: Vec<&str> = [&told as &str, &program].into_iter().chain(arguments.iter().copied()).collect();
    let mut running = start(&Spec { namespace: Some(namespace.clone()), ..Spec::new(name, "/usr/bin/env", &all) })?;
    running.drain();
    Ok(running)
}

/// Processes a process has started.
fn children(process: u32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn serves() -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&SERVER, TRY) else { return false };
    let mut page = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.write_all(REQUEST).is_ok()
        && stream.read_to_string(&mut page).is_ok()
        && page.ends_with("It flows.")
}
