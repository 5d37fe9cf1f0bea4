//! The servers compared: Knot on XDP and on the kernel, NSD, ours, and the echo in the driver that no server can beat.

use super::zone::{APEX, BenchZone};
use crate::harness::HarnessError;
use crate::harness::environment::first_line;
use crate::harness::installed::find;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::topology::{Offloads, PREFIX_LENGTH, SERVER_KERNEL, SERVER_OWN, Topology, detach_xdp};
use crate::load::dns::PORT;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a server may take to load a zone of a million names.
const START_PATIENCE: Duration = Duration::from_secs(60);
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);

/// A server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Packets sent back by the driver.
    Echo,
    /// `qanat dns`.
    Qanat,
    /// The same, taking so many packets from the device at once at most.
    QanatBatch(u16),
    /// Knot, its UDP over AF_XDP.
    KnotXdp,
    /// Knot on sockets.
    Knot,
    /// NSD.
    Nsd,
}

impl Peer {
    /// For people.
    pub fn name(self) -> String {
        match self {
            Peer::Echo => "raw echo (driver)".to_owned(),
            Peer::Qanat => "qanat dns".to_owned(),
            Peer::QanatBatch(count) => format!("qanat dns, batch {count}"),
            Peer::KnotXdp => "Knot, XDP".to_owned(),
            Peer::Knot => "Knot, sockets".to_owned(),
            Peer::Nsd => "NSD".to_owned(),
        }
    }

    /// Its address.
    pub fn address(self) -> SocketAddr {
        let address = match self {
            Peer::Echo | Peer::Qanat | Peer::QanatBatch(_) => SERVER_OWN,
            Peer::KnotXdp | Peer::Knot | Peer::Nsd => SERVER_KERNEL,
        };
        SocketAddr::new(IpAddr::V4(address), PORT)
    }
}

/// What the peers call themselves.
///
/// # Errors
/// One is missing.
pub fn versions() -> Result<Vec<String>, HarnessError> {
    let knot = first_line(Command::new(find("knotd", "knot")?).arg("-V")).unwrap_or_else(|| "Knot".to_owned());
    let nsd = first_line(Command::new(find("nsd", "nsd")?).arg("-v")).unwrap_or_else(|| "NSD".to_owned());
    Ok(vec![
        format!("{knot}: 1 UDP worker, or 1 XDP worker"),
        format!("{nsd}: 1 server, RRL off"),
        "qanat dns: 1 core, polling; qanat echo --raw: polling".to_owned(),
    ])
}

fn knot_configuration(zone: &BenchZone, topology: &Topology, xdp: bool) -> String {
    let directory = zone.directory().display();
    let xdp = if xdp { format!("xdp:\n    listen: {}\n", topology.server_interface()) } else { String::new() };
    format!(
        "server:\n    rundir: \"{directory}\"\n    user: root:root\n    listen: {SERVER_KERNEL}@{PORT}\n    \
         udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\n{xdp}\
         database:\n    storage: \"{directory}/knot-db\"\nlog:\n  - target: stderr\n    any: warning\n\
         zone:\n  - domain: {APEX}\n    file: \"{}\"\n    zonefile-sync: -1\n    zonefile-load: whole\n    \
         journal-content: none\n    semantic-checks: off\n",
        zone.master().display()
    )
}

fn nsd_configuration(zone: &BenchZone) -> String {
    let directory = zone.directory().display();
    format!(
        "server:\n  server-count: 1\n  ip-address: {SERVER_KERNEL}\n  username: \"\"\n  chroot: \"\"\n  \
         zonesdir: \"{directory}\"\n  zonelistfile: \"{directory}/nsd.list\"\n  database: \"\"\n  \
         xfrdfile: \"{directory}/nsd.xfrd\"\n  xfrdir: \"{directory}\"\n  pidfile: \"\"\n  \
         minimal-responses: yes\n  round-robin: no\n  rrl-ratelimit: 0\n\
         remote-control:\n  control-enable: no\nzone:\n  name: {APEX}\n  zonefile: {}\n",
        zone.master().display()
    )
}

/// A running server.
pub struct Server {
    running: Running,
    /// Where it answers.
    pub address: SocketAddr,
}

impl Server {
    /// Starts `peer` on processor `cpu` in the server's namespace, with `zone`, and waits until it answers.
    ///
    /// # Errors
    /// It can't be started, or ends at once: with what it said.
    pub fn start(
        peer: Peer,
        program: &Path,
        topology: &Topology,
        zone: &BenchZone,
        cpu: usize,
    ) -> Result<Server, HarnessError> {
        topology.set_offloads(Offloads::Default)?;
        let own = format!("{SERVER_OWN}/{PREFIX_LENGTH}");
        let served = format!("{APEX}={}", zone.master().display());
        let port = PORT.to_string();
        let batch = match peer {
            Peer::QanatBatch(count) => count.to_string(),
            _ => String::new(),
        };
        let on_veth = ["--direct", "--interface", topology.server_interface(), "--address", &own, "--spin", "always"];
        let (path, arguments): (PathBuf, Vec<String>) = match peer {
            Peer::Echo | Peer::Qanat | Peer::QanatBatch(_) => {
                let what: &[&str] = match peer {
                    Peer::Echo => &["echo", "--json", "--raw", "--port", &port],
                    Peer::QanatBatch(_) => &["dns", "--json", "--zone", &served, "--batch", &batch],
                    _ => &["dns", "--json", "--zone", &served],
                };
                (program.to_owned(), what.iter().chain(&on_veth).map(|word| (*word).to_owned()).collect())
            }
            Peer::KnotXdp | Peer::Knot => {
                let text = knot_configuration(zone, topology, peer == Peer::KnotXdp);
                let configuration = zone.write("knot.conf", &text)?;
                (find("knotd", "knot")?, vec!["-c".to_owned(), configuration.display().to_string()])
            }
            Peer::Nsd => {
                let configuration = zone.write("nsd.conf", &nsd_configuration(zone))?.display().to_string();
                (find("nsd", "nsd")?, ["-d", "-c", &configuration].map(str::to_owned).to_vec())
            }
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut running = start(&Spec::new(&peer.name(), path, &arguments).placed(topology.server(), cpu))?;
        match peer {
            // Its first line is the address it serves: it is ready.
            Peer::Echo | Peer::Qanat | Peer::QanatBatch(_) => drop(running.read_line()?),
            _ => {
                let answers = || topology.client().within(|| answers(peer.address())).unwrap_or(false);
                if !wait_until(START_PATIENCE, || answers() || !running.is_running()) || !running.is_running() {
                    return Err(running.failure("does not answer"));
                }
            }
        }
        running.drain();
        // Also makes the two ends know each other's Ethernet address, which kxdpgun takes from the kernel.
        let _ = topology.client().within(|| answers(peer.address()));
        Ok(Server { running, address: peer.address() })
    }

    /// Its first process.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Ends it, and takes away what it leaves on the interface.
    pub fn stop(self, topology: &Topology) {
        drop(self.running);
        detach_xdp(topology.server(), topology.server_interface());
    }

    /// A client failed with `error`: if that is because the server died, says so instead.
    pub fn explain(mut self, error: HarnessError) -> HarnessError {
        if self.running.is_running() { error } else { self.running.failure("died while it was loaded") }
    }
}

/// Whether anything comes back when the zone's SOA is asked for.
fn answers(server: SocketAddr) -> bool {
    let mut question = vec![0x51, 0x41, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in APEX.split('.') {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 6, 0, 1]);
    let ask = || -> std::io::Result<usize> {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(ANSWER_PATIENCE))?;
        socket.send(&question)?;
        socket.recv(&mut [0; 512])
    };
    ask().is_ok_and(|length| length > question.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_name_their_files() {
        let zone = BenchZone::create(1).unwrap();
        let text = nsd_configuration(&zone);
        assert!(text.contains("name: bench.example") && text.contains(&zone.master().display().to_string()));
    }
}
