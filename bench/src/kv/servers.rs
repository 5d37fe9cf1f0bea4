//! The stores that are compared: Redis on the kernel's sockets, and `qanat kv`, both with their files in one directory.

use crate::harness::HarnessError;
use crate::harness::environment::first_line;
use crate::harness::installed::find;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::scratch::Scratch;
use crate::harness::topology::{PREFIX_LENGTH, SERVER_KERNEL, SERVER_OWN, Topology};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 6_379;
/// The address of a device that `qanat kv` makes at the client's end, as users have it.
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const START_PATIENCE: Duration = Duration::from_secs(120);
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);

/// A store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// Debian's Redis.
    Redis,
    /// Valkey, of Debian's backports.
    Valkey,
    /// `qanat kv`.
    Kv,
    /// RocksDB, in process: a floor of what a durable write takes, without a network.
    RocksDb,
}

/// When a write is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Promise {
    /// When it is durable: `appendfsync always`, `--durability always`.
    Durable,
    /// At once, and it is durable a second later: `appendfsync everysec`, `--durability everysec`.
    Later,
    /// At once, and nothing is kept: Redis without any file, `--memory-only`.
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
    /// The stores that are installed; the first is what others are compared with.
    pub(super) fn stores() -> Vec<Peer> {
        [Peer::Redis, Peer::Valkey, Peer::Kv]
            .into_iter()
            .filter(|peer| *peer != Peer::Valkey || valkey().is_ok())
            .collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Redis => "Redis",
            Peer::Valkey => "Valkey",
            Peer::Kv => "qanat kv",
            Peer::RocksDb => "RocksDB, in process",
        }
    }
}

fn valkey() -> Result<PathBuf, HarnessError> {
    find("valkey-server", "--target-release bookworm-backports valkey-server")
}

/// What the peers call themselves; one that may be missing is told of in `warnings`.
///
/// # Errors
/// Redis is missing.
pub(super) fn versions(warnings: &mut Vec<String>) -> Result<Vec<String>, HarnessError> {
    let told = |path| first_line(Command::new(path).arg("--version"));
    let mut all = vec![told(find("redis-server", "redis-server")?).unwrap_or_else(|| "Redis".to_owned())];
    match valkey() {
        Ok(path) => all.push(told(path).unwrap_or_else(|| "Valkey".to_owned())),
        Err(missing) => warnings.push(format!("without Valkey: {missing}")),
    }
    all.push("qanat kv: one thread, and its disk's io_uring in it".to_owned());
    Ok(all)
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
            (Peer::Redis | Peer::Valkey | Peer::RocksDb, _) => (SERVER_KERNEL, topology.server()),
            (Peer::Kv, Asked::ByOurs) => (SERVER_OWN, topology.server()),
            (Peer::Kv, Asked::ByKernel) => (DEVICE, topology.client()),
        };
        let program = match peer {
            Peer::Redis => find("redis-server", "redis-server")?,
            Peer::Valkey => valkey()?,
            Peer::Kv => own.to_owned(),
            Peer::RocksDb => return Err(HarnessError::Option("RocksDB is no server".to_owned())),
        };
        let directory = emptied(scratch)?;
        let words = match peer {
            Peer::Redis | Peer::Valkey | Peer::RocksDb => of_redis(promise, address, &directory),
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
    let address = address.to_string();
    let mut words = vec!["--bind", &address, "--protected-mode", "no", "--save", "", "--dir", directory];
    words.extend(match promise {
        Promise::Durable => ["--appendonly", "yes", "--appendfsync", "always"],
        Promise::Later => ["--appendonly", "yes", "--appendfsync", "everysec"],
        Promise::Nothing => ["--appendonly", "no", "--appendfsync", "no"],
    });
    words.into_iter().map(str::to_owned).collect()
}

/// `interface`: where the load's stack is at the other end.
fn of_kv(promise: Promise, address: Ipv4Addr, directory: &str, interface: Option<&str>) -> Vec<String> {
    let (disk, address) = (format!("{directory}/kv.img"), format!("{address}/{PREFIX_LENGTH}"));
    let on_disk = |durability| vec!["kv", "--disk", &disk, "--size", "4G", "--durability", durability];
    let mut words = match promise {
        Promise::Durable => on_disk("always"),
        Promise::Later => on_disk("everysec"),
        Promise::Nothing => vec!["kv", "--memory-only"],
    };
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
        let own = of_kv(Promise::Nothing, DEVICE, "/d", None).join(" ");
        assert!(own.contains("--memory-only") && !own.contains("--interface") && !own.contains("--disk"), "{own}");
        let [redis, own] = [of_redis(Promise::Later, DEVICE, "/d"), of_kv(Promise::Later, DEVICE, "/d", None)];
        assert!(redis.contains(&"everysec".to_owned()) && own.contains(&"everysec".to_owned()));
    }
}
