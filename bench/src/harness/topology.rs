//! The link peers are compared on: a veth pair between two namespaces of our own, which vanish with this process.
//!
//! ```text
//!   client's namespace                     server's namespace
//!   qanat0  10.99.7.1  ═════ veth ═════  qanat-device  10.99.7.2 (kernel's, for kernel servers)
//!   AF_XDP, 10.99.7.15…254                            10.99.7.3 (ours alone, by AF_XDP)
//! ```
//! Every run's client gets addresses no run of the last minute had: a kernel server keeps connections in TIME-WAIT for so
//! long, and answers a new process's SYN from the same address and port with a challenge instead of a connection
//! (RFC 6191 lets it accept only a later timestamp, and a new process has its own clock).

use super::HarnessError;
use qanat::nic::DeviceError;
use qanat::nic::link::{self, Feature, Namespace};
use qanat::nic::veth::{self, Veth, VethConfig};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

/// The kernel's address on the client's side.
pub const CLIENT_KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 7, 1);
/// The kernel's address on the server's side.
pub const SERVER_KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 7, 2);
/// The address of a server with its own stack.
pub const SERVER_OWN: Ipv4Addr = Ipv4Addr::new(10, 99, 7, 3);
/// Addresses of clients with their own stack: last octets.
const CLIENT_OWN: std::ops::RangeInclusive<u8> = 15..=254;
/// Prefix length of all of them.
pub const PREFIX_LENGTH: u8 = 24;

/// Offloads of the kernel's end of the veth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offloads {
    /// As the kernel creates a veth: TSO and GSO on, GRO off.
    Default,
    /// TSO, GSO and GRO off: every segment is made by the stack, as on a link that can't cut.
    Off,
}

/// The pair and its two namespaces.
#[derive(Debug)]
pub struct Topology {
    veth: Veth,
    client: Namespace,
    client_next: Cell<u8>,
}

impl Topology {
    /// Makes it.
    ///
    /// # Errors
    /// [`HarnessError::Missing`] without root; else what the kernel says.
    pub fn new(mtu: u32) -> Result<Topology, HarnessError> {
        let device_error = |error: DeviceError| HarnessError::Missing(error.to_string());
        let client = Namespace::anonymous().map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                HarnessError::Missing("benchmarks on a veth make network namespaces: run as root (sudo)".to_owned())
            }
            _ => HarnessError::system("create the client's namespace", error),
        })?;
        let config = VethConfig {
            host_addresses: vec![(IpAddr::V4(CLIENT_KERNEL), PREFIX_LENGTH)],
            host_namespace: Some(client.clone()),
            mtu,
            ..VethConfig::default()
        };
        let veth = veth::create(&config).map_err(device_error)?;
        let topology = Topology { veth, client, client_next: Cell::new(*CLIENT_OWN.start()) };
        let index = topology.veth.device().index;
        topology.in_server(move || link::add_address(index, IpAddr::V4(SERVER_KERNEL), PREFIX_LENGTH))?;
        for namespace in [topology.server(), &topology.client] {
            let loopback_up = || link::set_up(link::link("lo")?.index);
            namespace.within(loopback_up).and_then(|r| r).map_err(|e| HarnessError::system("set lo up", e))?;
        }
        Ok(topology)
    }

    /// Where clients run.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// Where servers run.
    pub fn server(&self) -> &Namespace {
        self.veth.namespace()
    }

    /// The interface in the server's namespace.
    pub fn server_interface(&self) -> &str {
        &self.veth.device().name
    }

    /// The interface in the client's namespace.
    pub fn client_interface(&self) -> &str {
        self.veth.host_name()
    }

    /// `count` addresses for a client with its own stack, those used longest ago.
    pub fn client_addresses(&self, count: usize) -> Vec<Ipv4Addr> {
        let [a, b, c, _] = CLIENT_KERNEL.octets();
        let next = || {
            let octet = self.client_next.get();
            self.client_next.set(if octet == *CLIENT_OWN.end() { *CLIENT_OWN.start() } else { octet + 1 });
            Ipv4Addr::new(a, b, c, octet)
        };
        (0..count.min(CLIENT_OWN.len())).map(|_| next()).collect()
    }

    /// Sets the offloads of the server's end.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_offloads(&self, offloads: Offloads) -> Result<(), HarnessError> {
        let name = self.server_interface().to_owned();
        self.in_server(move || set_offloads(&name, offloads))
    }

    /// Sets those of the client's end, too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_offloads_of_both(&self, offloads: Offloads) -> Result<(), HarnessError> {
        self.set_offloads(offloads)?;
        let name = self.client_interface().to_owned();
        let result = self.client.within(move || set_offloads(&name, offloads)).and_then(|result| result);
        result.map_err(|error| HarnessError::system("configure the client's end of the veth", error))
    }

    fn in_server(&self, work: impl FnOnce() -> std::io::Result<()> + Send) -> Result<(), HarnessError> {
        let result = self.server().within(work).and_then(|result| result);
        result.map_err(|error| HarnessError::system("configure the server's end of the veth", error))
    }
}

fn set_offloads(interface: &str, offloads: Offloads) -> std::io::Result<()> {
    let on = offloads == Offloads::Default;
    // With an XDP program on the other end the kernel refuses TSO whatever is asked (notes §1.4): the feature then stays
    // off without an error, and GSO cuts in software.
    link::set_feature(interface, Feature::TcpSegmentation, on)?;
    link::set_feature(interface, Feature::GenericSegmentation, on)?;
    link::set_feature(interface, Feature::GenericReceive, false)
}

/// Takes an XDP program off an interface that somebody left there: Knot does so at either end.
pub fn detach_xdp(namespace: &Namespace, interface: &str) {
    let run = || {
        let mut command = Command::new("ip");
        command.args(["link", "set", "dev", interface, "xdp", "off"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status()
    };
    // If it can't be done, the next program that attaches says so.
    let _ = namespace.within(run);
}
