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
use qanat_nic::DeviceError;
use qanat_nic::link::{self, Feature, Namespace};
use qanat_nic::veth::{self, Veth, VethConfig};
use std::cell::{Cell, OnceCell};
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

/// The address of the client's kernel on the link of the [`OtherCard`].
pub const OTHER_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 99, 8, 1);
/// The kernel's address on that card.
pub const OTHER_KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 8, 2);
/// The address of a server with its own stack on that card.
pub const OTHER_OWN: Ipv4Addr = Ipv4Addr::new(10, 99, 8, 3);

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
    other_card: OnceCell<OtherCard>,
}

/// A second card, for the server behind a server. The client's kernel forwards between the two cards, as a machine does that has
/// given out both.
#[derive(Debug)]
pub struct OtherCard(Veth);

impl OtherCard {
    fn new(topology: &Topology) -> Result<OtherCard, HarnessError> {
        let config = VethConfig {
            host_addresses: vec![(IpAddr::V4(OTHER_GATEWAY), PREFIX_LENGTH)],
            host_namespace: Some(topology.client.clone()),
            mtu: topology.veth.device().mtu,
            ..VethConfig::default()
        };
        let card = OtherCard(veth::create(&config).map_err(|error| HarnessError::Missing(error.to_string()))?);
        let index = card.0.device().index;
        let configured = |result: std::io::Result<std::io::Result<()>>| {
            let result = result.and_then(|result| result);
            result.map_err(|error| HarnessError::system("configure the second card", error))
        };
        configured(card.namespace().within(|| link::add_address(index, IpAddr::V4(OTHER_KERNEL), PREFIX_LENGTH)))?;
        configured(card.namespace().within(|| add_route(SERVER_KERNEL, OTHER_GATEWAY)))?;
        configured(topology.server().within(|| add_route(OTHER_KERNEL, CLIENT_KERNEL)))?;
        configured(topology.client.within(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")))?;
        Ok(card)
    }

    /// Where the server on it runs.
    pub fn namespace(&self) -> &Namespace {
        self.0.namespace()
    }

    /// The interface there.
    pub fn interface(&self) -> &str {
        &self.0.device().name
    }
}

/// The network of `destination` is reached by `gateway`.
fn add_route(destination: Ipv4Addr, gateway: Ipv4Addr) -> std::io::Result<()> {
    let [a, b, c, _] = destination.octets();
    let (network, gateway) = (format!("{}/{PREFIX_LENGTH}", Ipv4Addr::new(a, b, c, 0)), gateway.to_string());
    let output = Command::new("ip").args(["route", "add", &network, "via", &gateway]).output()?;
    let said = || std::io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    output.status.success().then_some(()).ok_or_else(said)
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
        let topology =
            Topology { veth, client, client_next: Cell::new(*CLIENT_OWN.start()), other_card: OnceCell::new() };
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

    /// The second card. It is made when it is asked for first.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn other_card(&self) -> Result<&OtherCard, HarnessError> {
        if self.other_card.get().is_none() {
            // Nobody else has set it: there is one thread.
            let _ = self.other_card.set(OtherCard::new(self)?);
        }
        self.other_card.get().ok_or_else(|| HarnessError::Missing("the second card is gone".to_owned()))
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
