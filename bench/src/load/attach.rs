//! Putting the native loader on the wire: the interface that leads to the server, and addresses nobody uses there.
//!
//! The loader's addresses are taken whole by the XDP program (ARP included); all other traffic of the interface, and the
//! kernel's own addresses, stay with the kernel.

use super::http::LoadError;
use qanat::nic::af_xdp::{AttachConfig, Interface, Rule};
use qanat::nic::link::{self, Route};
use qanat::nic::{MemoryPlan, Vnic};
use qanat::{Config, Runtime};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Own addresses taken unless told otherwise: each has some 28,000 ports and more, so four outlast the server's
/// TIME-WAIT at any rate one core can make.
pub const ADDRESSES_DEFAULT: usize = 4;
/// Addresses asked about at once, at most.
const CANDIDATES_MAX: usize = 64;
/// How long a neighbour may take to say that an address is its own.
const PROBE_WAIT: Duration = Duration::from_millis(100);
/// Largest layer-3 packet that fits a 2,048-byte frame beside AF_XDP's own room.
const SMALL_FRAME_MTU_MAX: u16 = 1_700;

/// What to attach with.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Own addresses; empty: [`address_count`](Self::address_count) unused ones of the interface's subnet.
    pub addresses: Vec<IpAddr>,
    /// How many to find.
    pub address_count: usize,
    /// Connections that will be busy at once.
    pub connections: usize,
}

/// A runtime on the wire.
pub struct Attached {
    /// To run the load on.
    pub runtime: Runtime,
    /// Its addresses.
    pub sources: Vec<IpAddr>,
    /// The interface's name.
    pub interface: String,
    /// Keeps the program attached.
    _attachment: Interface,
}

/// Attaches to the interface that leads to `peer`, with AF_XDP.
///
/// # Errors
/// No route, the address is this machine's own (use the kernel client), no unused address, or the device's refusal.
pub fn attach(peer: SocketAddr, options: &AttachOptions) -> Result<Attached, LoadError> {
    let route = link::route_to(peer.ip())
        .map_err(|error| LoadError::System { what: format!("no route to {}; check the address", peer.ip()), error })?;
    let no_link = |error| LoadError::System { what: "look at the interface".to_owned(), error };
    let interface = link::link_by_index(route.interface_index).map_err(no_link)?;
    if route.is_local || interface.name == "lo" {
        return Err(LoadError::Option(format!(
            "{} is this machine itself: its traffic passes no interface to attach to; use --kernel",
            peer.ip()
        )));
    }
    let kernel_addresses = link::addresses(route.interface_index).map_err(no_link)?;
    let next_hop = route.gateway.unwrap_or(peer.ip());
    let subnet = subnet_of(next_hop, &kernel_addresses, &route);
    let addresses = match (&options.addresses[..], subnet) {
        ([], Some((network, prefix_length))) => {
            let taken: HashSet<IpAddr> =
                kernel_addresses.iter().map(|(address, _)| *address).chain([peer.ip(), next_hop]).collect();
            unused_addresses(network, prefix_length, options.address_count.max(1), &taken).ok_or_else(|| {
                LoadError::Option(format!(
                    "no unused address found in {network}/{prefix_length} on {}; give one with --address",
                    interface.name
                ))
            })?
        }
        ([], None) => {
            return Err(LoadError::Option(format!(
                "{} has no IPv4 subnet with {next_hop} in it; give an own address with --address",
                interface.name
            )));
        }
        (given, _) => given.to_vec(),
    };
    let prefix_length = subnet.map_or(if peer.is_ipv4() { 24 } else { 64 }, |(_, prefix_length)| prefix_length);
    let device_error = |error: qanat::nic::DeviceError| LoadError::Runtime(error.to_string());
    let attachment = Interface::attach(AttachConfig {
        interface: interface.name.clone(),
        rules: addresses.iter().map(|address| Rule::whole(*address)).collect(),
        ..AttachConfig::default()
    })
    .map_err(device_error)?;
    let opener = attachment.openers().into_iter().next();
    let opener = opener.ok_or_else(|| LoadError::Runtime("the interface has no queue".to_owned()))?;
    let mtu = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
    let vnic = opener.open(memory_plan(mtu)).map_err(device_error)?;
    let config = stack_config(&addresses, prefix_length, &route, options.connections);
    let entropy = qanat::entropy()
        .map_err(|error| LoadError::System { what: "ask the kernel for random bytes".to_owned(), error })?;
    let vnic: Box<dyn Vnic> = Box::new(vnic);
    let runtime = Runtime::new(vnic, config, entropy);
    Ok(Attached { runtime, sources: addresses, interface: interface.name, _attachment: attachment })
}

fn memory_plan(mtu: u16) -> MemoryPlan {
    MemoryPlan {
        frame_size: if mtu <= SMALL_FRAME_MTU_MAX { 2_048 } else { 4_096 },
        receive_frames: 8_192,
        transmit_frames: 8_192,
        prepared_frames: 0,
    }
}

fn stack_config(addresses: &[IpAddr], prefix_length: u8, route: &Route, connections: usize) -> Config {
    let first = addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mut config = Config::new(first, prefix_length);
    config.addresses = addresses.iter().map(|address| (*address, prefix_length)).collect();
    config.gateways = route.gateway.into_iter().collect();
    // With --close a connection's end overlaps the next one's beginning.
    config.connections_max = connections * 2 + 1_024;
    config.half_open_max = 16;
    config.listeners_max = 1;
    config.udp_sockets_max = 1;
    config.timers_max = 16;
    config
}

/// The interface's IPv4 subnet that holds `next_hop`.
fn subnet_of(next_hop: IpAddr, addresses: &[(IpAddr, u8)], route: &Route) -> Option<(Ipv4Addr, u8)> {
    let IpAddr::V4(next_hop) = next_hop else { return None };
    let candidates = addresses.iter().filter_map(|(address, prefix_length)| match address {
        IpAddr::V4(address) => Some((*address, *prefix_length)),
        IpAddr::V6(_) => None,
    });
    let mut holding =
        candidates.filter(|(address, prefix_length)| network(*address, *prefix_length) == network(next_hop, *prefix_length));
    let preferred = holding.clone().find(|(address, _)| route.source == Some(IpAddr::V4(*address)));
    let (address, prefix_length) = preferred.or_else(|| holding.next())?;
    Some((Ipv4Addr::from(network(address, prefix_length)), prefix_length))
}

fn mask(prefix_length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix_length.min(32))).unwrap_or(0)
}

fn network(address: Ipv4Addr, prefix_length: u8) -> u32 {
    u32::from(address) & mask(prefix_length)
}

/// Addresses of a subnet that nobody answers for, from its upper end down. The kernel is made to ask (a datagram to the
/// discard port of each), and its neighbour table tells who answered.
fn unused_addresses(subnet: Ipv4Addr, prefix_length: u8, count: usize, taken: &HashSet<IpAddr>) -> Option<Vec<IpAddr>> {
    let candidates = candidates(subnet, prefix_length, taken);
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
    let wanted: Vec<Ipv4Addr> = candidates.take((count * 2).clamp(count, CANDIDATES_MAX.max(count))).collect();
    if let Some(probe) = probe {
        for candidate in &wanted {
            // Refusals (no neighbour yet) don't matter: the question was asked.
            let _ = probe.send_to(&[], (*candidate, 9));
        }
        std::thread::sleep(PROBE_WAIT);
    }
    let known = known_neighbours(&std::fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default());
    let unused: Vec<IpAddr> =
        wanted.into_iter().filter(|candidate| !known.contains(candidate)).map(IpAddr::V4).take(count).collect();
    (unused.len() == count).then_some(unused)
}

/// Host addresses of a subnet from its upper end down, without `taken`.
fn candidates(subnet: Ipv4Addr, prefix_length: u8, taken: &HashSet<IpAddr>) -> impl Iterator<Item = Ipv4Addr> {
    let first = u32::from(subnet);
    let last = first | !mask(prefix_length);
    let hosts = if prefix_length <= 30 { first + 1..last } else { 0..0 };
    hosts.rev().map(Ipv4Addr::from).filter(|address| !taken.contains(&IpAddr::V4(*address)))
}

/// Neighbours with a known Ethernet address (flag 2, complete) in `/proc/net/arp`.
fn known_neighbours(table: &str) -> HashSet<Ipv4Addr> {
    let complete = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        let flags = u32::from_str_radix(words.nth(1)?.strip_prefix("0x")?, 16).ok()?;
        (flags & 2 != 0).then_some(address)
    };
    table.lines().skip(1).filter_map(complete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_hosts() {
        let taken = HashSet::from(["10.0.0.6".parse().unwrap(), "10.0.0.1".parse().unwrap()]);
        let found: Vec<Ipv4Addr> = candidates(Ipv4Addr::new(10, 0, 0, 0), 29, &taken).collect();
        assert_eq!(found.first(), Some(&Ipv4Addr::new(10, 0, 0, 5)));
        assert_eq!(found.last(), Some(&Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(candidates(Ipv4Addr::new(10, 0, 0, 0), 31, &taken).count(), 0);
        assert_eq!(mask(0), 0);
        assert_eq!(mask(32), u32::MAX);
    }

    #[test]
    fn finds_the_subnet_of_the_next_hop() {
        let route = Route {
            interface_index: 1,
            gateway: None,
            source: Some("192.168.1.5".parse().unwrap()),
            is_local: false,
        };
        let addresses = [
            ("fe80::1".parse().unwrap(), 64),
            ("10.0.0.1".parse().unwrap(), 8),
            ("192.168.1.5".parse().unwrap(), 24),
        ];
        let hop = "192.168.1.77".parse().unwrap();
        assert_eq!(subnet_of(hop, &addresses, &route), Some((Ipv4Addr::new(192, 168, 1, 0), 24)));
        assert_eq!(subnet_of("172.16.0.1".parse().unwrap(), &addresses, &route), None);
        assert_eq!(subnet_of("fe80::2".parse().unwrap(), &addresses, &route), None);
    }

    #[test]
    fn reads_the_neighbour_table() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
            10.0.0.2         0x1         0x2         02:00:00:00:00:01     *        eth0\n\
            10.0.0.3         0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        assert_eq!(known_neighbours(table), HashSet::from([Ipv4Addr::new(10, 0, 0, 2)]));
    }

    #[test]
    fn this_machine_itself_needs_the_kernel() {
        let options = AttachOptions { addresses: Vec::new(), address_count: 1, connections: 1 };
        let error = attach("127.0.0.1:80".parse().unwrap(), &options).err().unwrap().to_string();
        assert!(error.contains("--kernel") || error.contains("route"), "{error}");
    }
}
