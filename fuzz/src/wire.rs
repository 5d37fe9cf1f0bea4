//! `crates/wire` on arbitrary frames: nothing panics, views stay inside what they were given, and what is emitted from
//! a view parses to the same.

use qanat_wire::ethernet::{self, EtherType, Frame, MacAddress};
use qanat_wire::ip::Protocol;
use qanat_wire::neighbor_discovery as discovery;
use qanat_wire::tcp_options::{self, Options};
use qanat_wire::{arp, checksum, icmpv4, icmpv6, ipv4, ipv6, ipv6_extension, tcp, udp, vlan};
use std::hint::black_box;

/// Reads `data` as a frame down to the transport, then as each format by itself.
pub fn wire(data: &[u8]) {
    frame(data);
    arp(data);
    ipv4(data);
    ipv6(data);
    vlan(data, 2);
    upper(Protocol::TCP, data, 0);
    upper(Protocol::UDP, data, 0);
    upper(Protocol::ICMPV4, data, 0);
    upper(Protocol::ICMPV6, data, 0);
    options(data);
    black_box(discovery::Options::parse(data).ok());
    black_box(ipv6_extension::Fragment::parse(data).ok());
    sums(data);
}

fn frame(data: &[u8]) {
    let Ok(frame) = Frame::parse(data) else { return };
    let header = ethernet::Header::parse(&frame);
    let mut bytes = [0; ethernet::HEADER_LENGTH];
    header.emit(&mut bytes).unwrap();
    assert_eq!(bytes, data[..ethernet::HEADER_LENGTH]);
    black_box((header.source.is_unicast(), header.destination.is_broadcast()));
    ethernet_payload(frame.ethertype(), frame.payload(), 2);
}

fn ethernet_payload(ethertype: EtherType, payload: &[u8], tags: u8) {
    match ethertype {
        EtherType::ARP => arp(payload),
        EtherType::IPV4 => ipv4(payload),
        EtherType::IPV6 => ipv6(payload),
        EtherType::VLAN => vlan(payload, tags),
        _ => {}
    }
}

fn vlan(data: &[u8], tags: u8) {
    let Ok(tagged) = vlan::Tagged::parse(data) else { return };
    let mut bytes = [0; vlan::TAG_LENGTH];
    vlan::Header::parse(&tagged).emit(&mut bytes).unwrap();
    assert_eq!(bytes, data[..vlan::TAG_LENGTH]);
    if tags > 0 {
        ethernet_payload(tagged.ethertype(), tagged.payload(), tags - 1);
    }
}

fn arp(data: &[u8]) {
    let Ok(packet) = arp::Packet::parse(data) else { return };
    let header = arp::Header::parse(&packet);
    let mut bytes = [0; arp::PACKET_LENGTH];
    header.emit(&mut bytes).unwrap();
    assert_eq!(bytes, data[..arp::PACKET_LENGTH]);
    let reply = header.reply(MacAddress::BROADCAST);
    assert_eq!(reply.target_protocol, header.sender_protocol);
}

fn ipv4(data: &[u8]) {
    if let Ok(quoted) = ipv4::Packet::parse_quoted(data) {
        assert!(quoted.header_length() + quoted.payload().len() <= data.len());
        assert!(quoted.header_length() + quoted.payload().len() <= quoted.total_length());
    }
    let Ok(packet) = ipv4::Packet::parse(data) else { return };
    assert_eq!(packet.header_length() + packet.payload().len(), packet.total_length());
    assert!(packet.fragment_offset() <= 65_528);
    black_box((packet.checksum(), packet.checksum_is_valid()));
    let header = ipv4::Header::parse(&packet);
    let mut bytes = vec![0; ipv4::HEADER_LENGTH + packet.payload().len()];
    header.emit(&mut bytes).unwrap();
    let again = ipv4::Packet::parse(&bytes).unwrap();
    assert!(again.checksum_is_valid() && !again.is_fragment());
    assert_eq!(ipv4::Header::parse(&again), header);
    assert_eq!(header.pseudo_header_sum(), packet.pseudo_header_sum());
    if !packet.is_fragment() {
        upper(packet.protocol(), packet.payload(), packet.pseudo_header_sum());
    }
}

fn ipv6(data: &[u8]) {
    if let Ok(quoted) = ipv6::Packet::parse_quoted(data) {
        assert!(quoted.header_length() + quoted.payload().len() <= data.len().min(quoted.total_length()));
    }
    let Ok(packet) = ipv6::Packet::parse(data) else { return };
    assert_eq!(packet.header_length() + packet.payload().len(), packet.total_length());
    let header = ipv6::Header::parse(&packet);
    let mut bytes = [0; ipv6::HEADER_LENGTH];
    header.emit(&mut bytes).unwrap();
    assert_eq!(bytes, data[..ipv6::HEADER_LENGTH]);
    let Ok(walked) = ipv6_extension::walk(&packet) else { return };
    assert_eq!(walked.offset + walked.payload.len(), packet.total_length());
    assert_eq!(walked.payload, &data[walked.offset..packet.total_length()]);
    assert_eq!(data[walked.next_header_offset], walked.protocol.0);
    if let Some(fragment) = walked.fragment {
        let mut bytes = [0; ipv6_extension::FRAGMENT_HEADER_LENGTH];
        fragment.emit(&mut bytes).unwrap();
        assert_eq!(ipv6_extension::Fragment::parse(&bytes).unwrap().0, fragment);
    } else if walked.refusal.is_none() {
        let length = walked.payload.len();
        let sum = checksum::pseudo_header_v6(packet.source(), packet.destination(), walked.protocol, length);
        upper(walked.protocol, walked.payload, sum);
    }
}

fn upper(protocol: Protocol, data: &[u8], pseudo_header_sum: u16) {
    match protocol {
        Protocol::TCP => tcp(data, pseudo_header_sum),
        Protocol::UDP => udp(data, pseudo_header_sum),
        Protocol::ICMPV4 => icmpv4(data),
        Protocol::ICMPV6 => icmpv6(data, pseudo_header_sum),
        _ => {}
    }
}

fn tcp(data: &[u8], pseudo_header_sum: u16) {
    let Ok(segment) = tcp::Segment::parse(data) else { return };
    assert_eq!(segment.header_length() + segment.payload().len(), data.len());
    black_box((segment.checksum(), segment.checksum_is_valid(pseudo_header_sum), segment.sequence_length()));
    options(segment.options());
    let Ok(header) = tcp::Header::parse(&segment) else { return };
    let mut bytes = vec![0; header.header_length()];
    assert_eq!(header.emit(&mut bytes), Ok(bytes.len()));
    tcp::write_checksum(&mut bytes, pseudo_header_sum, checksum::sum(segment.payload())).unwrap();
    let mut at_once = vec![0; bytes.len()];
    header.emit_with_checksum(&mut at_once, pseudo_header_sum, checksum::sum(segment.payload())).unwrap();
    assert_eq!(at_once, bytes);
    bytes.extend_from_slice(segment.payload());
    let again = tcp::Segment::parse(&bytes).unwrap();
    assert!(again.checksum_is_valid(pseudo_header_sum));
    assert_eq!((again.sequence(), again.flags()), (segment.sequence(), segment.flags()));
    assert_eq!(again.payload(), segment.payload());
}

fn options(data: &[u8]) {
    let Ok(options) = Options::parse(data) else { return };
    let length = options.encoded_length();
    assert!(length <= tcp_options::LENGTH_MAX && length.is_multiple_of(4));
    let mut bytes = vec![0; length];
    assert_eq!(options.emit(&mut bytes), Ok(length));
    let again = Options::parse(&bytes).unwrap();
    let blocks = again.sack_blocks.as_slice();
    assert!(options.sack_blocks.as_slice().starts_with(blocks));
    assert_eq!(Options { sack_blocks: options.sack_blocks, ..again }, options);
}

fn udp(data: &[u8], pseudo_header_sum: u16) {
    let Ok(datagram) = udp::Datagram::parse(data) else { return };
    assert_eq!(datagram.length(), udp::HEADER_LENGTH + datagram.payload().len());
    black_box(datagram.checksum_is_valid(pseudo_header_sum));
    let mut bytes = vec![0; udp::HEADER_LENGTH];
    udp::Header::parse(&datagram).emit(&mut bytes).unwrap();
    udp::write_checksum(&mut bytes, pseudo_header_sum, checksum::sum(datagram.payload())).unwrap();
    bytes.extend_from_slice(datagram.payload());
    let again = udp::Datagram::parse(&bytes).unwrap();
    assert!(again.checksum_is_valid(pseudo_header_sum));
    assert_eq!(udp::Header::parse(&again), udp::Header::parse(&datagram));
}

fn icmpv4(data: &[u8]) {
    let Ok(message) = icmpv4::Message::parse(data) else { return };
    black_box(message.checksum_is_valid());
    if message.is_error() {
        black_box(ipv4::Packet::parse_quoted(message.payload()).ok());
    }
    let header = icmpv4::Header::parse(&message);
    let mut bytes = vec![0; data.len()];
    assert_eq!(header.emit(&mut bytes, message.payload()), Ok(data.len()));
    let again = icmpv4::Message::parse(&bytes).unwrap();
    assert!(again.checksum_is_valid());
    assert_eq!(icmpv4::Header::parse(&again), header);
    assert_eq!(again.payload(), message.payload());
}

fn icmpv6(data: &[u8], pseudo_header_sum: u16) {
    let Ok(message) = icmpv6::Message::parse(data) else { return };
    black_box(message.checksum_is_valid(pseudo_header_sum));
    if message.is_error()
        && let Ok(quoted) = ipv6::Packet::parse_quoted(message.payload())
    {
        black_box(ipv6_extension::walk(&quoted).ok());
    }
    let header = icmpv6::Header::parse(&message);
    let mut bytes = vec![0; data.len()];
    assert_eq!(header.emit(&mut bytes, message.payload(), pseudo_header_sum), Ok(data.len()));
    let again = icmpv6::Message::parse(&bytes).unwrap();
    assert!(again.checksum_is_valid(pseudo_header_sum));
    assert_eq!(icmpv6::Header::parse(&again), header);
    if let Some(Ok(header)) = discovery::Header::parse(&message) {
        let mut bytes = vec![0; header.encoded_length()];
        assert_eq!(header.emit(&mut bytes, pseudo_header_sum), Ok(bytes.len()));
        let again = icmpv6::Message::parse(&bytes).unwrap();
        assert!(again.checksum_is_valid(pseudo_header_sum));
        assert_eq!(discovery::Header::parse(&again), Some(Ok(header)));
    }
}

/// The sum as RFC 1071 describes it.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn sums(data: &[u8]) {
    let sum = checksum::sum(data);
    assert_eq!(sum, naive_sum(data));
    let mut copy = vec![0; data.len()];
    assert_eq!(checksum::copy_and_sum(data, &mut copy), sum);
    assert_eq!(copy, data);
    let at = data.first().map_or(0, |byte| usize::from(*byte)).min(data.len());
    let (head, tail) = data.split_at(at);
    let combine = if at.is_multiple_of(2) { checksum::combine } else { checksum::combine_at_odd };
    assert_eq!(combine(checksum::sum(head), checksum::sum(tail)), sum);
}
