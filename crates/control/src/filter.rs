//! Filters: convex sub-volumes of header space (Arrakis §3.3), and the parts they are made of.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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

/// The addresses that begin with the same bits: `10.77.0.0/24`, or `any` (of both families).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// As 128 bits, IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
    bits: u128,
    length: u8,
}

impl Prefix {
    /// Every address.
    pub const ANY: Prefix = Prefix { bits: 0, length: 0 };

    /// The first `length` bits of `address`.
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        let (mapped, before) = match address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), 96),
            IpAddr::V6(address) => (address, 0),
        };
        let length = length.checked_add(before).filter(|length| *length <= 128)?;
        Some(Prefix { bits: mapped.to_bits() & mask(length), length })
    }

    /// One address.
    pub fn host(address: IpAddr) -> Prefix {
        let mapped = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Prefix { bits: mapped.to_bits(), length: 128 }
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Prefix) -> bool {
        self.length <= other.length && other.bits & mask(self.length) == self.bits
    }

    /// The bits, and those of them that count, as the fence compares them.
    pub fn octets(self) -> ([u8; 16], [u8; 16]) {
        (self.bits.to_be_bytes(), mask(self.length).to_be_bytes())
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        if matches!(text, "any" | "*") {
            return Ok(Prefix::ANY);
        }
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let wrong = || format!("`{text}` is no address or prefix: write 10.77.0.0/24, fd00::1 or any");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(longest), str::parse).map_err(|_| wrong())?;
        Prefix::new(address, length).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Prefix, String> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        match (self.length, address.to_ipv4_mapped()) {
            (0, _) => f.write_str("any"),
            (96.., Some(address)) => write_prefix(f, Ipv4Addr::into(address), self.length - 96, 32),
            (length, _) => write_prefix(f, address.into(), length, 128),
        }
    }
}

fn write_prefix(f: &mut fmt::Formatter<'_>, address: IpAddr, length: u8, longest: u8) -> fmt::Result {
    if length == longest { write!(f, "{address}") } else { write!(f, "{address}/{length}") }
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
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let text = text.trim_start_matches(':');
        if matches!(text, "any" | "*") {
            return Ok(Ports::ANY);
        }
        let wrong = || format!("`{text}` are no ports: write 80, 8000-8099 or any");
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first <= last { Ok(Ports { first, last }) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for Ports {
    type Error = String;

    fn try_from(text: String) -> Result<Ports, String> {
        text.parse()
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> String {
        ports.to_string()
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (0, u16::MAX) => f.write_str("any"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// IP protocols, inclusive, by number; and the VNIC's own ports: `tcp/80`, `udp`, `any`, `132`.
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
    type Err = String;

    fn from_str(text: &str) -> Result<Service, String> {
        let (protocol, ports) = text.split_once('/').unwrap_or((text, "any"));
        let protocols = match protocol {
            "tcp" => (6, 6),
            "udp" => (17, 17),
            "any" | "*" => (0, u8::MAX),
            number => {
                let number = number.parse().map_err(|_| format!("`{text}`: write tcp/80, udp, any or a number"))?;
                (number, number)
            }
        };
        Ok(Service { protocol_first: protocols.0, protocol_last: protocols.1, ports: ports.parse()? })
    }
}

impl TryFrom<String> for Service {
    type Error = String;

    fn try_from(text: String) -> Result<Service, String> {
        text.parse()
    }
}

impl From<Service> for String {
    fn from(service: Service) -> String {
        service.to_string()
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.protocol_first, self.protocol_last) {
            (6, 6) => f.write_str("tcp")?,
            (17, 17) => f.write_str("udp")?,
            (0, u8::MAX) => f.write_str("any")?,
            (first, _) => write!(f, "{first}")?,
        }
        if self.ports == Ports::ANY { Ok(()) } else { write!(f, "/{}", self.ports) }
    }
}

/// What a filter covers: the VNIC's side and its peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The VNIC's addresses.
    pub local: Prefix,
    /// Protocol, and the VNIC's ports.
    pub service: Service,
    /// Addresses of the other side.
    pub peer: Prefix,
    /// Its ports.
    pub peer_ports: Ports,
}

impl Filter {
    /// A service of all own addresses, for everybody.
    pub fn service(service: Service) -> Filter {
        Filter { local: Prefix::ANY, service, peer: Prefix::ANY, peer_ports: Ports::ANY }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} with {}", self.service, self.local, self.peer)?;
        if self.peer_ports == Ports::ANY { Ok(()) } else { write!(f, " :{}", self.peer_ports) }
    }
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
        for text in ["10.77.0.0/24", "10.77.0.2", "fd00::/64", "fd00::1", "any"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["tcp/80", "udp/1000-2000", "tcp", "any", "132"] {
            assert_eq!(text.parse::<Service>().unwrap().to_string(), text);
        }
        for wrong in ["10.0.0.0/33", "fd00::/129", "x", "/", "10.0.0.1/"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
        for wrong in ["tcp/", "tcp/5-4", "tcp/65536", "quic", "300"] {
            assert!(wrong.parse::<Service>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn volumes_contain() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        assert!(prefix("10.0.0.0/8").contains(prefix("10.77.0.0/24")));
        assert!(!prefix("10.77.0.0/24").contains(prefix("10.0.0.0/8")));
        assert!(Prefix::ANY.contains(prefix("10.0.0.1")) && Prefix::ANY.contains(prefix("fd00::1")));
        assert!(!prefix("0.0.0.0/0").contains(prefix("fd00::1")), "IPv4's own any is not IPv6's");
        assert!(!prefix("0.0.0.0/0").contains(Prefix::ANY));
        let service = |text: &str| text.parse::<Service>().unwrap();
        assert!(service("tcp").contains(service("tcp/80")) && !service("tcp/80").contains(service("tcp")));
        assert!(Service::ANY.contains(service("udp/53")) && !service("tcp").contains(service("udp")));
        let rate = |bits_per_s| Rate { bits_per_s, ..Rate::UNLIMITED };
        assert!(Rate::UNLIMITED.contains(rate(5)) && rate(5).contains(rate(4)));
        assert!(!rate(5).contains(rate(6)) && !rate(5).contains(Rate::UNLIMITED));
    }
}
