//! Headers of a datagram over IPv4 and Ethernet: built once, then only lengths and checksums change.

use qanat_wire::ethernet::{self, EtherType, MacAddress};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::{checksum, ipv4, udp};
use std::net::{Ipv4Addr, SocketAddrV4};

const IP_OFFSET: usize = ethernet::HEADER_LENGTH;
const UDP_OFFSET: usize = IP_OFFSET + ipv4::HEADER_LENGTH;
/// Bytes before the payload.
pub const HEADERS_LENGTH: usize = UDP_OFFSET + udp::HEADER_LENGTH;

/// What all frames of a run begin with.
pub struct Headers {
    /// With lengths and checksums zero.
    bytes: [u8; HEADERS_LENGTH],
    /// Sum of the IP header.
    ip_sum: u16,
    /// Sum of the pseudo-header and the ports.
    udp_sum: u16,
    source: SocketAddrV4,
    target: SocketAddrV4,
}

fn put(bytes: &mut [u8], offset: usize, value: u16) {
    if let Some(place) = bytes.get_mut(offset..offset + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

fn take(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

impl Headers {
    /// From `source` to `target`; `macs` are theirs.
    pub fn new(macs: (MacAddress, MacAddress), source: SocketAddrV4, target: SocketAddrV4) -> Headers {
        let mut bytes = [0; HEADERS_LENGTH];
        let ethernet = ethernet::Header { destination: macs.1, source: macs.0, ethertype: EtherType::IPV4 };
        let ip = ipv4::Header {
            source: *source.ip(),
            destination: *target.ip(),
            protocol: Protocol::UDP,
            payload_length: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
            ecn: Ecn::NotCapable,
            dscp: 0,
        };
        let header = udp::Header { source_port: source.port(), destination_port: target.port(), payload_length: 0 };
        let (head, rest) = bytes.split_at_mut(IP_OFFSET);
        let (ip_head, udp_head) = rest.split_at_mut(ipv4::HEADER_LENGTH);
        // Lengths were made to fit.
        let _ = (ethernet.emit(head), ip.emit(ip_head), header.emit(udp_head));
        put(ip_head, 2, 0);
        put(ip_head, ipv4::CHECKSUM_OFFSET, 0);
        put(udp_head, 4, 0);
        let ip_sum = checksum::sum(ip_head);
        let pseudo = checksum::pseudo_header_v4(*source.ip(), *target.ip(), Protocol::UDP, 0);
        let udp_sum = checksum::combine(pseudo, checksum::sum(udp_head));
        Headers { bytes, ip_sum, udp_sum, source, target }
    }

    /// Writes the headers of a payload of `length` bytes, whose sum is `payload_sum`, into the first
    /// [`HEADERS_LENGTH`] bytes of `frame`.
    #[inline]
    pub fn write(&self, length: usize, payload_sum: u16, frame: &mut [u8]) {
        let Some(head) = frame.first_chunk_mut::<HEADERS_LENGTH>() else { return };
        *head = self.bytes;
        // At most a frame's.
        let udp_length = (udp::HEADER_LENGTH + length) as u16;
        let ip_length = udp_length.saturating_add(ipv4::HEADER_LENGTH as u16);
        put(head, IP_OFFSET + 2, ip_length);
        put(head, IP_OFFSET + ipv4::CHECKSUM_OFFSET, checksum::finish(checksum::combine(self.ip_sum, ip_length)));
        put(head, UDP_OFFSET + 4, udp_length);
        // The length is in the pseudo-header too.
        let lengths = checksum::combine(udp_length, udp_length);
        let sum = checksum::combine(checksum::combine(self.udp_sum, lengths), payload_sum);
        let field = match checksum::finish(sum) {
            0 => 0xffff,
            field => field,
        };
        put(head, UDP_OFFSET + udp::CHECKSUM_OFFSET, field);
    }

    /// The payload of a datagram from the target to us, without a short frame's padding; `None`: it is none.
    #[inline]
    pub fn payload_of<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let head: &[u8; HEADERS_LENGTH] = frame.first_chunk()?;
        let is_udp = head.get(12..15)? == [8, 0, 0x45] && head.get(23) == Some(&Protocol::UDP.0);
        if !is_udp || take(head, UDP_OFFSET)? != self.target.port() || take(head, UDP_OFFSET + 2)? != self.source.port()
        {
            return None;
        }
        let length = usize::from(take(head, UDP_OFFSET + 4)?).checked_sub(udp::HEADER_LENGTH)?;
        frame.get(HEADERS_LENGTH..HEADERS_LENGTH + length)
    }

    /// Own address.
    pub fn source(&self) -> Ipv4Addr {
        *self.source.ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_valid_and_answers_are_known() {
        let (source, target) = ("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:53".parse().unwrap());
        let own = MacAddress([2, 0, 0, 0, 0, 2]);
        let headers = Headers::new((MacAddress([2; 6]), own), source, target);
        for length in [1, 17, 18, 19, 33, 1_472] {
            let payload: Vec<u8> = (0..length).map(|index| (index * 7) as u8).collect();
            let mut frame = vec![0; HEADERS_LENGTH];
            frame.extend_from_slice(&payload);
            headers.write(length, checksum::sum(&payload), &mut frame);
            let packet = ipv4::Packet::parse(&frame[14..]).unwrap();
            assert!(packet.checksum_is_valid() && packet.total_length() == length + 28);
            let datagram = udp::Datagram::parse(packet.payload()).unwrap();
            assert!(datagram.checksum_is_valid(packet.pseudo_header_sum()), "{length}");
            assert_eq!(headers.payload_of(&frame), None, "a packet of ours is no answer");
            qanat_echo::turn_around(&mut frame, own).unwrap();
            frame.resize(frame.len().max(60), 0xee);
            assert_eq!(headers.payload_of(&frame), Some(&payload[..]));
            assert_eq!(headers.payload_of(&frame[..HEADERS_LENGTH + length - 1]), None, "cut");
        }
    }
}
