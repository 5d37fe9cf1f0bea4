//! Frames that two Linux 6 stacks exchanged over veth without offloads (`data/linux-veth.pcap`): ARP, neighbor
//! discovery, echo, fragments, IPv4 options, UDP, port unreachable, TCP with and without timestamps, resets.
//!
//! Every frame must parse to the transport with every checksum right, and what is emitted from the views must be the
//! same bytes again.

use qanat_wire::ethernet::{self, EtherType, Frame};
use qanat_wire::ip::Protocol;
use qanat_wire::tcp::Flags;
use qanat_wire::{arp, checksum, icmpv4, icmpv6, ipv4, ipv6, ipv6_extension, neighbor_discovery, tcp, udp};
use std::collections::BTreeMap;

/// The frames of a classic little-endian pcap file.
fn frames(file: &[u8]) -> Vec<&[u8]> {
    assert_eq!(file[..4], 0xa1b2_c3d4u32.to_le_bytes(), "not a little-endian microsecond pcap");
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(&rest[16..16 + length]);
        rest = &rest[16 + length..];
    }
    frames
}

fn capture() -> Vec<&'static [u8]> {
    frames(include_bytes!("data/linux-veth.pcap"))
}

type Seen = BTreeMap<&'static str, usize>;

fn check_frame(bytes: &[u8], seen: &mut Seen) {
    let frame = Frame::parse(bytes).unwrap();
    let mut header = [0; ethernet::HEADER_LENGTH];
    ethernet::Header::parse(&frame).emit(&mut header).unwrap();
    assert_eq!(header, bytes[..ethernet::HEADER_LENGTH]);
    match frame.ethertype() {
        EtherType::ARP => {
            *seen.entry("arp").or_default() += 1;
            let packet = arp::Packet::parse(frame.payload()).unwrap();
            let mut emitted = [0; arp::PACKET_LENGTH];
            arp::Header::parse(&packet).emit(&mut emitted).unwrap();
            assert_eq!(emitted, frame.payload()[..arp::PACKET_LENGTH]);
        }
        EtherType::IPV4 => check_ipv4(frame.payload(), seen),
        EtherType::IPV6 => check_ipv6(frame.payload(), seen),
        other => panic!("{other:?}"),
    }
}

fn check_ipv4(bytes: &[u8], seen: &mut Seen) {
    let packet = ipv4::Packet::parse(bytes).unwrap();
    assert!(packet.checksum_is_valid());
    if packet.is_fragment() {
        *seen.entry("ipv4 fragment").or_default() += 1;
        return;
    }
    if packet.options().is_empty() {
        let mut emitted = [0; ipv4::HEADER_LENGTH];
        ipv4::Header::parse(&packet).emit(&mut emitted).unwrap();
        assert_eq!(emitted, bytes[..ipv4::HEADER_LENGTH]);
    } else {
        *seen.entry("ipv4 options").or_default() += 1;
    }
    check_upper(packet.protocol(), packet.payload(), packet.pseudo_header_sum(), seen);
}

fn check_ipv6(bytes: &[u8], seen: &mut Seen) {
    let packet = ipv6::Packet::parse(bytes).unwrap();
    let mut emitted = [0; ipv6::HEADER_LENGTH];
    ipv6::Header::parse(&packet).emit(&mut emitted).unwrap();
    assert_eq!(emitted, bytes[..ipv6::HEADER_LENGTH]);
    let upper = ipv6_extension::walk(&packet).unwrap();
    if let Some(fragment) = upper.fragment {
        *seen.entry("ipv6 fragment").or_default() += 1;
        let mut emitted = [0; ipv6_extension::FRAGMENT_HEADER_LENGTH];
        fragment.emit(&mut emitted).unwrap();
        assert_eq!(emitted, bytes[40..48]);
        return;
    }
    if upper.offset > ipv6::HEADER_LENGTH {
        *seen.entry("ipv6 extension").or_default() += 1;
    }
    // The kernel sends router alert, an option with "skip if unknown".
    assert_eq!(upper.refusal, None);
    let length = upper.payload.len();
    let sum = checksum::pseudo_header_v6(packet.source(), packet.destination(), upper.protocol, length);
    check_upper(upper.protocol, upper.payload, sum, seen);
}

fn check_upper(protocol: Protocol, bytes: &[u8], pseudo: u16, seen: &mut Seen) {
    match protocol {
        Protocol::TCP => {
            let segment = tcp::Segment::parse(bytes).unwrap();
            assert!(segment.checksum_is_valid(pseudo));
            let header = tcp::Header::parse(&segment).unwrap();
            let mut emitted = vec![0; header.header_length()];
            header.emit(&mut emitted).unwrap();
            tcp::write_checksum(&mut emitted, pseudo, checksum::sum(segment.payload())).unwrap();
            assert_eq!(emitted, bytes[..segment.header_length()], "options in another order than Linux's?");
            *seen.entry(if segment.flags().contains(Flags::SYN) { "tcp syn" } else { "tcp" }).or_default() += 1;
        }
        Protocol::UDP => {
            let datagram = udp::Datagram::parse(bytes).unwrap();
            assert!(datagram.checksum_is_valid(pseudo));
            let mut emitted = [0; udp::HEADER_LENGTH];
            udp::Header::parse(&datagram).emit(&mut emitted).unwrap();
            udp::write_checksum(&mut emitted, pseudo, checksum::sum(datagram.payload())).unwrap();
            assert_eq!(emitted, bytes[..udp::HEADER_LENGTH]);
            *seen.entry("udp").or_default() += 1;
        }
        Protocol::ICMPV4 => check_icmpv4(bytes, seen),
        Protocol::ICMPV6 => check_icmpv6(bytes, pseudo, seen),
        other => panic!("{other:?}"),
    }
}

fn check_icmpv4(bytes: &[u8], seen: &mut Seen) {
    let message = icmpv4::Message::parse(bytes).unwrap();
    assert!(message.checksum_is_valid());
    let header = icmpv4::Header::parse(&message);
    let mut emitted = vec![0; bytes.len()];
    header.emit(&mut emitted, message.payload()).unwrap();
    assert_eq!(emitted, bytes);
    let name = match header {
        icmpv4::Header::EchoRequest { identifier: 77, sequence: 1 } => "icmpv4 echo request",
        icmpv4::Header::EchoReply { identifier: 77, sequence: 1 } => "icmpv4 echo reply",
        icmpv4::Header::DestinationUnreachable { code: icmpv4::UnreachableCode::PORT, .. } => {
            let quoted = ipv4::Packet::parse_quoted(message.payload()).unwrap();
            assert_eq!(udp::Datagram::parse(quoted.payload()).unwrap().destination_port(), 4444);
            "icmpv4 port unreachable"
        }
        other => panic!("{other:?}"),
    };
    *seen.entry(name).or_default() += 1;
}

fn check_icmpv6(bytes: &[u8], pseudo: u16, seen: &mut Seen) {
    let message = icmpv6::Message::parse(bytes).unwrap();
    assert!(message.checksum_is_valid(pseudo));
    let header = icmpv6::Header::parse(&message);
    let mut emitted = vec![0; bytes.len()];
    header.emit(&mut emitted, message.payload(), pseudo).unwrap();
    assert_eq!(emitted, bytes);
    if let Some(header) = neighbor_discovery::Header::parse(&message) {
        let header = header.unwrap();
        // Linux adds a nonce (RFC 7527) to its DAD probes, which is skipped here.
        if header.encoded_length() == bytes.len() {
            let mut emitted = vec![0; bytes.len()];
            header.emit(&mut emitted, pseudo).unwrap();
            assert_eq!(emitted, bytes);
        }
        let name = match header.discovery {
            neighbor_discovery::Discovery::NeighborSolicitation { .. } => "neighbor solicitation",
            neighbor_discovery::Discovery::NeighborAdvertisement { .. } => "neighbor advertisement",
            neighbor_discovery::Discovery::RouterSolicitation => "router solicitation",
            other => panic!("{other:?}"),
        };
        *seen.entry(name).or_default() += 1;
        return;
    }
    let name = match header {
        icmpv6::Header::EchoRequest { .. } => "icmpv6 echo request",
        icmpv6::Header::EchoReply { .. } => "icmpv6 echo reply",
        icmpv6::Header::DestinationUnreachable { code: icmpv6::UnreachableCode::PORT } => {
            let quoted = ipv6::Packet::parse_quoted(message.payload()).unwrap();
            let upper = ipv6_extension::walk(&quoted).unwrap();
            assert_eq!(udp::Datagram::parse(upper.payload).unwrap().destination_port(), 4444);
            "icmpv6 port unreachable"
        }
        // Multicast listener reports.
        icmpv6::Header::Other { message_type: 143, .. } => "icmpv6 other",
        other => panic!("{other:?}"),
    };
    *seen.entry(name).or_default() += 1;
}

#[test]
fn every_captured_frame_is_read_right_and_written_the_same() {
    let mut seen = Seen::new();
    for frame in capture() {
        check_frame(frame, &mut seen);
    }
    let expected: [(&str, usize); 18] = [
        ("arp", 2),
        ("icmpv4 echo reply", 2),
        ("icmpv4 echo request", 2),
        ("icmpv4 port unreachable", 2),
        ("icmpv6 echo reply", 1),
        ("icmpv6 echo request", 1),
        ("icmpv6 other", 9),
        ("icmpv6 port unreachable", 3),
        ("ipv4 fragment", 6),
        ("ipv4 options", 2),
        ("ipv6 extension", 10),
        ("ipv6 fragment", 6),
        ("neighbor advertisement", 1),
        ("neighbor solicitation", 5),
        ("router solicitation", 3),
        ("tcp", 22),
        ("tcp syn", 6),
        ("udp", 5),
    ];
    assert_eq!(seen, Seen::from(expected));
}

#[test]
fn every_captured_frame_cut_anywhere_is_refused_or_read() {
    for frame in capture() {
        for length in 0..frame.len() {
            let cut = &frame[..length];
            let Ok(ethernet) = Frame::parse(cut) else { continue };
            match ethernet.ethertype() {
                EtherType::IPV4 => assert!(ipv4::Packet::parse(ethernet.payload()).is_err()),
                EtherType::IPV6 => assert!(ipv6::Packet::parse(ethernet.payload()).is_err()),
                _ => assert!(arp::Packet::parse(ethernet.payload()).is_err() || length >= 42),
            }
        }
    }
}

#[test]
fn a_syn_of_linux_has_these_options() {
    let syn = capture().into_iter().find(|frame| frame.len() == 74 && frame[47] == 0x02).unwrap();
    let packet = ipv4::Packet::parse(Frame::parse(syn).unwrap().payload()).unwrap();
    let segment = tcp::Segment::parse(packet.payload()).unwrap();
    assert_eq!((segment.flags(), segment.header_length(), segment.sequence_length()), (Flags::SYN, 40, 1));
    let options = tcp::Header::parse(&segment).unwrap().options;
    assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(10), true));
    assert_eq!(options.timestamps.map(|timestamps| (timestamps.value, timestamps.echo)), Some((16_836_919, 0)));
}
