//! Packets written and read without the project's own `wire` crate: an error there must not hide here.

use super::syntax::{Icmp, Opt};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A TCP segment with absolute numbers, and what matters of its IP header.
#[derive(Clone, Debug)]
pub struct Packet {
    /// From.
    pub source: SocketAddr,
    /// To.
    pub destination: SocketAddr,
    /// IP's ECN bits.
    pub ecn: u8,
    /// Flag byte.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Window field.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options as they stand.
    pub options: Vec<Opt>,
    /// Data.
    pub payload: Vec<u8>,
}

fn sum(bytes: &[u8], initial: u32) -> u32 {
    bytes
        .chunks(2)
        .fold(initial, |sum, pair| sum + (u32::from(pair[0]) << 8) + pair.get(1).map_or(0, |low| u32::from(*low)))
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn pseudo_sum(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u32 {
    let mut bytes = octets(source);
    bytes.extend(octets(destination));
    sum(&bytes, u32::from(protocol) + length as u32)
}

/// An IP packet.
pub fn ip_packet(source: IpAddr, destination: IpAddr, protocol: u8, ecn: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(40 + payload.len());
    if source.is_ipv4() {
        let length = (20 + payload.len()) as u16;
        packet.extend([0x45, ecn]);
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        packet.extend(octets(source));
        packet.extend(octets(destination));
        let checksum = fold(sum(&packet, 0));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet.extend([0x60, ecn << 4, 0, 0]);
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([protocol, 64]);
        packet.extend(octets(source));
        packet.extend(octets(destination));
    }
    packet.extend_from_slice(payload);
    packet
}

fn write_option(option: &Opt, bytes: &mut Vec<u8>) {
    match option {
        Opt::End => bytes.push(0),
        Opt::NoOperation => bytes.push(1),
        Opt::Mss(value) => {
            bytes.extend([2, 4]);
            bytes.extend(value.unwrap_or(0).to_be_bytes());
        }
        Opt::WindowScale(value) => bytes.extend([3, 3, value.unwrap_or(0)]),
        Opt::SackPermitted => bytes.extend([4, 2]),
        Opt::Sack(blocks) => {
            bytes.extend([5, (2 + 8 * blocks.len()) as u8]);
            for (start, end) in blocks {
                bytes.extend(start.to_be_bytes());
                bytes.extend(end.to_be_bytes());
            }
        }
        Opt::Timestamps(value, echo) => {
            bytes.extend([8, 10]);
            bytes.extend(value.unwrap_or(0).to_be_bytes());
            bytes.extend(echo.unwrap_or(0).to_be_bytes());
        }
        Opt::Raw(raw) => bytes.extend_from_slice(raw),
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_options(mut bytes: &[u8]) -> Option<Vec<Opt>> {
    let mut options = Vec::new();
    while let Some(&kind) = bytes.first() {
        if kind == 0 {
            break;
        }
        if kind == 1 {
            options.push(Opt::NoOperation);
            bytes = &bytes[1..];
            continue;
        }
        let length = usize::from(*bytes.get(1)?);
        let option = bytes.get(..length.max(2))?;
        options.push(match (kind, length) {
            (2, 4) => Opt::Mss(be16(option, 2)),
            (3, 3) => Opt::WindowScale(Some(option[2])),
            (4, 2) => Opt::SackPermitted,
            (8, 10) => Opt::Timestamps(be32(option, 2), be32(option, 6)),
            (5, _) => Opt::Sack(
                (2..length)
                    .step_by(8)
                    .map(|at| Some((be32(option, at)?, be32(option, at + 4)?)))
                    .collect::<Option<_>>()?,
            ),
            _ => Opt::Raw(option.to_vec()),
        });
        bytes = &bytes[length.max(2)..];
    }
    Some(options)
}

impl Packet {
    /// The IP packet's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut options = Vec::new();
        self.options.iter().for_each(|option| write_option(option, &mut options));
        options.resize(options.len().next_multiple_of(4), 0);
        let mut bytes = Vec::new();
        bytes.extend(self.source.port().to_be_bytes());
        bytes.extend(self.destination.port().to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgment.to_be_bytes());
        bytes.extend([((20 + options.len()) as u8) << 2, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(options);
        bytes.extend_from_slice(&self.payload);
        let pseudo = pseudo_sum(self.source.ip(), self.destination.ip(), 6, bytes.len());
        let checksum = fold(sum(&bytes, pseudo));
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        ip_packet(self.source.ip(), self.destination.ip(), 6, self.ecn, &bytes)
    }

    /// Reads an IP packet; `Ok(None)`: it is no TCP.
    ///
    /// # Errors
    /// What is malformed in it, checksums included.
    pub fn parse(bytes: &[u8]) -> Result<Option<Packet>, String> {
        let first = *bytes.first().ok_or("an empty packet")?;
        let (source, destination, protocol, ecn, payload): (IpAddr, IpAddr, u8, u8, &[u8]);
        if first >> 4 == 4 {
            let header = bytes.get(..usize::from(first & 15) * 4).ok_or("an IP header cut short")?;
            let total = usize::from(be16(bytes, 2).ok_or("an IP header cut short")?);
            let address = |at: usize| be32(header, at).map(|bits| IpAddr::from(bits.to_be_bytes()));
            (source, destination) =
                (address(12).ok_or("no source address")?, address(16).ok_or("no destination address")?);
            (protocol, ecn) = (header[9], header[1] & 3);
            payload = bytes.get(header.len()..total).ok_or("an IP packet cut short")?;
            if protocol == 6 && fold(sum(header, 0)) != 0 {
                return Err("a wrong IP header checksum".into());
            }
        } else {
            let header = bytes.get(..40).ok_or("an IP header cut short")?;
            let address =
                |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).map(IpAddr::from).map_err(|_| "address");
            (source, destination) = (address(8)?, address(24)?);
            (protocol, ecn) = (header[6], header[1] >> 4 & 3);
            let length = usize::from(be16(header, 4).ok_or("no length")?);
            payload = bytes.get(40..40 + length).ok_or("an IP packet cut short")?;
        }
        if protocol != 6 {
            return Ok(None);
        }
        if fold(sum(payload, pseudo_sum(source, destination, 6, payload.len()))) != 0 {
            return Err("a wrong TCP checksum".into());
        }
        let read = || {
            let length = usize::from(payload.get(12)? >> 4) * 4;
            Some(Packet {
                source: SocketAddr::new(source, be16(payload, 0)?),
                destination: SocketAddr::new(destination, be16(payload, 2)?),
                ecn,
                flags: *payload.get(13)?,
                sequence: be32(payload, 4)?,
                acknowledgment: be32(payload, 8)?,
                window: be16(payload, 14)?,
                urgent: be16(payload, 18)?,
                options: read_options(payload.get(20..length)?)?,
                payload: payload.get(length..)?.to_vec(),
            })
        };
        read().map(Some).ok_or_else(|| "a TCP header cut short".into())
    }
}

/// An ICMP error that quotes a segment sent from `local` to `remote` with absolute sequence number `sequence`.
pub fn icmp_error(icmp: &Icmp, router: IpAddr, local: SocketAddr, remote: SocketAddr, sequence: u32) -> Vec<u8> {
    let quoted = Packet {
        source: local,
        destination: remote,
        ecn: 0,
        flags: 16,
        sequence,
        acknowledgment: 0,
        window: 0,
        urgent: 0,
        options: Vec::new(),
        payload: vec![0; icmp.length as usize],
    };
    let quoted = quoted.to_bytes();
    let v4 = local.is_ipv4();
    let mut bytes = vec![icmp.kind, icmp.code, 0, 0];
    bytes.extend(icmp.mtu.to_be_bytes());
    let quoted_max = if v4 { 28 } else { 40 + 64 };
    bytes.extend_from_slice(&quoted[..quoted_max.min(quoted.len())]);
    let protocol = if v4 { 1 } else { 58 };
    let pseudo = if v4 { 0 } else { pseudo_sum(router, local.ip(), protocol, bytes.len()) };
    let checksum = fold(sum(&bytes, pseudo));
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    ip_packet(router, local.ip(), protocol, 0, &bytes)
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wild = |value: Option<u32>| value.map_or("*".to_owned(), |value| value.to_string());
        match self {
            Opt::Mss(value) => write!(f, "mss {}", wild(value.map(u32::from))),
            Opt::WindowScale(value) => write!(f, "wscale {}", wild(value.map(u32::from))),
            Opt::SackPermitted => f.write_str("sackOK"),
            Opt::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(start, end)| write!(f, " {start}:{end}"))
            }
            Opt::Timestamps(value, echo) => write!(f, "TS val {} ecr {}", wild(*value), wild(*echo)),
            Opt::NoOperation => f.write_str("nop"),
            Opt::End => f.write_str("eol"),
            Opt::Raw(raw) => write!(f, "raw:{raw:02x?}"),
        }
    }
}

/// A segment in the language of scripts.
pub fn show(flags: u8, sequence: u32, length: usize, ack: Option<u32>, window: Option<u16>, options: &[Opt]) -> String {
    let mut text = String::new();
    for (bit, letter) in [(2, 'S'), (1, 'F'), (4, 'R'), (8, 'P'), (32, 'U'), (64, 'E'), (128, 'W'), (16, '.')] {
        if flags & bit != 0 {
            text.push(letter);
        }
    }
    if flags == 0 {
        text.push('-');
    }
    text.push_str(&format!(" {sequence}:{}({length})", sequence.wrapping_add(length as u32)));
    if let Some(ack) = ack {
        text.push_str(&format!(" ack {ack}"));
    }
    if let Some(window) = window {
        text.push_str(&format!(" win {window}"));
    }
    if !options.is_empty() {
        let list: Vec<String> = options.iter().map(Opt::to_string).collect();
        text.push_str(&format!(" <{}>", list.join(",")));
    }
    text
}
