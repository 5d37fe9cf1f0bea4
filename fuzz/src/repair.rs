//! Sets the checksums of a mutated frame right, so that it gets past the first check.

use qanat_wire::ethernet::{EtherType, Frame};
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, icmpv4, icmpv6, ipv4, ipv6, ipv6_extension, tcp, udp};

/// Where an Ethernet frame's parts are, as far as it is well-formed.
struct Places {
    /// The IPv4 header, to be checksummed.
    ipv4_header: Option<std::ops::Range<usize>>,
    /// The transport checksum's field, what it covers, and the pseudo-header's sum.
    transport: Option<(usize, std::ops::Range<usize>, u16)>,
}

/// Sets IPv4, TCP, UDP, ICMPv4 and ICMPv6 checksums right, as far as the frame is well-formed.
pub fn frame(bytes: &mut [u8]) {
    let Some(places) = find(bytes) else { return };
    if let Some(header) = places.ipv4_header {
        set(bytes, header.start + ipv4::CHECKSUM_OFFSET, header, 0);
    }
    if let Some((field, covered, pseudo_header_sum)) = places.transport {
        set(bytes, field, covered, pseudo_header_sum);
    }
}

fn set(bytes: &mut [u8], field: usize, covered: std::ops::Range<usize>, pseudo_header_sum: u16) {
    bytes[field..field + 2].fill(0);
    let sum = checksum::combine(pseudo_header_sum, checksum::sum(&bytes[covered]));
    bytes[field..field + 2].copy_from_slice(&checksum::finish(sum).to_be_bytes());
}

fn find(bytes: &[u8]) -> Option<Places> {
    let frame = Frame::parse(bytes).ok()?;
    let start = bytes.len() - frame.payload().len();
    match frame.ethertype() {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::parse(frame.payload()).ok()?;
            let at = start + packet.header_length();
            let transport = if packet.is_fragment() {
                None
            } else {
                let length = packet.payload().len();
                let pseudo = packet.pseudo_header_sum();
                transport(packet.protocol(), at, length, pseudo)
            };
            Some(Places { ipv4_header: Some(start..at), transport })
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::parse(frame.payload()).ok()?;
            let upper = ipv6_extension::walk(&packet).ok()?;
            if upper.fragment.is_some() {
                return None;
            }
            let length = upper.payload.len();
            let pseudo = checksum::pseudo_header_v6(packet.source(), packet.destination(), upper.protocol, length);
            Some(Places {
                ipv4_header: None,
                transport: transport(upper.protocol, start + upper.offset, length, pseudo),
            })
        }
        _ => None,
    }
}

fn transport(
    protocol: Protocol,
    at: usize,
    length: usize,
    pseudo_header_sum: u16,
) -> Option<(usize, std::ops::Range<usize>, u16)> {
    let (header_length, field, pseudo_header_sum) = match protocol {
        Protocol::TCP => (tcp::HEADER_LENGTH, tcp::CHECKSUM_OFFSET, pseudo_header_sum),
        Protocol::UDP => (udp::HEADER_LENGTH, udp::CHECKSUM_OFFSET, pseudo_header_sum),
        Protocol::ICMPV4 => (icmpv4::HEADER_LENGTH, 2, 0),
        Protocol::ICMPV6 => (icmpv6::HEADER_LENGTH, 2, pseudo_header_sum),
        _ => return None,
    };
    (length >= header_length).then_some((at + field, at..at + length, pseudo_header_sum))
}
