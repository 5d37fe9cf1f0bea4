//! IPv6 addresses on trial and found (RFC 4862), routers that announce themselves (RFC 4861), groups that are reported
//! (RFC 3810).

use qanat_nic::{
    Clock, Frame, ManualClock, MemoryPlan, Pair, PairConfig, Time, TransmitBuffer, TransmitOptions, Vnic, pair,
};
use qanat_stack::{
    AddressState, Autoconfiguration, CommandError, Config, ConnectOptions, DuplicateAddressDetection, Event,
    ListenOptions, Stack,
};
use qanat_wire::ethernet::{self, EtherType, MacAddress};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::ipv6;
use qanat_wire::neighbor_discovery::{self, Discovery, Prefix};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xff);
const RAW_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

struct Host {
    stack: Stack,
    vnic: Pair,
}

impl Host {
    fn new(vnic: Pair, address: Ipv6Addr, seed: u8, set: impl FnOnce(&mut Config)) -> Host {
        let mut config = Config::new(address.into(), 64);
        (config.connections_max, config.timers_max) = (16, 16);
        set(&mut config);
        Host { stack: Stack::new(config, [seed; 32], &vnic, Time::ZERO), vnic }
    }

    fn step(&mut self, now: Time) -> Vec<Event> {
        self.stack.receive(now, &mut self.vnic);
        let events = std::iter::from_fn(|| self.stack.next_event()).collect();
        self.stack.transmit(now, &mut self.vnic);
        events
    }
}

fn ends() -> [Pair; 2] {
    let (a, b) = pair(PairConfig::default()).unwrap();
    [a, b].map(|end| end.open(MemoryPlan::default()).unwrap())
}

fn with(mode: DuplicateAddressDetection) -> impl FnOnce(&mut Config) {
    move |config| config.duplicate_address_detection = mode
}

fn received(vnic: &mut Pair) -> Vec<Frame> {
    let mut frames = Vec::new();
    vnic.receive(&mut frames, 64);
    frames
}

/// Sends a discovery message with this hop limit.
fn send(vnic: &mut Pair, source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8, discovery: Discovery) {
    send_with(vnic, source, destination, hop_limit, discovery, &[]);
}

fn send_with(
    vnic: &mut Pair,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hop_limit: u8,
    discovery: Discovery,
    prefixes: &[Prefix],
) {
    let mut options = neighbor_discovery::Options { source_link_layer: Some(RAW_MAC), ..Default::default() };
    for prefix in prefixes {
        options.prefixes.push(*prefix);
    }
    let message = neighbor_discovery::Header { discovery, options };
    let length = message.encoded_length();
    let mut frame = vnic.transmit_pool().allocate(64).unwrap();
    let pseudo = qanat_wire::checksum::pseudo_header_v6(source, destination, Protocol::ICMPV6, length);
    message.emit(frame.append(length).unwrap(), pseudo).unwrap();
    let header = ipv6::Header {
        source,
        destination,
        next_header: Protocol::ICMPV6,
        payload_length: length,
        hop_limit,
        flow_label: 0,
        ecn: Ecn::NotCapable,
        dscp: 0,
    };
    header.emit(frame.prepend(ipv6::HEADER_LENGTH).unwrap()).unwrap();
    let mac = MacAddress::for_ipv6_multicast(destination);
    let header = ethernet::Header { destination: mac, source: RAW_MAC, ethertype: EtherType::IPV6 };
    header.emit(frame.prepend(ethernet::HEADER_LENGTH).unwrap()).unwrap();
    vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    vnic.flush();
}

#[test]
fn an_address_nobody_has() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, ADDRESS, 1, with(DuplicateAddressDetection::On));
    let target = SocketAddr::new(OTHER.into(), 80);
    host.stack.listen(SocketAddr::new(ADDRESS.into(), 80), ListenOptions::default()).unwrap();
    assert_eq!(host.stack.address_state(ADDRESS.into()), Some(AddressState::Tentative));
    let mut asked = None;
    let mut usable_at = None;
    for _ in 0..300 {
        clock.advance(Duration::from_millis(10));
        host.step(clock.now());
        for frame in received(&mut raw) {
            // Neighbour solicitation (135) from the unspecified address, hop limit 255, for our address, no options.
            let bytes = frame.bytes();
            assert_eq!((bytes[21], &bytes[22..38], bytes[54]), (255, &[0; 16][..], 135));
            assert_eq!((&bytes[62..78], bytes.len()), (&ADDRESS.octets()[..], 78));
            asked = Some(clock.now());
            assert_eq!(
                host.stack.connect(clock.now(), target, ConnectOptions::default()),
                Err(CommandError::Unreachable)
            );
            // A question about a tentative address is not answered (RFC 4862 section 5.4.3).
            let discovery = Discovery::NeighborSolicitation { target: ADDRESS };
            send(&mut raw, OTHER, neighbor_discovery::solicited_node(ADDRESS), 255, discovery);
        }
        if host.stack.address_state(ADDRESS.into()) == Some(AddressState::Usable) {
            usable_at = Some(clock.now());
            break;
        }
    }
    let (asked, usable_at) = (asked.expect("it asks"), usable_at.expect("it becomes usable"));
    assert!(asked <= Time::from_millis(1_010), "{asked:?}");
    assert_eq!(usable_at.since(asked), Duration::from_secs(1));
    assert_eq!(host.stack.counters().arp_answered, 0);
    assert!(host.stack.connect(clock.now(), target, ConnectOptions::default()).is_ok());
    let discovery = Discovery::NeighborSolicitation { target: ADDRESS };
    send(&mut raw, OTHER, neighbor_discovery::solicited_node(ADDRESS), 255, discovery);
    host.step(clock.now());
    assert_eq!(host.stack.counters().arp_answered, 1, "now it is answered");
}

/// Two hosts with one address; states and events of both after three seconds.
fn both(modes: [DuplicateAddressDetection; 2]) -> [(AddressState, usize); 2] {
    let clock = ManualClock::new();
    let [a, b] = ends();
    let mut hosts = [Host::new(a, ADDRESS, 1, with(modes[0])), Host::new(b, ADDRESS, 7, with(modes[1]))];
    let mut conflicts = [0; 2];
    for _ in 0..300 {
        clock.advance(Duration::from_millis(10));
        for (host, conflicts) in hosts.iter_mut().zip(&mut conflicts) {
            let is_conflict = |event: &Event| matches!(event, Event::AddressConflict { address, .. } if *address == IpAddr::V6(ADDRESS));
            *conflicts += host.step(clock.now()).iter().filter(|event| is_conflict(event)).count();
        }
    }
    [0, 1].map(|index| (hosts[index].stack.address_state(ADDRESS.into()).unwrap(), conflicts[index]))
}

#[test]
fn an_address_somebody_has() {
    use DuplicateAddressDetection::{Off, On, Optimistic};
    assert_eq!(both([Off, On]), [(AddressState::Usable, 0), (AddressState::Duplicate, 1)]);
    assert_eq!(both([Off, Optimistic]), [(AddressState::Usable, 0), (AddressState::Duplicate, 1)]);
    // Both on trial: whoever asks second tells the first, or neither gets it.
    let outcome = both([On, On]);
    assert!(outcome.contains(&(AddressState::Duplicate, 1)), "{outcome:?}");
    assert!(outcome.iter().filter(|end| end.0 == AddressState::Usable).count() <= 1, "{outcome:?}");
}

#[test]
fn who_has_our_address_is_a_neighbour() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, ADDRESS, 1, |config| {
        config.addresses.push((OTHER.into(), 64));
        config.duplicate_address_detection = DuplicateAddressDetection::On;
    });
    host.step(clock.now());
    let claim = Discovery::NeighborAdvertisement { router: false, solicited: false, replaces: true, target: ADDRESS };
    send(&mut raw, ADDRESS, ALL_NODES, 255, claim);
    pass(&mut host, &mut raw, &clock, Duration::from_secs(3));
    assert_eq!(host.stack.address_state(ADDRESS.into()), Some(AddressState::Duplicate));
    assert_eq!(host.stack.address_state(OTHER.into()), Some(AddressState::Usable));
    // Its owner asks for our other address, and is answered: by the solicitation its Ethernet address is known.
    let discovery = Discovery::NeighborSolicitation { target: OTHER };
    send(&mut raw, ADDRESS, neighbor_discovery::solicited_node(OTHER), 255, discovery);
    host.step(clock.now());
    assert!(host.stack.neighbours().any(|(address, mac)| address == IpAddr::V6(ADDRESS) && mac == Some(RAW_MAC)));
}

#[test]
fn an_optimistic_address_is_used_and_given_up() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, ADDRESS, 1, with(DuplicateAddressDetection::Optimistic));
    let connection =
        host.stack.connect(clock.now(), SocketAddr::new(OTHER.into(), 80), ConnectOptions::default()).unwrap();
    host.step(clock.now());
    let frames = received(&mut raw);
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].bytes()[54], frames[0].len()), (135, 78), "RFC 4429: no link-layer address goes with it");
    drop(frames);
    let claim = Discovery::NeighborAdvertisement { router: false, solicited: false, replaces: true, target: ADDRESS };
    send(&mut raw, ADDRESS, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 255, claim);
    let events = host.step(clock.now());
    assert!(events.iter().any(|event| matches!(event, Event::AddressConflict { .. })), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Closed { connection: gone, .. } if *gone == connection)));
    assert_eq!(host.stack.address_state(ADDRESS.into()), Some(AddressState::Duplicate));
    assert_eq!(host.stack.counters().address_conflicts, 1);
    assert_eq!(host.stack.usage().connections, 0);
    let again = host.stack.connect(clock.now(), SocketAddr::new(OTHER.into(), 80), ConnectOptions::default());
    assert_eq!(again, Err(CommandError::Unreachable));
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn announce(lifetime_s: u16) -> Discovery {
    Discovery::RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        lifetime_s,
        reachable_time_ms: 0,
        retransmission_time_ms: 0,
    }
}

#[test]
fn routers() {
    let far = SocketAddr::new("2001:db8:1::1".parse().unwrap(), 80);
    let clock = ManualClock::new();
    let connect = |host: &mut Host, now| host.stack.connect(now, far, ConnectOptions::default()).is_ok();
    // Off unless configured.
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, ADDRESS, 1, |_| {});
    send(&mut raw, ROUTER, ALL_NODES, 255, announce(1_800));
    host.step(clock.now());
    assert!(!connect(&mut host, clock.now()));
    assert_eq!(host.stack.counters().router_advertisements_ignored, 1);
    // On: asked for at first, then only what a router on the link says, while it says so.
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, ADDRESS, 1, |config| config.accept_router_advertisements = true);
    host.step(clock.now());
    let asked = received(&mut raw);
    assert_eq!((asked.len(), asked[0].bytes()[54]), (1, 133), "a router solicitation");
    drop(asked);
    send(&mut raw, ROUTER, ALL_NODES, 254, announce(1_800));
    send(&mut raw, OTHER, ALL_NODES, 255, announce(1_800));
    send(&mut raw, ROUTER, ALL_NODES, 255, announce(0));
    host.step(clock.now());
    assert!(!connect(&mut host, clock.now()));
    send(&mut raw, ROUTER, ALL_NODES, 255, announce(30));
    host.step(clock.now());
    assert!(connect(&mut host, clock.now()));
    assert_eq!(host.stack.counters().router_advertisements, 1);
    clock.advance(Duration::from_secs(29));
    host.step(clock.now());
    assert!(connect(&mut host, clock.now()));
    clock.advance(Duration::from_secs(1));
    assert!(host.stack.next_deadline().is_some_and(|deadline| deadline <= clock.now()));
    host.step(clock.now());
    assert!(!connect(&mut host, clock.now()), "its lifetime is over");
    // A flood of them takes no memory.
    for number in 0..2_000u16 {
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number);
        send(&mut raw, router, ALL_NODES, 255, announce(1_800));
        host.step(clock.now());
        received(&mut raw);
    }
    assert_eq!(host.stack.counters().router_advertisements, 1 + 4);
}

fn prefix(address: &str, valid_lifetime_s: u32, preferred_lifetime_s: u32) -> Prefix {
    let address = address.parse().unwrap();
    Prefix { address, length: 64, on_link: true, autonomous: true, valid_lifetime_s, preferred_lifetime_s }
}

/// A host that knows no IPv6 address.
fn automatic(vnic: Pair, secret: u8) -> Host {
    Host::new(vnic, ADDRESS, 1, |config| {
        config.addresses = vec![("10.0.0.1".parse().unwrap(), 24)];
        config.autoconfiguration = Some(Autoconfiguration { secret: [secret; 16] });
        config.duplicate_address_detection = DuplicateAddressDetection::On;
        config.multicast_listener_reports = true;
    })
}

/// For so long; the IPv6 packets that it sends. (IPv4 addresses are on trial as well.)
fn pass(host: &mut Host, raw: &mut Pair, clock: &ManualClock, duration: Duration) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    let end = clock.now() + duration;
    while clock.now() < end {
        clock.advance(Duration::from_millis(10));
        host.step(clock.now());
        let frames = received(raw);
        let of_six = frames.iter().map(Frame::bytes).filter(|bytes| bytes[12..14] == EtherType::IPV6.0.to_be_bytes());
        sent.extend(of_six.map(<[u8]>::to_vec));
    }
    sent
}

fn six(host: &Host) -> Vec<(Ipv6Addr, u8, AddressState)> {
    let of_six = |(address, length, state)| match address {
        IpAddr::V6(address) => Some((address, length, state)),
        IpAddr::V4(_) => None,
    };
    host.stack.addresses().filter_map(of_six).collect()
}

#[test]
fn addresses_found() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = automatic(vnic, 1);
    let sent = pass(&mut host, &mut raw, &clock, Duration::from_secs(3));
    let (link_local, length, state) = six(&host)[0];
    assert!(link_local.is_unicast_link_local() && length == 64 && state == AddressState::Usable, "{:?}", six(&host));
    assert!(sent.iter().any(|frame| frame[54] == 133), "it asks for routers");
    // The same host finds the same address again, one with another secret another (RFC 7217).
    for (secret, same) in [(1, true), (2, false)] {
        let [vnic, _raw] = ends();
        let mut again = automatic(vnic, secret);
        again.step(clock.now());
        assert_eq!(six(&again)[0].0 == link_local, same);
    }
    // What is not to be used: too short a prefix, another's link, without A, preferred for longer than valid.
    let good = prefix("2001:db8:5::", 3_600, 1_800);
    let bad = [
        Prefix { length: 56, ..good },
        Prefix { address: "fe80::".parse().unwrap(), ..good },
        Prefix { autonomous: false, ..good },
        Prefix { preferred_lifetime_s: 3_601, ..good },
    ];
    send_with(&mut raw, ROUTER, ALL_NODES, 255, announce(0), &bad);
    send_with(&mut raw, OTHER, ALL_NODES, 255, announce(0), &[good]);
    send_with(&mut raw, ROUTER, ALL_NODES, 64, announce(0), &[good]);
    pass(&mut host, &mut raw, &clock, Duration::from_millis(20));
    assert_eq!(six(&host).len(), 1);
    assert_eq!(host.stack.counters().router_prefixes_ignored, 4);
    // And a good one, from a router that is no default router.
    send_with(&mut raw, ROUTER, ALL_NODES, 255, announce(0), &[good]);
    let sent = pass(&mut host, &mut raw, &clock, Duration::from_secs(3));
    let [_, (address, 64, AddressState::Usable)] = six(&host)[..] else { panic!("{:?}", six(&host)) };
    assert_eq!(address.to_bits() >> 64, good.address.to_bits() >> 64);
    let asks = |frame: &&Vec<u8>| frame[54] == 135 && frame[62..78] == address.octets();
    assert_eq!(sent.iter().filter(asks).count(), 1, "put on trial");
    // Deprecated after half an hour, gone after an hour, with what was done from it.
    let far = SocketAddr::new("2001:db8:5::99".parse().unwrap(), 80);
    pass(&mut host, &mut raw, &clock, Duration::from_secs(1));
    clock.advance(Duration::from_secs(3_500));
    host.step(clock.now());
    let connection = host.stack.connect(clock.now(), far, ConnectOptions::default()).unwrap();
    clock.advance(Duration::from_secs(120));
    let events: Vec<Event> = (0..3).flat_map(|_| host.step(clock.now())).collect();
    assert_eq!(six(&host).len(), 1);
    assert!(events.iter().any(|event| matches!(event, Event::Closed { connection: gone, .. } if *gone == connection)));
    assert!(host.stack.connect(clock.now(), far, ConnectOptions::default()).is_err());
}

#[test]
fn prefixes_by_the_thousand_and_short_lifetimes() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = automatic(vnic, 1);
    host.step(clock.now());
    for number in 0..1_000 {
        let one = prefix(&format!("2001:db8:{number:x}::"), u32::MAX, u32::MAX);
        send_with(&mut raw, ROUTER, ALL_NODES, 255, announce(0), &[one]);
        pass(&mut host, &mut raw, &clock, Duration::from_millis(10));
    }
    assert_eq!(six(&host).len(), 5, "the link-local one and four");
    // RFC 4862 section 5.5.3 (e): a forged lifetime of nothing leaves two hours.
    send_with(&mut raw, ROUTER, ALL_NODES, 255, announce(0), &[prefix("2001:db8:1::", 0, 0)]);
    host.step(clock.now());
    clock.advance(Duration::from_secs(7_190));
    host.step(clock.now());
    assert_eq!(six(&host).len(), 5);
    clock.advance(Duration::from_secs(20));
    host.step(clock.now());
    assert_eq!(six(&host).len(), 4);
}

#[test]
fn a_found_address_that_somebody_has_is_replaced() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = automatic(vnic, 1);
    let claim = |target| Discovery::NeighborAdvertisement { router: false, solicited: false, replaces: true, target };
    let mut seen = Vec::new();
    for _ in 0..3 {
        host.step(clock.now());
        let (address, ..) = six(&host)[0];
        assert!(!seen.contains(&address));
        seen.push(address);
        send(&mut raw, address, ALL_NODES, 255, claim(address));
        host.step(clock.now());
    }
    // RFC 7217 section 7: three identifiers, then it is given up.
    assert!(six(&host).is_empty(), "{:?}", six(&host));
    assert_eq!(host.stack.counters().address_conflicts, 3);
}

/// A query for multicast listeners, with a router alert before it.
fn query(vnic: &mut Pair, source: Ipv6Addr, hop_limit: u8, body: &[u8]) {
    let mut message = vec![130, 0, 0, 0];
    message.extend(body);
    let pseudo = qanat_wire::checksum::pseudo_header_v6(source, ALL_NODES, Protocol::ICMPV6, message.len());
    let sum = qanat_wire::checksum::combine(pseudo, qanat_wire::checksum::sum(&message));
    message[2..4].copy_from_slice(&qanat_wire::checksum::finish(sum).to_be_bytes());
    let mut bytes = qanat_wire::multicast_listener::ROUTER_ALERT.to_vec();
    bytes.extend(message);
    let mut frame = vnic.transmit_pool().allocate(64).unwrap();
    frame.append(bytes.len()).unwrap().copy_from_slice(&bytes);
    let header = ipv6::Header {
        source,
        destination: ALL_NODES,
        next_header: Protocol::HOP_BY_HOP,
        payload_length: bytes.len(),
        hop_limit,
        flow_label: 0,
        ecn: Ecn::NotCapable,
        dscp: 0,
    };
    header.emit(frame.prepend(ipv6::HEADER_LENGTH).unwrap()).unwrap();
    let destination = MacAddress::for_ipv6_multicast(ALL_NODES);
    let header = ethernet::Header { destination, source: RAW_MAC, ethertype: EtherType::IPV6 };
    header.emit(frame.prepend(ethernet::HEADER_LENGTH).unwrap()).unwrap();
    vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    vnic.flush();
}

/// Version and groups of the reports among `sent`, each checked for what must be the same in all.
fn reports(sent: &[Vec<u8>]) -> Vec<(u8, Vec<Ipv6Addr>)> {
    let group = |bytes: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..16]).unwrap());
    let of = |frame: &Vec<u8>| {
        let is_report = frame[12..14] == [0x86, 0xdd] && frame[20] == 0 && matches!(frame[62], 131 | 143);
        is_report.then(|| {
            assert_eq!((frame[21], &frame[54..62]), (1, &qanat_wire::multicast_listener::ROUTER_ALERT[..]));
            let (source, destination) = (group(&frame[22..]), group(&frame[38..]));
            let pseudo =
                qanat_wire::checksum::pseudo_header_v6(source, destination, Protocol::ICMPV6, frame.len() - 62);
            assert!(qanat_wire::icmpv6::Message::parse(&frame[62..]).unwrap().checksum_is_valid(pseudo));
            assert!(source.is_unspecified() || source.is_unicast_link_local());
            if frame[62] == 131 {
                assert_eq!(destination, group(&frame[70..]));
                return (1, vec![destination]);
            }
            assert_eq!(destination, qanat_wire::multicast_listener::REPORT_DESTINATION);
            (2, frame[70..].chunks(20).map(|record| group(&record[4..])).collect())
        })
    };
    sent.iter().filter_map(of).collect()
}

#[test]
fn groups_are_reported() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, ADDRESS, 1, |config| {
        config.addresses.push((OTHER.into(), 64));
        config.multicast_listener_reports = true;
    });
    let groups = [ADDRESS, OTHER].map(neighbor_discovery::solicited_node).to_vec();
    let sent = pass(&mut host, &mut raw, &clock, Duration::from_secs(2));
    assert_eq!(reports(&sent), [(2, groups.clone()), (2, groups.clone())], "at once and again");
    // Queries that are not a router's of this link, or cut short.
    let all = [[0x27, 0x10, 0, 0].as_slice(), &[0; 16], &[2, 125, 0, 0]].concat();
    query(&mut raw, OTHER, 1, &all);
    query(&mut raw, ROUTER, 2, &all);
    query(&mut raw, ROUTER, 1, &all[..22]);
    assert!(reports(&pass(&mut host, &mut raw, &clock, Duration::from_secs(11))).is_empty());
    let counters = *host.stack.counters();
    assert_eq!((counters.multicast_queries_ignored, counters.icmp_invalid), (2, 1));
    // A router's: an answer within the ten seconds it gives; about one group only that one.
    query(&mut raw, ROUTER, 1, &all);
    assert_eq!(reports(&pass(&mut host, &mut raw, &clock, Duration::from_secs(11))), [(2, groups.clone())]);
    let one = [[0, 100, 0, 0].as_slice(), &groups[1].octets(), &[2, 125, 0, 0]].concat();
    query(&mut raw, ROUTER, 1, &one);
    assert_eq!(reports(&pass(&mut host, &mut raw, &clock, Duration::from_secs(1))), [(2, vec![groups[1]])]);
    let foreign = [[0, 100, 0, 0].as_slice(), &ROUTER_GROUP.octets(), &[2, 125, 0, 0]].concat();
    query(&mut raw, ROUTER, 1, &foreign);
    assert!(reports(&pass(&mut host, &mut raw, &clock, Duration::from_secs(1))).is_empty());
    // A flood of queries that leave no time: ten answers a second.
    let at_once = [[0, 0, 0, 0].as_slice(), &[0; 16], &[2, 125, 0, 0]].concat();
    let mut answers = 0;
    for _ in 0..100 {
        for _ in 0..20 {
            query(&mut raw, ROUTER, 1, &at_once);
        }
        answers += reports(&pass(&mut host, &mut raw, &clock, Duration::from_millis(10))).len();
    }
    assert!((1..=11).contains(&answers), "{answers}");
    // An older router is answered in its language.
    query(&mut raw, ROUTER, 1, &at_once[..20]);
    let expected: Vec<_> = groups.iter().map(|group| (1, vec![*group])).collect();
    assert_eq!(reports(&pass(&mut host, &mut raw, &clock, Duration::from_secs(1))), expected);
}

const ROUTER_GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff77, 0x7777);
