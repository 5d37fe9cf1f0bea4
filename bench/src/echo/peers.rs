//! The echoes compared, and one run of each.

use super::options::{BenchLink, EchoBenchOptions};
use crate::harness::HarnessError;
use crate::harness::cpu;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::topology::{Offloads, PREFIX_LENGTH, SERVER_KERNEL, SERVER_OWN, Topology};
use crate::load::echo::link::{EchoLink, PairEcho};
use crate::load::echo::{EchoLoadOptions, EchoReport};
use qanat::StopHandle;
use qanat_nic::link::Namespace;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PORT: u16 = 7;
const START_PATIENCE: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_millis(200);
/// How long DPDK takes from making its socket to forwarding.
const DPDK_START: Duration = Duration::from_millis(1_500);
/// What the load says while DPDK has a socket but no interface yet, or does not forward yet; and how often it is tried again.
const NOT_YET: [&str; 2] = ["ID not found", "nothing came back"];
const ATTEMPTS_MAX: usize = 10;
/// What stands on the other end of a memif.
const MEMIF_TARGET: &str = "10.77.0.2";
/// Any address: `testpmd` takes every frame.
const DPDK_MAC: &str = "02:00:00:00:00:09";

/// An echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Raw,
    Native,
    Copies,
    /// Native, asleep between packets.
    Asleep,
    LinuxSingle,
    LinuxBatch,
    /// A datagram a call, asleep between packets.
    LinuxAsleep,
    UringSingle,
    UringBatch,
    UringAsleep,
    /// A program on sockets under `qanat run`, a datagram a call.
    Sockets,
    /// The same, with up to 64 datagrams a call.
    SocketsBatch,
    Dpdk,
}

impl Peer {
    /// Whether the library of `qanat run` stands in for the kernel.
    fn has_library(self) -> bool {
        matches!(self, Peer::Sockets | Peer::SocketsBatch)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Raw => "raw (driver)",
            Peer::Native => "native UDP",
            Peer::Copies => "UDP with copies",
            Peer::Asleep => "native UDP, sleeping",
            Peer::LinuxSingle => "Linux socket",
            Peer::LinuxBatch => "Linux, mmsg",
            Peer::LinuxAsleep => "Linux epoll, sleeping",
            Peer::UringSingle => "Linux io_uring",
            Peer::UringBatch => "Linux io_uring, batches",
            Peer::UringAsleep => "Linux io_uring, sleeping",
            Peer::Sockets => "sockets under qanat run",
            Peer::SocketsBatch => "sockets under qanat run, mmsg",
            Peer::Dpdk => "DPDK testpmd (driver)",
        }
    }
}

/// Whether DPDK's program is there.
pub(super) fn has_testpmd() -> bool {
    testpmd().is_some()
}

fn testpmd() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|path| path.join("dpdk-testpmd")).find(|path| path.exists())
}

/// The echoes that take part. The raw echo is the first, because the others are compared with it.
pub(super) fn peers_of(link: BenchLink, latency: bool, alike: bool) -> Vec<Peer> {
    if alike {
        return vec![Peer::Native, Peer::LinuxSingle, Peer::LinuxAsleep, Peer::Asleep];
    }
    let mut peers = vec![Peer::Raw, Peer::Native, Peer::Copies];
    match link {
        BenchLink::Veth => {
            peers.push(Peer::LinuxSingle);
            peers.extend(match latency {
                true => [Peer::UringSingle, Peer::LinuxAsleep, Peer::UringAsleep],
                false => [Peer::LinuxBatch, Peer::UringSingle, Peer::UringBatch],
            });
        }
        BenchLink::Memif | BenchLink::Pair => {}
    }
    if link != BenchLink::Pair && has_testpmd() {
        peers.push(Peer::Dpdk);
    }
    if latency && link != BenchLink::Pair {
        peers.push(Peer::Asleep);
    }
    peers
}

pub(super) struct Bench<'a> {
    pub(super) options: &'a EchoBenchOptions,
    pub(super) topology: Option<&'a Topology>,
    /// Keeps what echoes print. For short runs only.
    pub(super) keeps_output: bool,
}

impl Bench<'_> {
    /// One run: start the echo, load it, end it.
    pub(super) fn measure(
        &self,
        peer: Peer,
        length: usize,
        window: usize,
        alike: bool,
    ) -> Result<EchoReport, HarnessError> {
        match self.options.link {
            BenchLink::Pair => self.over_pair(peer, length, window),
            _ => self.measure_kept(peer, length, window, alike).map(|(report, _)| report),
        }
    }

    /// The same with the echo still running. Not over a pair, whose echo is a thread.
    pub(super) fn measure_kept(
        &self,
        peer: Peer,
        length: usize,
        window: usize,
        alike: bool,
    ) -> Result<(EchoReport, Running), HarnessError> {
        match (self.options.link, self.topology) {
            (BenchLink::Veth, Some(topology)) => self.over_veth(topology, peer, (length, window), alike),
            _ => self.over_memif(peer, length, window),
        }
    }

    fn over_pair(&self, peer: Peer, length: usize, window: usize) -> Result<EchoReport, HarnessError> {
        let target = format!("{MEMIF_TARGET}:{PORT}");
        let target = target.parse().map_err(|_| HarnessError::Option(format!("{target} is no address")))?;
        let mut options = EchoLoadOptions::new(target);
        (options.length, options.pace.window) = (length, window);
        (options.pace.duration, options.pace.warm_up) = (self.options.duration(), WARM_UP);
        let echo = match peer {
            Peer::Raw => PairEcho::Raw,
            Peer::Copies => PairEcho::Copies,
            _ => PairEcho::Native,
        };
        let link = EchoLink::pair(echo, false, Some(self.options.server_cpu));
        let stop = StopHandle::new().map_err(|error| HarnessError::system("make a doorbell", error))?;
        // On a thread of its own: the caller keeps its affinity.
        let loading = || {
            cpu::pin(self.options.client_cpu)?;
            link.run(&options, &stop, &mut |_| {}).map_err(|error| HarnessError::Child(error.to_string()))
        };
        let outcome = std::thread::scope(|scope| scope.spawn(loading).join());
        outcome.map_err(|_| HarnessError::Child("the load panicked".to_owned()))?
    }

    fn over_veth(
        &self,
        topology: &Topology,
        peer: Peer,
        (length, window): (usize, usize),
        alike: bool,
    ) -> Result<(EchoReport, Running), HarnessError> {
        topology.set_offloads(Offloads::Default)?;
        let is_kernel = !kernel_arguments(peer).is_empty() && !peer.has_library();
        let echo = match peer {
            Peer::Dpdk => self.start_testpmd_veth(topology)?,
            _ => self.start_echo_veth(topology, peer)?,
        };
        let target = if is_kernel { SERVER_KERNEL } else { SERVER_OWN };
        let source = topology.client_addresses(1).first().map_or_else(String::new, ToString::to_string);
        let mut more = vec!["--source".to_owned(), source];
        if peer == Peer::Dpdk {
            more.extend(["--peer-mac".to_owned(), DPDK_MAC.to_owned()]);
        }
        if alike {
            if is_kernel {
                more = vec!["--kernel".to_owned()];
            }
            if mode(peer).contains(&"never") {
                more.push("--sleep".to_owned());
            }
        }
        let client = self.load(&target.to_string(), length, window, echo.id(), &more);
        let arguments: Vec<&str> = client.iter().map(String::as_str).collect();
        let client = Spec::new("the load generator", &self.options.common.program, &arguments)
            .placed(topology.client(), self.options.client_cpu);
        self.report(&client, echo)
    }

    fn start_echo_veth(&self, topology: &Topology, peer: Peer) -> Result<Running, HarnessError> {
        let own = format!("{SERVER_OWN}/{PREFIX_LENGTH}");
        let port = PORT.to_string();
        let program = self.options.common.program.display().to_string();
        let mut arguments = match peer.has_library() {
            true => vec!["run", "--interface", topology.server_interface(), "--address", &own, "--", &program],
            false => Vec::new(),
        };
        arguments.extend(["echo", "--json", "--port", &port]);
        let kernel = kernel_arguments(peer);
        if kernel.is_empty() {
            arguments.extend(["--direct", "--interface", topology.server_interface(), "--address", &own]);
        } else {
            arguments.extend(kernel);
        }
        arguments.extend(mode(peer));
        let spec = Spec::new("qanat echo", &self.options.common.program, &arguments)
            .placed(topology.server(), self.options.server_cpu);
        let mut echo = start(&spec)?;
        echo.read_line()?;
        if !self.keeps_output {
            echo.drain();
        }
        Ok(echo)
    }

    fn over_memif(&self, peer: Peer, length: usize, window: usize) -> Result<(EchoReport, Running), HarnessError> {
        let path = std::env::temp_dir().join(format!("qanat-bench-echo-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let (echo, more) = if peer == Peer::Dpdk {
            (self.start_testpmd_memif(&path)?, vec!["--peer-mac".to_owned(), DPDK_MAC.to_owned()])
        } else {
            let link = format!("memif:{}", path.display());
            let port = PORT.to_string();
            let mut arguments = vec!["echo", "--json", "--port", &port, "--link", &link];
            arguments.extend(mode(peer));
            let mut spec = Spec::new("qanat echo", &self.options.common.program, &arguments);
            spec.cpu = Some(self.options.server_cpu);
            let mut echo = start(&spec)?;
            echo.read_line()?;
            if !self.keeps_output {
                echo.drain();
            }
            (echo, Vec::new())
        };
        let mut client = self.load(MEMIF_TARGET, length, window, echo.id(), &more);
        client.extend(["--link".to_owned(), format!("memif-slave:{}", path.display())]);
        let arguments: Vec<&str> = client.iter().map(String::as_str).collect();
        let mut spec = Spec::new("the load generator", &self.options.common.program, &arguments);
        spec.cpu = Some(self.options.client_cpu);
        let outcome = self.report(&spec, echo);
        let _ = std::fs::remove_file(&path);
        outcome
    }

    /// Starts `testpmd` with one port made of `device`, in `namespace` or here.
    fn start_testpmd(&self, device: &str, namespace: Option<&Namespace>) -> Result<Running, HarnessError> {
        let program = testpmd().ok_or_else(|| HarnessError::Missing("dpdk-testpmd".to_owned()))?;
        let cpu = self.options.server_cpu;
        let device = format!("--vdev={device}");
        let prefix = format!("--file-prefix=qanat-bench-{}", std::process::id());
        // Two logical processors on one real one: the first only waits.
        let lcores = format!("--lcores=0@{cpu},1@{cpu}");
        let arguments = [
            &lcores,
            "--no-huge",
            "--no-pci",
            "--no-telemetry",
            "-m",
            "256",
            "--iova-mode=va",
            &device,
            &prefix,
            "--",
            "--forward-mode=5tswap",
            "--auto-start",
            "--stats-period=60",
            "--total-num-mbufs=16384",
        ];
        let mut spec = Spec::new("dpdk-testpmd", program, &arguments);
        spec.namespace = namespace.cloned();
        let mut running = start(&spec)?;
        running.drain();
        Ok(running)
    }

    /// `testpmd` listening at `path`.
    fn start_testpmd_memif(&self, path: &Path) -> Result<Running, HarnessError> {
        let device = format!("net_memif0,role=server,socket={},socket-abstract=no", path.display());
        let mut running = self.start_testpmd(&device, None)?;
        if !wait_until(START_PATIENCE, || path.exists() || !running.is_running()) || !running.is_running() {
            return Err(running.failure("makes no socket"));
        }
        std::thread::sleep(DPDK_START);
        Ok(running)
    }

    /// `testpmd` on an AF_XDP socket of the server's interface.
    fn start_testpmd_veth(&self, topology: &Topology) -> Result<Running, HarnessError> {
        let device = format!("net_af_xdp0,iface={}", topology.server_interface());
        let mut running = self.start_testpmd(&device, Some(topology.server()))?;
        std::thread::sleep(DPDK_START);
        if !running.is_running() {
            return Err(running.failure("does not start on AF_XDP"));
        }
        Ok(running)
    }

    fn load(&self, target: &str, length: usize, window: usize, watch: u32, more: &[String]) -> Vec<String> {
        let mut arguments: Vec<String> = ["load", "udp"].map(str::to_owned).to_vec();
        arguments.push(format!("{target}:{PORT}"));
        for (name, value) in [
            ("--size", length.to_string()),
            ("--window", window.to_string()),
            ("--duration", format!("{}ms", self.options.duration().as_millis())),
            ("--warm-up", format!("{}ms", WARM_UP.as_millis())),
            ("--watch-process", watch.to_string()),
        ] {
            arguments.extend([name.to_owned(), value]);
        }
        arguments.push("--json".to_owned());
        arguments.extend_from_slice(more);
        arguments
    }

    /// Runs the client to its end and reads its report.
    fn report(&self, client: &Spec, mut echo: Running) -> Result<(EchoReport, Running), HarnessError> {
        let mut attempts = 0;
        let output = loop {
            attempts += 1;
            match start(client)?.output(self.options.duration() + START_PATIENCE) {
                Ok(output) => break output,
                Err(_) if !echo.is_running() => return Err(echo.failure("died while it was loaded")),
                // On a busy machine DPDK listens long before its interface is there.
                Err(HarnessError::Child(said))
                    if NOT_YET.iter().any(|text| said.contains(text)) && attempts < ATTEMPTS_MAX =>
                {
                    std::thread::sleep(DPDK_START);
                }
                Err(error) => return Err(error),
            }
        };
        let report = output.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        report.map(|report| (report, echo)).ok_or_else(|| HarnessError::Child(format!("no report in {output:?}")))
    }
}

fn mode(peer: Peer) -> Vec<&'static str> {
    match peer {
        Peer::Raw => vec!["--raw", "--spin", "always"],
        Peer::Copies => vec!["--copies", "--spin", "always"],
        Peer::Asleep | Peer::LinuxAsleep | Peer::UringAsleep => vec!["--spin", "never"],
        _ => vec!["--spin", "always"],
    }
}

/// How a kernel's peer uses its socket; empty for the others.
fn kernel_arguments(peer: Peer) -> &'static [&'static str] {
    match peer {
        Peer::LinuxSingle | Peer::LinuxAsleep | Peer::Sockets => &["--kernel", "epoll"],
        Peer::LinuxBatch | Peer::SocketsBatch => &["--kernel", "epoll", "--batch"],
        Peer::UringSingle | Peer::UringAsleep => &["--kernel", "uring"],
        Peer::UringBatch => &["--kernel", "uring", "--batch"],
        Peer::Raw | Peer::Native | Peer::Copies | Peer::Asleep | Peer::Dpdk => &[],
    }
}
