//! IPv6 addresses on trial (RFC 4862), and routers that announce themselves (RFC 4861).

use qanat_nic::{
    Clock, Frame, ManualClock, MemoryPlan, Pair, PairConfig, Time, TransmitBuffer, TransmitOptions, Vnic, pair,
};
use qanat_stack::{
    AddressState, CommandError, Config, ConnectOptions, DuplicateAddressDetection, Event, ListenOptions, Stack,
};
use qanat_wire::ethernet::{self, EtherType, MacAddress};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::ipv6;
use qanat_wire::neighbor_discovery::{self, Discovery};
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
    let options =
        neighbor_discovery::Options { source_link_layer: Some(RAW_MAC), target_link_layer: None, ..Default::default() };
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
            let is_conflict =
                |event: &Event| matches!(event, Event::AddressConflict { address } if *address == IpAddr::V6(ADDRESS));
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

#[test]
fn routers() {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let far = SocketAddr::new("2001:db8:1::1".parse().unwrap(), 80);
    let announce = |lifetime_s| Discovery::RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        lifetime_s,
        reachable_time_ms: 0,
        retransmission_time_ms: 0,
    };
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
