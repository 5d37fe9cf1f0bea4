//! What is emitted is parsed back the same, for every value of every header; and what must be refused is.

use proptest::collection::vec;
use proptest::prelude::*;
use qanat_wire::ethernet::{self, EtherType, MacAddress};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::neighbor_discovery::{self as discovery, Discovery};
use qanat_wire::tcp::{Flags, SequenceNumber};
use qanat_wire::tcp_options::{self, Options, SackBlock, SackBlocks, Timestamps};
use qanat_wire::{Error, arp, icmpv4, icmpv6, ipv4, ipv6, ipv6_extension, tcp, udp, vlan};
use std::net::{Ipv4Addr, Ipv6Addr};

fn mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(MacAddress)
}

fn sequence() -> impl Strategy<Value = SequenceNumber> {
    any::<u32>().prop_map(SequenceNumber)
}

fn ipv4_header() -> impl Strategy<Value = ipv4::Header> {
    let addresses = (any::<Ipv4Addr>(), any::<Ipv4Addr>());
    let rest = (any::<u8>(), 0usize..2000, any::<u8>(), any::<u16>(), any::<bool>(), 0u8..4, 0u8..64);
    (addresses, rest).prop_map(
        |((source, destination), (protocol, payload_length, ttl, identification, df, ecn, dscp))| ipv4::Header {
            source,
            destination,
            protocol: Protocol(protocol),
            payload_length,
            ttl,
            identification,
            dont_fragment: df,
            ecn: Ecn::from_bits(ecn),
            dscp,
        },
    )
}

fn ipv6_header() -> impl Strategy<Value = ipv6::Header> {
    let addresses = (any::<Ipv6Addr>(), any::<Ipv6Addr>());
    let rest = (any::<u8>(), 0usize..2000, any::<u8>(), 0u32..1 << 20, 0u8..4, 0u8..64);
    (addresses, rest).prop_map(|((source, destination), (next, payload_length, hop_limit, flow_label, ecn, dscp))| {
        ipv6::Header {
            source,
            destination,
            next_header: Protocol(next),
            payload_length,
            hop_limit,
            flow_label,
            ecn: Ecn::from_bits(ecn),
            dscp,
        }
    })
}

/// Options that fit in 40 bytes.
fn options() -> impl Strategy<Value = Options> {
    let timestamps =
        prop::option::of((any::<u32>(), any::<u32>()).prop_map(|(value, echo)| Timestamps { value, echo }));
    let blocks = vec((sequence(), sequence()).prop_map(|(start, end)| SackBlock { start, end }), 0..=4);
    (prop::option::of(any::<u16>()), prop::option::of(0u8..=14), any::<bool>(), timestamps, blocks).prop_map(
        |(mss, window_scale, sack_permitted, timestamps, blocks)| {
            let mut options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::NONE };
            let room = tcp_options::LENGTH_MAX - options.encoded_length();
            for block in blocks.into_iter().take(room.saturating_sub(4) / 8) {
                options.sack_blocks.push(block);
            }
            options
        },
    )
}

fn tcp_header() -> impl Strategy<Value = tcp::Header> {
    (any::<[u16; 4]>(), sequence(), sequence(), any::<u8>(), options()).prop_map(
        |([source_port, destination_port, window, urgent], sequence, acknowledgment, flags, options)| tcp::Header {
            source_port,
            destination_port,
            sequence,
            acknowledgment,
            flags: Flags(flags),
            window,
            urgent,
            options,
        },
    )
}

fn prefix() -> impl Strategy<Value = discovery::Prefix> {
    (any::<Ipv6Addr>(), 0u8..=128, any::<bool>(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(
        |(address, length, on_link, autonomous, valid_lifetime_s, preferred_lifetime_s)| discovery::Prefix {
            address,
            length,
            on_link,
            autonomous,
            valid_lifetime_s,
            preferred_lifetime_s,
        },
    )
}

fn discovery_header() -> impl Strategy<Value = discovery::Header> {
    let target = || any::<Ipv6Addr>().prop_filter("multicast", |address| !address.is_multicast());
    let discovery = prop_oneof![
        Just(Discovery::RouterSolicitation),
        target().prop_map(|target| Discovery::NeighborSolicitation { target }),
        (any::<[bool; 3]>(), target()).prop_map(|([router, solicited, replaces], target)| {
            Discovery::NeighborAdvertisement { router, solicited, replaces, target }
        }),
        (any::<u8>(), any::<[bool; 2]>(), any::<u16>(), any::<[u32; 2]>()).prop_map(
            |(hop_limit, [managed, other], lifetime_s, [reachable_time_ms, retransmission_time_ms])| {
                Discovery::RouterAdvertisement {
                    hop_limit,
                    managed,
                    other,
                    lifetime_s,
                    reachable_time_ms,
                    retransmission_time_ms,
                }
            }
        ),
    ];
    let addresses = (prop::option::of(mac()), prop::option::of(mac()));
    (discovery, addresses, prop::option::of(any::<u32>()), vec(prefix(), 0..=4)).prop_map(
        |(discovery, (source_link_layer, target_link_layer), mtu, list)| {
            let mut prefixes = discovery::Prefixes::default();
            list.into_iter().for_each(|prefix| assert!(prefixes.push(prefix)));
            let options = discovery::Options { source_link_layer, target_link_layer, mtu, prefixes };
            discovery::Header { discovery, options }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ethernet_and_vlan(destination in mac(), source in mac(), ethertype: u16, identifier in 0u16..4096,
                         priority in 0u8..8, drop_eligible: bool) {
        let header = ethernet::Header { destination, source, ethertype: EtherType(ethertype) };
        let mut bytes = [0; 14];
        prop_assert_eq!(header.emit(&mut bytes), Ok(14));
        prop_assert_eq!(ethernet::Header::parse(&ethernet::Frame::parse(&bytes).unwrap()), header);
        let tag = vlan::Header { identifier, priority, drop_eligible, ethertype: EtherType(ethertype) };
        let mut bytes = [0; 4];
        prop_assert_eq!(tag.emit(&mut bytes), Ok(4));
        prop_assert_eq!(vlan::Header::parse(&vlan::Tagged::parse(&bytes).unwrap()), tag);
    }

    #[test]
    fn arp_packet(operation: u16, a in mac(), b in mac(), c: Ipv4Addr, d: Ipv4Addr) {
        let header = arp::Header {
            operation: arp::Operation(operation),
            sender_hardware: a,
            sender_protocol: c,
            target_hardware: b,
            target_protocol: d,
        };
        let mut bytes = [0; 28];
        prop_assert_eq!(header.emit(&mut bytes), Ok(28));
        prop_assert_eq!(arp::Header::parse(&arp::Packet::parse(&bytes).unwrap()), header);
    }

    #[test]
    fn ipv4_packet(header in ipv4_header(), padding in 0usize..50) {
        let mut bytes = vec![0; 20 + header.payload_length + padding];
        prop_assert_eq!(header.emit(&mut bytes), Ok(20));
        let packet = ipv4::Packet::parse(&bytes).unwrap();
        prop_assert!(packet.checksum_is_valid());
        prop_assert_eq!(ipv4::Header::parse(&packet), header);
        // A wrong bit anywhere is noticed.
        bytes[padding % 20] ^= 1 << (padding % 8);
        prop_assert!(!ipv4::Packet::parse(&bytes).is_ok_and(|packet| packet.checksum_is_valid()));
    }

    #[test]
    fn ipv6_packet(header in ipv6_header(), padding in 0usize..50) {
        let mut bytes = vec![0; 40 + header.payload_length + padding];
        prop_assert_eq!(header.emit(&mut bytes), Ok(40));
        prop_assert_eq!(ipv6::Header::parse(&ipv6::Packet::parse(&bytes).unwrap()), header);
    }

    #[test]
    fn tcp_segment(header in tcp_header(), payload in vec(any::<u8>(), 0..100), pseudo: u16) {
        let mut bytes = vec![0; header.header_length()];
        prop_assert_eq!(header.emit(&mut bytes), Ok(bytes.len()));
        let sum = qanat_wire::checksum::sum(&payload);
        tcp::write_checksum(&mut bytes, pseudo, sum).unwrap();
        let mut at_once = vec![0; header.header_length()];
        prop_assert_eq!(header.emit_with_checksum(&mut at_once, pseudo, sum), Ok(bytes.len()));
        prop_assert_eq!(&at_once, &bytes);
        bytes.extend(&payload);
        let segment = tcp::Segment::parse(&bytes).unwrap();
        prop_assert!(segment.checksum_is_valid(pseudo) && segment.checksum_is_valid_with(pseudo, sum));
        prop_assert_eq!(tcp::Header::parse(&segment), Ok(header));
        prop_assert_eq!(segment.payload(), &payload[..]);
    }

    #[test]
    fn udp_datagram(source_port: u16, destination_port: u16, payload in vec(any::<u8>(), 0..100), pseudo: u16) {
        let header = udp::Header { source_port, destination_port, payload_length: payload.len() };
        let mut bytes = vec![0; 8];
        prop_assert_eq!(header.emit(&mut bytes), Ok(8));
        udp::write_checksum(&mut bytes, pseudo, qanat_wire::checksum::sum(&payload)).unwrap();
        bytes.extend(&payload);
        let datagram = udp::Datagram::parse(&bytes).unwrap();
        prop_assert!(datagram.has_checksum() && datagram.checksum_is_valid(pseudo));
        prop_assert_eq!(udp::Header::parse(&datagram), header);
    }

    #[test]
    fn icmpv4_message(a: u16, b: u16, code: u8, payload in vec(any::<u8>(), 0..100)) {
        let headers = [
            icmpv4::Header::EchoRequest { identifier: a, sequence: b },
            icmpv4::Header::EchoReply { identifier: a, sequence: b },
            icmpv4::Header::DestinationUnreachable { code: icmpv4::UnreachableCode(code), next_hop_mtu: b },
            icmpv4::Header::TimeExceeded { code: icmpv4::TimeExceededCode(code) },
            icmpv4::Header::ParameterProblem { code, pointer: a as u8 },
            icmpv4::Header::Other { message_type: 13, code, rest: [1, 2, 3, 4] },
        ];
        for header in headers {
            let mut bytes = vec![0; 8 + payload.len()];
            prop_assert_eq!(header.emit(&mut bytes, &payload), Ok(bytes.len()));
            let message = icmpv4::Message::parse(&bytes).unwrap();
            prop_assert!(message.checksum_is_valid());
            prop_assert_eq!(icmpv4::Header::parse(&message), header);
            prop_assert_eq!(message.payload(), &payload[..]);
        }
    }

    #[test]
    fn icmpv6_message(a: u16, b: u16, c: u32, code: u8, payload in vec(any::<u8>(), 0..100), pseudo: u16) {
        let headers = [
            icmpv6::Header::EchoRequest { identifier: a, sequence: b },
            icmpv6::Header::EchoReply { identifier: a, sequence: b },
            icmpv6::Header::DestinationUnreachable { code: icmpv6::UnreachableCode(code) },
            icmpv6::Header::PacketTooBig { mtu: c },
            icmpv6::Header::TimeExceeded { code: icmpv6::TimeExceededCode(code) },
            icmpv6::Header::ParameterProblem { code: icmpv6::ParameterProblemCode(code), pointer: c },
            icmpv6::Header::Other { message_type: 143, code, rest: [1, 2, 3, 4] },
        ];
        for header in headers {
            let mut bytes = vec![0; 8 + payload.len()];
            prop_assert_eq!(header.emit(&mut bytes, &payload, pseudo), Ok(bytes.len()));
            let message = icmpv6::Message::parse(&bytes).unwrap();
            prop_assert!(message.checksum_is_valid(pseudo));
            prop_assert_eq!(icmpv6::Header::parse(&message), header);
        }
    }

    #[test]
    fn neighbor_discovery_message(header in discovery_header(), pseudo: u16) {
        let mut bytes = vec![0; header.encoded_length()];
        prop_assert_eq!(header.emit(&mut bytes, pseudo), Ok(bytes.len()));
        let message = icmpv6::Message::parse(&bytes).unwrap();
        prop_assert!(message.checksum_is_valid(pseudo));
        prop_assert_eq!(discovery::Header::parse(&message), Some(Ok(header)));
    }

    #[test]
    fn sequence_numbers(a in sequence(), distance in 1u32..1 << 31) {
        let b = a + distance;
        prop_assert!(a.before(b) && b.after(a) && a.at_or_before(b) && b.at_or_after(a));
        prop_assert!(!b.before(a) && !a.after(b) && !b.at_or_before(a) && !a.at_or_after(b));
        prop_assert!(a.at_or_before(a) && a.at_or_after(a) && !a.before(a) && !a.after(a));
        prop_assert_eq!((b - a, a - b, b - distance), (distance as i32, -(distance as i32), a));
        prop_assert_eq!((b.distance_from(a), a.later(b), b.earlier(a)), (distance, b, a));
        prop_assert!(a.is_within(a, distance) && !b.is_within(a, distance) && b.is_within(a, distance + 1));
    }
}

/// A computed 0 is sent as 0xffff (RFC 768), and is right so.
#[test]
fn udp_checksum_of_zero() {
    let mut bytes = [0; 8];
    udp::Header { source_port: 0x1000, destination_port: 0x2000, payload_length: 0 }.emit(&mut bytes).unwrap();
    let pseudo = 0xffff - 0x3008;
    udp::write_checksum(&mut bytes, pseudo, 0).unwrap();
    let datagram = udp::Datagram::parse(&bytes).unwrap();
    assert_eq!((datagram.checksum(), datagram.checksum_is_valid(pseudo)), (0xffff, true));
}

#[test]
fn refusals() {
    assert_eq!(ipv4::Packet::parse(&[0x45; 19]).err(), Some(Error::Truncated));
    let mut bytes = [0u8; 60];
    bytes[..4].copy_from_slice(&[0x65, 0, 0, 60]);
    assert_eq!(ipv4::Packet::parse(&bytes).err(), Some(Error::BadVersion));
    bytes[0] = 0x44;
    assert_eq!(ipv4::Packet::parse(&bytes).err(), Some(Error::BadHeaderLength));
    bytes[0] = 0x4f;
    assert_eq!(ipv4::Packet::parse(&bytes[..59]).err(), Some(Error::Truncated));
    bytes[3] = 59;
    assert_eq!(ipv4::Packet::parse(&bytes).err(), Some(Error::BadLength));
    bytes[0] = 0x45;
    bytes[3] = 61;
    assert_eq!(ipv4::Packet::parse(&bytes).err(), Some(Error::Truncated));
    assert!(ipv4::Packet::parse_quoted(&bytes).is_ok());
    let mut bytes = [0u8; 20];
    bytes[12] = 0x40;
    assert_eq!(tcp::Segment::parse(&bytes).err(), Some(Error::BadHeaderLength));
    bytes[12] = 0x60;
    assert_eq!(tcp::Segment::parse(&bytes).err(), Some(Error::Truncated));
    assert_eq!(udp::Datagram::parse(&[0, 1, 0, 2, 0, 7, 0, 0]).err(), Some(Error::BadLength));
    assert_eq!(udp::Datagram::parse(&[0, 1, 0, 2, 0, 9, 0, 0]).err(), Some(Error::Truncated));
    assert_eq!(arp::Packet::parse(&[0; 28]).err(), Some(Error::BadValue));
    let header = udp::Header { source_port: 1, destination_port: 2, payload_length: 65_528 };
    assert_eq!(header.emit(&mut [0; 8]), Err(Error::BadLength));
    assert_eq!(header.emit(&mut [0; 7]), Err(Error::NoRoom));
}

#[test]
fn tcp_options_that_others_send() {
    // Windows: MSS, NOP, window scale, NOP, NOP, SACK permitted.
    let windows = [2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2];
    let expected = Options { mss: Some(1460), window_scale: Some(8), sack_permitted: true, ..Options::NONE };
    assert_eq!(Options::parse(&windows), Ok(expected));
    // Unknown ones (here: multipath) are skipped; after the end comes nothing; a shift above 14 counts as 14.
    assert_eq!(
        Options::parse(&[30, 4, 9, 9, 3, 3, 15, 0, 255, 0]),
        Ok(Options { window_scale: Some(14), ..Options::NONE })
    );
    // Known ones of another length are skipped.
    assert_eq!(Options::parse(&[2, 3, 5, 4, 3, 0, 5, 6, 0, 0, 0, 0, 3, 2]), Ok(Options::NONE));
    // Lengths of zero, of one, past the end; a kind without a length.
    for malformed in [&[2u8, 0, 0, 0][..], &[2, 1, 0, 0], &[2, 5, 0, 0], &[1, 1, 1, 8], &[0x55]] {
        assert_eq!(Options::parse(malformed), Err(Error::BadOption), "{malformed:?}");
    }
    // SACK: two blocks beside timestamps fit with MSS-less options only up to three.
    let mut sack_blocks = SackBlocks::NONE;
    for index in 0..5 {
        let block = SackBlock { start: SequenceNumber(index), end: SequenceNumber(index + 1) };
        assert_eq!(sack_blocks.push(block), index < 4);
    }
    let options = Options { sack_blocks, timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::NONE };
    assert_eq!(options.encoded_length(), 40);
    let mut bytes = [0; 40];
    options.emit(&mut bytes).unwrap();
    assert_eq!(Options::parse(&bytes).unwrap().sack_blocks.len(), 3);
}

/// A packet of these bytes after the fixed header.
fn ipv6_packet_of(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
        next_header: Protocol(next_header),
        payload_length: payload.len(),
        hop_limit: 64,
        flow_label: 0,
        ecn: Ecn::NotCapable,
        dscp: 0,
    };
    let mut bytes = vec![0; 40];
    header.emit(&mut bytes).unwrap();
    bytes.extend(payload);
    bytes
}

#[test]
fn ipv6_extension_headers() {
    use icmpv6::ParameterProblemCode as Code;
    use ipv6_extension::{HEADERS_MAX, Refusal, walk};
    let walk_of = |next_header: u8, payload: &[u8]| {
        let bytes = ipv6_packet_of(next_header, payload);
        walk(&ipv6::Packet::parse(&bytes).unwrap())
            .map(|upper| (upper.protocol.0, upper.offset, upper.next_header_offset, upper.fragment, upper.refusal))
    };
    assert_eq!(walk_of(6, &[]), Ok((6, 40, 6, None, None)));
    // Hop-by-hop with padding, destination options, then UDP.
    let chain = [60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0, 9];
    assert_eq!(walk_of(0, &chain), Ok((17, 56, 48, None, None)));
    // Hop-by-hop not in the first place.
    let late = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(walk_of(60, &late), Ok((0, 48, 40, None, Some(Refusal::Report(Code::NEXT_HEADER, 40)))));
    // Unknown options by their high bits.
    let unknown = |kind: u8| walk_of(60, &[17, 0, kind, 4, 0, 0, 0, 0]).unwrap().4;
    assert_eq!(unknown(0x3e), None);
    assert_eq!(unknown(0x7e), Some(Refusal::Drop));
    assert_eq!(unknown(0xbe), Some(Refusal::Report(Code::OPTION, 42)));
    assert_eq!(unknown(0xfe), Some(Refusal::ReportUnlessMulticast(Code::OPTION, 42)));
    // Routing with and without segments left; the pointer is at the routing type (RFC 8200, section 4.4).
    assert_eq!(walk_of(43, &[6, 0, 0, 0, 0, 0, 0, 0]), Ok((6, 48, 40, None, None)));
    assert_eq!(walk_of(43, &[6, 0, 0, 1, 0, 0, 0, 0]).unwrap().4, Some(Refusal::Report(Code::HEADER_FIELD, 42)));
    // An atomic fragment is passed through, another isn't.
    assert_eq!(walk_of(44, &[6, 0, 0, 0, 0, 0, 0, 1]), Ok((6, 48, 40, None, None)));
    let fragment =
        ipv6_extension::Fragment { next_header: Protocol::UDP, offset: 1448, more_fragments: true, identification: 1 };
    assert_eq!(walk_of(44, &[17, 0, 5, 0xa9, 0, 0, 0, 1]), Ok((17, 48, 40, Some(fragment), None)));
    // As many headers as allowed, and one more.
    let chain = |count: usize| [60u8, 0, 1, 4, 0, 0, 0, 0].repeat(count - 1);
    let last = [59, 0, 1, 4, 0, 0, 0, 0];
    assert!(walk_of(60, &[chain(HEADERS_MAX), last.to_vec()].concat()).is_ok());
    assert_eq!(walk_of(60, &[chain(HEADERS_MAX + 1), last.to_vec()].concat()), Err(Error::TooMany));
    // Cut short, options past the end, too many options.
    assert_eq!(walk_of(60, &[17]), Err(Error::Truncated));
    assert_eq!(walk_of(60, &[17, 1, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));
    assert_eq!(walk_of(60, &[17, 0, 1, 5, 0, 0, 0, 0]), Err(Error::BadOption));
    assert_eq!(walk_of(60, &[&[17, 2][..], &[0; 22]].concat()), Err(Error::TooMany));
}

#[test]
fn well_known_addresses() {
    assert_eq!(MacAddress::for_ipv4_multicast([224, 128, 0, 251].into()).to_string(), "01:00:5e:00:00:fb");
    let address: Ipv6Addr = "fe80::1234:5678".parse().unwrap();
    let group = discovery::solicited_node(address);
    assert_eq!(group.to_string(), "ff02::1:ff34:5678");
    assert_eq!(MacAddress::for_ipv6_multicast(group).to_string(), "33:33:ff:34:56:78");
    assert!(MacAddress::BROADCAST.is_broadcast() && MacAddress::BROADCAST.is_multicast());
    assert!(MacAddress([2, 0, 0, 0, 0, 1]).is_unicast() && !MacAddress::default().is_unicast());
    assert_eq!(format!("{:?} {:?}", Flags::SYN | Flags::ACK, Flags::NONE), "SYN|ACK -");
}

#[test]
fn user_timeouts() {
    use qanat_wire::tcp_options::UserTimeout;
    use std::time::Duration;
    for (seconds, value) in [(120, 120), (32_767, 32_767), (32_768, 0x8000 | 547), (10_000_000, 0xffff)] {
        let option = UserTimeout::from_duration(Duration::from_secs(seconds));
        assert_eq!(option.0, value);
        assert!(option.duration() >= Duration::from_secs(seconds.min(32_767 * 60)));
    }
    assert_eq!(UserTimeout::from_duration(Duration::from_millis(1)).duration(), Duration::from_secs(1));
    let options = Options { user_timeout: Some(UserTimeout(300)), ..Options::NONE };
    let mut bytes = [0; 40];
    let length = options.emit(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], [28, 4, 1, 44]);
    assert_eq!(Options::parse(&bytes[..length]), Ok(options));
}

#[test]
fn fast_open_cookies() {
    use qanat_wire::tcp_options::FastOpen;
    let cookie = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
    let lengths: Vec<usize> = (0..=18).filter(|length| FastOpen::new(&cookie[..*length], false).is_some()).collect();
    assert_eq!(lengths, [0, 4, 6, 8, 10, 12, 14, 16]);
    for length in lengths {
        for is_experimental in [false, true] {
            let fast_open = FastOpen::new(&cookie[..length], is_experimental);
            let options = Options { mss: Some(1_460), window_scale: Some(7), fast_open, ..Options::NONE };
            let mut bytes = [0; 40];
            let written = options.emit(&mut bytes).unwrap();
            assert_eq!((written, written % 4), (options.encoded_length(), 0));
            assert_eq!(Options::parse(&bytes[..written]), Ok(options), "{length}");
        }
    }
    let mut bytes = [0; 40];
    let length = Options { fast_open: Some(FastOpen::request(false)), ..Options::NONE }.emit(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], [34, 2, 1, 1]);
    let length = Options { fast_open: FastOpen::new(&cookie[..4], true), ..Options::NONE }.emit(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], [254, 8, 0xf9, 0x89, 1, 2, 3, 4]);
    // Odd, too short, too long, another experiment's: none; also in place of a good one before.
    for bad in
        [&[34, 3, 1][..], &[34, 4, 1, 2], &[34, 9, 1, 2, 3, 4, 5, 6, 7], &[254, 6, 0xf9, 0x88, 1, 2], &[254, 3, 0xf9]]
    {
        assert_eq!(Options::parse(bad).unwrap().fast_open, None, "{bad:?}");
    }
    let long: Vec<u8> = [34, 20].into_iter().chain(cookie).collect();
    assert_eq!(Options::parse(&long).unwrap().fast_open, None);
    assert_eq!(Options::parse(&[34, 6, 1, 2, 3, 4, 34, 4, 1, 2]).unwrap().fast_open, None);
    assert!(Options::parse(&[34, 1]).is_err() && Options::parse(&[34, 6, 1, 2]).is_err());
}
