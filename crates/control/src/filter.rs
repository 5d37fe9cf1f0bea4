//! Filters: convex sub-volumes of header space (Arrakis §3.3), and the parts they are made of.

pub use crate::field::{Addresses, EtherTypes, Macs, Span, Vlan};

use crate::field::as_text;
use crate::parse_error::ParseError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Which way a packet goes, seen from the VNIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the application.
    Transmit,
    /// To the application.
    Receive,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Transmit => "transmit",
            Direction::Receive => "receive",
        })
    }
}

/// Ports, inclusive: `80`, `8000-8099`, `any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl Ports {
    /// Every port.
    pub const ANY: Ports = Ports { first: 0, last: u16::MAX };

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Ports) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl FromStr for Ports {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Ports, ParseError> {
        let text = text.trim_start_matches(':');
        if matches!(text, "any" | "*") {
            return Ok(Ports::ANY);
        }
        let wrong = || ParseError(format!("`{text}` are no ports: write 80, 8000-8099 or any"));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        match (first, last) {
            // No packet has it (RFC 6335 section 6), so a rule about it would mean something else.
            (0, 0) => Err(ParseError(format!("`{text}`: port 0 is nobody's; write any for all of them"))),
            _ if first > last => Err(wrong()),
            _ => Ok(Ports { first, last }),
        }
    }
}

as_text!(Ports);

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (0, u16::MAX) => f.write_str("any"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// IP protocols, inclusive, by number; and the VNIC's own ports: `tcp/80`, `udp`, `any`, `132`, `50-51`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Service {
    /// The lowest protocol number.
    pub protocol_first: u8,
    /// The highest.
    pub protocol_last: u8,
    /// Ports on the VNIC's side; of TCP and UDP only.
    pub ports: Ports,
}

impl Service {
    /// Everything.
    pub const ANY: Service = Service { protocol_first: 0, protocol_last: u8::MAX, ports: Ports::ANY };

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Service) -> bool {
        self.protocol_first <= other.protocol_first
            && other.protocol_last <= self.protocol_last
            && self.ports.contains(other.ports)
    }
}

impl FromStr for Service {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Service, ParseError> {
        let (protocol, ports) = text.split_once('/').unwrap_or((text, "any"));
        let protocols = match protocol {
            "tcp" => (6, 6),
            "udp" => (17, 17),
            "any" | "*" => (0, u8::MAX),
            numbers => {
                let wrong =
                    || ParseError(format!("`{text}`: write tcp/80, udp, any, or protocol numbers as in 47 or 50-51"));
                let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
                let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
                if first > last {
                    return Err(wrong());
                }
                (first, last)
            }
        };
        Ok(Service { protocol_first: protocols.0, protocol_last: protocols.1, ports: ports.parse()? })
    }
}

as_text!(Service);

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.protocol_first, self.protocol_last) {
            (6, 6) => f.write_str("tcp")?,
            (17, 17) => f.write_str("udp")?,
            (0, u8::MAX) => f.write_str("any")?,
            (first, last) if first == last => write!(f, "{first}")?,
            (first, last) => write!(f, "{first}-{last}")?,
        }
        if self.ports == Ports::ANY { Ok(()) } else { write!(f, "/{}", self.ports) }
    }
}

/// A convex sub-volume of header space: all of its parts must fit. The VNIC's side and its peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The VNIC's addresses.
    pub local: Addresses,
    /// Protocol, and the VNIC's ports.
    pub service: Service,
    /// Addresses of the other side.
    pub peer: Addresses,
    /// Its ports.
    pub peer_ports: Ports,
    /// Its Ethernet address, or the next hop's towards it.
    #[serde(default)]
    pub macs: Macs,
    /// The VLAN; none unless one is named.
    #[serde(default)]
    pub vlan: Vlan,
    /// At the Ethernet level: frames of these types, whatever is in them. Else `None`: IP of both versions.
    #[serde(default)]
    pub types: Option<EtherTypes>,
}

impl Filter {
    /// A service of all own addresses, for everybody, without VLAN tag.
    pub fn service(service: Service) -> Filter {
        Filter {
            local: Addresses::ANY,
            service,
            peer: Addresses::ANY,
            peer_ports: Ports::ANY,
            macs: Macs::ANY,
            vlan: Vlan::NONE,
            types: None,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.types {
            Some(types) => write!(f, "ethernet {types}")?,
            None => write!(f, "{} {} with {}", self.service, self.local, self.peer)?,
        }
        if self.peer_ports != Ports::ANY {
            write!(f, " :{}", self.peer_ports)?;
        }
        if self.macs != Macs::ANY {
            write!(f, " at {}", self.macs)?;
        }
        if self.vlan == Vlan::NONE { Ok(()) } else { write!(f, " in VLAN {}", self.vlan) }
    }
}

/// Which header a filter is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Ethernet: peers by Ethernet address, services by EtherType.
    Ethernet,
    /// IP of both versions: peers by address, services by protocol number.
    Ip,
    /// TCP: peers by address and port, services by port.
    Tcp,
    /// UDP, likewise.
    Udp,
}

/// The paper's flags of `create_filter`: the direction, and the header the lists are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterFlags {
    /// Which way.
    pub direction: Direction,
    /// Which header.
    pub level: Level,
}

impl FilterFlags {
    /// Of what is sent.
    pub const fn transmit(level: Level) -> FilterFlags {
        FilterFlags { direction: Direction::Transmit, level }
    }

    /// Of what is received.
    pub const fn receive(level: Level) -> FilterFlags {
        FilterFlags { direction: Direction::Receive, level }
    }
}

/// One of a filter's accepted peers. What its level does not have must be left as it is by default: any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its addresses.
    pub addresses: Addresses,
    /// Its ports.
    pub ports: Ports,
    /// Its Ethernet address, or the next hop's.
    pub macs: Macs,
    /// In these VLANs; no tag by default.
    pub vlan: Vlan,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { addresses: Addresses::ANY, ports: Ports::ANY, macs: Macs::ANY, vlan: Vlan::NONE }
    }
}

/// One of a filter's accepted services, on the VNIC's side. What its level does not have must be any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The VNIC's own addresses.
    pub addresses: Addresses,
    /// TCP's or UDP's ports.
    pub ports: Ports,
    /// IP's protocols, first and last.
    pub protocols: (u8, u8),
    /// Ethernet's types.
    pub types: EtherTypes,
}

impl Default for Accepted {
    fn default() -> Accepted {
        Accepted { addresses: Addresses::ANY, ports: Ports::ANY, protocols: (0, u8::MAX), types: EtherTypes::ANY }
    }
}

/// Sub-volumes of one filter at most.
pub const VOLUMES_MAX: usize = 64;

/// Why peers and services are no filter of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VolumesError {
    /// Too many pairs.
    #[error("{peers} peers with {services} services: at most {VOLUMES_MAX} pairs")]
    TooMany {
        /// So many peers.
        peers: usize,
        /// So many services.
        services: usize,
    },
    /// Addresses where there are none.
    #[error("the Ethernet level has no IP addresses: use `ip`, tcp or udp")]
    NoAddresses,
    /// Ports where there are none.
    #[error("ports are TCP's or UDP's: use one of these levels")]
    NoPorts,
    /// EtherTypes of a level that has its own.
    #[error("EtherTypes are for the Ethernet level")]
    NoEtherTypes,
    /// Protocol numbers of a level that has its own, or none.
    #[error("protocol numbers are for the IP level")]
    NoProtocols,
}

/// For programs whose errors are texts.
impl From<VolumesError> for String {
    fn from(error: VolumesError) -> String {
        error.to_string()
    }
}

/// Every peer with every service, as the sub-volumes they are; an empty list is a wildcard.
///
/// # Errors
/// A part the level does not have, or too many of them.
pub fn volumes(level: Level, peers: &[Peer], services: &[Accepted]) -> Result<Vec<Filter>, VolumesError> {
    let (every_peer, every_service) = ([Peer::default()], [Accepted::default()]);
    let peers = if peers.is_empty() { &every_peer } else { peers };
    let services = if services.is_empty() { &every_service } else { services };
    if peers.len().saturating_mul(services.len()) > VOLUMES_MAX {
        return Err(VolumesError::TooMany { peers: peers.len(), services: services.len() });
    }
    let (has_ip, has_ports) = (level != Level::Ethernet, matches!(level, Level::Tcp | Level::Udp));
    let mut found = Vec::with_capacity(peers.len() * services.len());
    for peer in peers {
        for service in services {
            if !has_ip && (peer.addresses != Addresses::ANY || service.addresses != Addresses::ANY) {
                return Err(VolumesError::NoAddresses);
            }
            if !has_ports && (peer.ports != Ports::ANY || service.ports != Ports::ANY) {
                return Err(VolumesError::NoPorts);
            }
            if has_ip && service.types != EtherTypes::ANY {
                return Err(VolumesError::NoEtherTypes);
            }
            if level != Level::Ip && service.protocols != (0, u8::MAX) {
                return Err(VolumesError::NoProtocols);
            }
            let (protocol_first, protocol_last) = match level {
                Level::Tcp => (6, 6),
                Level::Udp => (17, 17),
                Level::Ip | Level::Ethernet => service.protocols,
            };
            found.push(Filter {
                local: service.addresses,
                service: Service { protocol_first, protocol_last, ports: service.ports },
                peer: peer.addresses,
                peer_ports: peer.ports,
                macs: peer.macs,
                vlan: peer.vlan,
                types: (!has_ip).then_some(service.types),
            });
        }
    }
    Ok(found)
}

/// A rate with burst; what is 0 is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rate {
    /// Bits a second, headers and 24 bytes of overhead a frame counted.
    pub bits_per_s: u64,
    /// Frames a second.
    pub packets_per_s: u64,
    /// Bytes that may come at once; 0: a hundredth of a second's.
    pub burst_bytes: u64,
    /// Frames that may come at once; 0: a hundredth of a second's.
    pub burst_packets: u64,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Rate = Rate { bits_per_s: 0, packets_per_s: 0, burst_bytes: 0, burst_packets: 0 };

    /// Whether `other` stays within it.
    pub fn contains(self, other: Rate) -> bool {
        let within = |ceiling: u64, wanted: u64| ceiling == 0 || (wanted != 0 && wanted <= ceiling);
        within(self.bits_per_s, other.bits_per_s) && within(self.packets_per_s, other.packets_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["tcp/80", "udp/1000-2000", "tcp", "any", "132", "50-51"] {
            assert_eq!(text.parse::<Service>().unwrap().to_string(), text);
        }
        for wrong in ["tcp/", "tcp/5-4", "tcp/65536", "tcp/0", "udp/0-0", "quic", "300", "/0", ""] {
            assert!(wrong.parse::<Service>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn volumes_contain() {
        let service = |text: &str| text.parse::<Service>().unwrap();
        assert!(service("tcp").contains(service("tcp/80")) && !service("tcp/80").contains(service("tcp")));
        assert!(Service::ANY.contains(service("udp/53")) && !service("tcp").contains(service("udp")));
        let rate = |bits_per_s| Rate { bits_per_s, ..Rate::UNLIMITED };
        assert!(Rate::UNLIMITED.contains(rate(5)) && rate(5).contains(rate(4)));
        assert!(!rate(5).contains(rate(6)) && !rate(5).contains(Rate::UNLIMITED));
    }
    #[test]
    fn lists_are_volumes() {
        let peers = ["10.0.0.0/8", "fd00::/8"].map(|text| Peer { addresses: text.parse().unwrap(), ..Peer::default() });
        let services =
            [80, 443].map(|port| Accepted { ports: Ports { first: port, last: port }, ..Accepted::default() });
        let found: Vec<String> =
            volumes(Level::Tcp, &peers, &services).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 4);
        assert_eq!(found[0], "tcp/80 any with 10.0.0.0/8");
        assert_eq!(volumes(Level::Udp, &[], &[]).unwrap(), [Filter::service("udp".parse().unwrap())]);
        let types = Accepted { types: "0x88b5".parse().unwrap(), ..Accepted::default() };
        assert_eq!(volumes(Level::Ethernet, &[], &[types]).unwrap()[0].to_string(), "ethernet 0x88b5");
        assert!(volumes(Level::Ethernet, &peers, &[]).is_err() && volumes(Level::Ip, &[], &services).is_err());
        assert!(
            volumes(Level::Tcp, &[], &[types]).is_err() && volumes(Level::Tcp, &peers, &[services[0]; 33]).is_err()
        );
    }
}
