//! The stores that are compared: Redis on the kernel's sockets, and `qanat kv`, both with their files in one directory.

use crate::dns::servers::find;
use crate::harness::HarnessError;
use crate::harness::environment::first_line;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::scratch::Scratch;
use crate::harness::topology::{PREFIX_LENGTH, SERVER_KERNEL, SERVER_OWN, Topology};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 6_379;
/// The address of a device that `qanat kv` makes at the client's end, as users have it.
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const START_PATIENCE: Duration = Duration::from_secs(20);
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);

/// A store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// Debian's Redis.
    Redis,
    /// `qanat kv`.
    Kv,
}

/// When a write is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Promise {
    /// When it is durable: `appendfsync always`, `--durability always`.
    Durable,
    /// At once: Redis without any file, `--durability no`.
    Nothing,
}

/// Whose client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// One on the kernel's sockets.
    ByKernel,
    /// Ours, over AF_XDP at the other end of a veth.
    ByOurs,
}

impl Peer {
    pub(super) const ALL: [Peer; 2] = [Peer::Redis, Peer::Kv];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Redis => "Redis",
            Peer::Kv => "qanat kv",
        }
    }
}

/// What the peers call themselves.
///
/// # Errors
/// Redis is missing.
pub(super) fn versions() -> Result<Vec<String>, HarnessError> {
    let redis = find("redis-server", "redis-server")?;
    let redis = first_line(Command::new(redis).arg("--version")).unwrap_or_else(|| "Redis".to_owned());
    Ok(vec![redis, "qanat kv: one thread, and its disk's io_uring in it".to_owned()])
}

/// A running store that has no keys.
pub(super) struct Server {
    running: Running,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts it on processor `cpu`, and waits until it answers. `own` is this program.
    ///
    /// # Errors
    /// It can't be started, or does not answer: with what it said.
    pub(super) fn start(
        (peer, promise, asked): (Peer, Promise, Asked),
        own: &Path,
        topology: &Topology,
        scratch: &Scratch,
        cpu: usize,
    ) -> Result<Server, HarnessError> {
        let (address, namespace) = match (peer, asked) {
            (Peer::Redis, _) => (SERVER_KERNEL, topology.server()),
            (Peer::Kv, Asked::ByOurs) => (SERVER_OWN, topology.server()),
            (Peer::Kv, Asked::ByKernel) => (DEVICE, topology.client()),
        };
        let program = if peer == Peer::Redis { find("redis-server", "redis-server")? } else { own.to_owned() };
        let directory = emptied(scratch)?;
        let words = match peer {
            Peer::Redis => of_redis(promise, address, &directory),
            Peer::Kv => {
                of_kv(promise, address, &directory, (asked == Asked::ByOurs).then(|| topology.server_interface()))
            }
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut running = start(&Spec::new(peer.name(), program, &words).placed(namespace, cpu))?;
        running.drain();
        let address = SocketAddr::new(IpAddr::V4(address), PORT);
        let answers = || topology.client().within(|| is_ready(address)).unwrap_or(false);
        if !wait_until(START_PATIENCE, || answers() || !running.is_running()) || !running.is_running() {
            return Err(running.failure("does not answer"));
        }
        Ok(Server { running, address })
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// A client failed with `error`: if that is because the server died, says so instead.
    pub(super) fn explain(mut self, error: HarnessError) -> HarnessError {
        if self.running.is_running() { error } else { self.running.failure("died while it was loaded") }
    }
}

/// The directory in which a server has its files, with nothing in it.
fn emptied(scratch: &Scratch) -> Result<String, HarnessError> {
    let path = scratch.path().join("store");
    let made = match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => std::fs::create_dir(&path),
    };
    made.map_err(|error| HarnessError::system(format!("empty {}", path.display()), error))?;
    Ok(path.display().to_string())
}

fn of_redis(promise: Promise, address: Ipv4Addr, directory: &str) -> Vec<String> {
    let (file, address) = (if promise == Promise::Durable { "yes" } else { "no" }, address.to_string());
    let mut words = vec!["--bind", &address, "--protected-mode", "no", "--save", "", "--dir", directory];
    words.extend(["--appendonly", file, "--appendfsync", "always"]);
    words.into_iter().map(str::to_owned).collect()
}

/// `interface`: where the load's stack is at the other end.
fn of_kv(promise: Promise, address: Ipv4Addr, directory: &str, interface: Option<&str>) -> Vec<String> {
    let durability = if promise == Promise::Durable { "always" } else { "no" };
    let (disk, address) = (format!("{directory}/kv.img"), format!("{address}/{PREFIX_LENGTH}"));
    let mut words = vec!["kv", "--disk", &disk, "--size", "4G", "--durability", durability];
    words.extend(["--direct", "--address", &address, "--quiet"]);
    words.extend(interface.into_iter().flat_map(|interface| ["--interface", interface]));
    words.into_iter().map(str::to_owned).collect()
}

/// Whether it takes requests: while it has not read its files, it answers with an error.
fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_PATIENCE)?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        Ok(answer == *b"+PONG\r\n")
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_promise_the_same() {
        let redis = of_redis(Promise::Durable, SERVER_KERNEL, "/d").join(" ");
        assert!(redis.contains("--appendonly yes --appendfsync always"), "{redis}");
        assert!(of_redis(Promise::Nothing, SERVER_KERNEL, "/d").join(" ").contains("--appendonly no"));
        let own = of_kv(Promise::Durable, SERVER_OWN, "/d", Some("x")).join(" ");
        assert!(
            own.contains("--disk /d/kv.img") && own.contains("--durability always") && own.ends_with("--interface x")
        );
        assert!(!of_kv(Promise::Nothing, DEVICE, "/d", None).join(" ").contains("--interface"));
    }
}
