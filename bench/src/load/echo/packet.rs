//! A datagram as a whole frame: built once, then only its mark and checksum change.

use super::window::Mark;
use qanat::wire::ethernet::{self, EtherType, MacAddress};
use qanat::wire::ip::{Ecn, Protocol};
use qanat::wire::{checksum, ipv4, udp};
use std::net::{Ipv4Addr, SocketAddrV4};

const PAYLOAD_OFFSET: usize = ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH + udp::HEADER_LENGTH;
const CHECKSUM_AT: usize = ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH + udp::CHECKSUM_OFFSET;
/// Bytes of a mark: the first of the payload.
pub const MARK_LENGTH: usize = 8;

/// The frame all packets are copies of.
pub struct Template {
    bytes: Vec<u8>,
    /// Sum of pseudo-header, header and payload, the mark being zero.
    sum: u16,
    source: SocketAddrV4,
    target: SocketAddrV4,
}

impl Template {
    /// Frames of `length` bytes from `source` to `target`.
    pub fn new(macs: (MacAddress, MacAddress), source: SocketAddrV4, target: SocketAddrV4, length: usize) -> Template {
        let mut bytes = vec![0x5a; length.max(PAYLOAD_OFFSET + MARK_LENGTH)];
        if let Some(mark) = bytes.get_mut(PAYLOAD_OFFSET..PAYLOAD_OFFSET + MARK_LENGTH) {
            mark.fill(0);
        }
        let payload_length = bytes.len() - PAYLOAD_OFFSET;
        let ethernet = ethernet::Header { destination: macs.1, source: macs.0, ethertype: EtherType::IPV4 };
        let ip = ipv4::Header {
            source: *source.ip(),
            destination: *target.ip(),
            protocol: Protocol::UDP,
            payload_length: udp::HEADER_LENGTH + payload_length,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
            ecn: Ecn::NotCapable,
            dscp: 0,
        };
        let header = udp::Header { source_port: source.port(), destination_port: target.port(), payload_length };
        // Lengths were made to fit.
        let (head, rest) = bytes.split_at_mut(ethernet::HEADER_LENGTH);
        let _ = ethernet.emit(head);
        let (head, rest) = rest.split_at_mut(ipv4::HEADER_LENGTH);
        let _ = ip.emit(head);
        let _ = header.emit(rest);
        let pseudo = checksum::pseudo_header_v4(*source.ip(), *target.ip(), Protocol::UDP, rest.len());
        let sum = checksum::combine(pseudo, checksum::sum(rest));
        Template { bytes, sum, source, target }
    }

    /// Bytes of a frame.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the packet of `mark` into `target`, which is [`length`](Template::length) bytes long.
    #[inline]
    pub fn write(&self, mark: Mark, target: &mut [u8]) {
        target.copy_from_slice(&self.bytes);
        let mut bytes = [0; MARK_LENGTH];
        bytes[..4].copy_from_slice(&mark.slot.to_be_bytes());
        bytes[4..].copy_from_slice(&mark.uses.to_be_bytes());
        let sum = checksum::combine(self.sum, checksum::sum(&bytes));
        let field = match checksum::finish(sum) {
            0 => 0xffff,
            field => field,
        };
        if let Some(place) = target.get_mut(PAYLOAD_OFFSET..PAYLOAD_OFFSET + MARK_LENGTH) {
            place.copy_from_slice(&bytes);
        }
        if let Some(place) = target.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2) {
            place.copy_from_slice(&field.to_be_bytes());
        }
    }

    /// The mark of an answer; `None`: it is none.
    #[inline]
    pub fn mark_of(&self, bytes: &[u8]) -> Option<Mark> {
        let headers = bytes.get(12..PAYLOAD_OFFSET)?;
        let is_udp = headers.starts_with(&[8, 0, 0x45]) && headers.get(11) == Some(&17);
        let ports = headers.get(22..26)?;
        let (from, to) = (self.target.port().to_be_bytes(), self.source.port().to_be_bytes());
        if !is_udp || ports.get(..2)? != from || ports.get(2..)? != to {
            return None;
        }
        parse_mark(bytes.get(PAYLOAD_OFFSET..)?)
    }

    /// Own address.
    pub fn source(&self) -> Ipv4Addr {
        *self.source.ip()
    }
}

/// The mark at the start of a payload.
#[inline]
pub fn parse_mark(payload: &[u8]) -> Option<Mark> {
    let bytes: [u8; MARK_LENGTH] = payload.get(..MARK_LENGTH)?.try_into().ok()?;
    let [a, b, c, d, e, f, g, h] = bytes;
    Some(Mark { slot: u32::from_be_bytes([a, b, c, d]), uses: u32::from_be_bytes([e, f, g, h]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_valid_and_know_their_answers() {
        let (source, target) = ("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:7".parse().unwrap());
        let own = MacAddress([2, 0, 0, 0, 0, 2]);
        for length in [60, 61, 64, 1_514] {
            let template = Template::new((MacAddress([2; 6]), own), source, target, length);
            for mark in [Mark { slot: 0, uses: 0 }, Mark { slot: 65_535, uses: u32::MAX }, Mark { slot: 7, uses: 1 }] {
                let mut bytes = vec![0; template.length()];
                template.write(mark, &mut bytes);
                let packet = ipv4::Packet::parse(&bytes[14..]).unwrap();
                assert!(packet.checksum_is_valid() && packet.total_length() == length - 14);
                let datagram = udp::Datagram::parse(packet.payload()).unwrap();
                let pseudo =
                    checksum::pseudo_header_v4(packet.source(), packet.destination(), Protocol::UDP, datagram.length());
                assert!(datagram.checksum_is_valid(pseudo));
                assert_eq!(template.mark_of(&bytes), None, "a packet of ours is no answer");
                qanat_echo::turn_around(&mut bytes, own).unwrap();
                assert_eq!(template.mark_of(&bytes), Some(mark));
                assert_eq!(template.mark_of(&bytes[..45]), None);
            }
        }
    }
}
