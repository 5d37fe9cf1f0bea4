//! IPv4 addresses that other hosts have as well (RFC 5227).

use qanat_nic::{
    Clock, Frame, ManualClock, MemoryPlan, Pair, PairConfig, Time, TransmitBuffer, TransmitOptions, Vnic, pair,
};
use qanat_stack::{AddressState, Config, ConnectOptions, DuplicateAddressDetection, Event, Stack};
use qanat_wire::arp::{self, Operation};
use qanat_wire::ethernet::{self, EtherType, MacAddress};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const STRANGER: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const STEP: Duration = Duration::from_millis(10);

struct Host {
    stack: Stack,
    vnic: Pair,
}

impl Host {
    fn new(vnic: Pair, mode: DuplicateAddressDetection, set: impl FnOnce(&mut Config)) -> Host {
        let mut config = Config::new(ADDRESS.into(), 24);
        (config.connections_max, config.timers_max, config.duplicate_address_detection) = (16, 16, mode);
        set(&mut config);
        Host { stack: Stack::new(config, [1; 32], &vnic, Time::ZERO), vnic }
    }

    fn step(&mut self, now: Time) -> Vec<Event> {
        self.stack.receive(now, &mut self.vnic);
        let events = std::iter::from_fn(|| self.stack.next_event()).collect();
        self.stack.transmit(now, &mut self.vnic);
        events
    }

    /// For so long; what it says, and when.
    fn pass(&mut self, raw: &mut Pair, clock: &ManualClock, time: Duration) -> Vec<(Time, arp::Header)> {
        let end = clock.now() + time;
        let mut said = Vec::new();
        while clock.now() < end {
            clock.advance(STEP);
            self.step(clock.now());
            said.extend(heard(raw).into_iter().map(|packet| (clock.now(), packet)));
        }
        said
    }

    fn state(&self) -> AddressState {
        self.stack.address_state(ADDRESS.into()).unwrap()
    }
}

fn ends() -> [Pair; 2] {
    let (a, b) = pair(PairConfig::default()).unwrap();
    [a, b].map(|end| end.open(MemoryPlan::default()).unwrap())
}

/// The ARP packets that came; requests are to everybody.
fn heard(raw: &mut Pair) -> Vec<arp::Header> {
    let mut frames: Vec<Frame> = Vec::new();
    raw.receive(&mut frames, 64);
    let parse = |frame: &Frame| {
        assert_eq!(frame.bytes()[12..14], [8, 6]);
        let packet = arp::Header::parse(&arp::Packet::parse(&frame.bytes()[ethernet::HEADER_LENGTH..]).unwrap());
        assert_eq!(frame.bytes()[..6] == [0xff; 6], packet.operation == Operation::REQUEST);
        packet
    };
    frames.iter().map(parse).collect()
}

fn say(raw: &mut Pair, operation: Operation, mac: MacAddress, sender: Ipv4Addr, target: Ipv4Addr) {
    let packet = arp::Header {
        operation,
        sender_hardware: mac,
        sender_protocol: sender,
        target_hardware: MacAddress::default(),
        target_protocol: target,
    };
    let mut frame = raw.transmit_pool().allocate(64).unwrap();
    packet.emit(frame.append(arp::PACKET_LENGTH).unwrap()).unwrap();
    let header = ethernet::Header { destination: MacAddress::BROADCAST, source: mac, ethertype: EtherType::ARP };
    header.emit(frame.prepend(ethernet::HEADER_LENGTH).unwrap()).unwrap();
    raw.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    raw.flush();
}

#[test]
fn three_probes_then_two_announcements() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, DuplicateAddressDetection::On, |_| {});
    let said = host.pass(&mut raw, &clock, Duration::from_secs(20));
    assert!(said.iter().all(|(_, packet)| packet.operation == Operation::REQUEST && packet.target_protocol == ADDRESS));
    let senders: Vec<Ipv4Addr> = said.iter().map(|(_, packet)| packet.sender_protocol).collect();
    let unspecified = Ipv4Addr::UNSPECIFIED;
    assert_eq!(senders, [unspecified, unspecified, unspecified, ADDRESS, ADDRESS]);
    let at: Vec<Time> = said.iter().map(|(at, _)| *at).collect();
    assert!(at[0] <= Time::from_millis(110), "{at:?}");
    for pair in [[at[0], at[1]], [at[1], at[2]]] {
        let between = pair[1].since(pair[0]);
        assert!((Duration::from_millis(990)..=Duration::from_millis(2_020)).contains(&between), "{between:?}");
    }
    for pair in [[at[2], at[3]], [at[3], at[4]]] {
        let between = pair[1].since(pair[0]);
        assert!((Duration::from_millis(1_990)..=Duration::from_millis(2_020)).contains(&between), "{between:?}");
    }
    assert_eq!((host.state(), host.stack.lost_address()), (AddressState::Usable, None));
    assert_eq!((host.stack.counters().address_probes_sent, host.stack.counters().addresses_verified), (3, 1));
}

#[test]
fn whoever_does_not_want_it_sends_nothing() {
    let off = DuplicateAddressDetection::Off;
    for (mode, is_shared) in [(off, false), (DuplicateAddressDetection::On, true)] {
        let clock = ManualClock::new();
        let [vnic, mut raw] = ends();
        let mut host = Host::new(vnic, mode, |config| config.shared_address = is_shared);
        say(&mut raw, Operation::REPLY, STRANGER, ADDRESS, ADDRESS);
        assert!(host.pass(&mut raw, &clock, Duration::from_secs(20)).is_empty());
        assert_eq!((host.state(), host.stack.counters().address_conflicts), (AddressState::Usable, 0));
    }
}

/// On trial, each of these shows that another has the address: an answer, any request or announcement of its, a probe.
#[test]
fn an_address_somebody_has_is_given_up() {
    let none = Ipv4Addr::UNSPECIFIED;
    let claims = [
        (Operation::REPLY, ADDRESS, none),
        (Operation::REPLY, ADDRESS, OTHER),
        (Operation::REQUEST, ADDRESS, OTHER),
        (Operation::REQUEST, ADDRESS, ADDRESS),
        (Operation::REQUEST, none, ADDRESS),
    ];
    for (operation, sender, target) in claims {
        let clock = ManualClock::new();
        let [vnic, mut raw] = ends();
        let mut host = Host::new(vnic, DuplicateAddressDetection::On, |_| {});
        host.pass(&mut raw, &clock, Duration::from_millis(200));
        let peer = SocketAddr::new(OTHER.into(), 80);
        let connection = host.stack.connect(clock.now(), peer, ConnectOptions::default()).unwrap();
        say(&mut raw, operation, STRANGER, sender, target);
        let events = host.step(clock.now());
        let holder = |event: &Event| match event {
            Event::AddressConflict { address, holder } if *address == IpAddr::V4(ADDRESS) => Some(*holder),
            _ => None,
        };
        assert_eq!(events.iter().find_map(holder), Some(STRANGER), "{operation:?} {sender} {target}: {events:?}");
        assert!(
            events.iter().any(|event| matches!(event, Event::Closed { connection: gone, .. } if *gone == connection))
        );
        assert_eq!((host.state(), host.stack.usage().connections), (AddressState::Duplicate, 0));
        assert_eq!(host.stack.lost_address(), Some((ADDRESS.into(), STRANGER)));
        heard(&mut raw);
        // It says nothing of the address any more, and does not answer for it.
        say(&mut raw, Operation::REQUEST, STRANGER, OTHER, ADDRESS);
        assert!(host.pass(&mut raw, &clock, Duration::from_secs(20)).is_empty());
        assert_eq!(host.stack.counters().arp_answered, 0);
    }
}

/// A service that has another address left goes on with that.
#[test]
fn one_of_several_is_not_all() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, DuplicateAddressDetection::On, |config| {
        config.addresses.push((Ipv4Addr::new(192, 0, 2, 7).into(), 24))
    });
    host.pass(&mut raw, &clock, Duration::from_millis(200));
    for (lost, all) in [(ADDRESS, None), (Ipv4Addr::new(192, 0, 2, 7), Some((ADDRESS.into(), STRANGER)))] {
        say(&mut raw, Operation::REPLY, STRANGER, lost, OTHER);
        host.step(clock.now());
        assert_eq!(host.stack.address_state(lost.into()), Some(AddressState::Duplicate));
        assert_eq!(host.stack.lost_address(), all);
    }
}

#[test]
fn what_is_no_conflict() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let own = vnic.capabilities().mac;
    let mut host = Host::new(vnic, DuplicateAddressDetection::On, |_| {});
    host.pass(&mut raw, &clock, Duration::from_millis(200));
    // Our own probe comes back; others speak of themselves, and probe for another address.
    say(&mut raw, Operation::REQUEST, own, Ipv4Addr::UNSPECIFIED, ADDRESS);
    say(&mut raw, Operation::REQUEST, STRANGER, OTHER, OTHER);
    say(&mut raw, Operation::REQUEST, STRANGER, Ipv4Addr::UNSPECIFIED, OTHER);
    host.pass(&mut raw, &clock, Duration::from_secs(10));
    let answered = host.stack.counters().arp_answered;
    // Not on trial any more: who probes is answered, and has to choose another.
    say(&mut raw, Operation::REQUEST, STRANGER, Ipv4Addr::UNSPECIFIED, ADDRESS);
    host.step(clock.now());
    assert_eq!((host.state(), host.stack.counters().address_conflicts), (AddressState::Usable, 0));
    assert_eq!(host.stack.counters().arp_answered, answered + 1);
}

/// RFC 5227 section 2.4 (c): a server keeps its address, and says so once in ten seconds at most.
#[test]
fn later_it_is_defended() {
    let clock = ManualClock::new();
    let [vnic, mut raw] = ends();
    let mut host = Host::new(vnic, DuplicateAddressDetection::On, |_| {});
    host.pass(&mut raw, &clock, Duration::from_secs(20));
    let mut announced = 0;
    for _ in 0..25 {
        say(&mut raw, Operation::REQUEST, STRANGER, ADDRESS, OTHER);
        let said = host.pass(&mut raw, &clock, Duration::from_secs(1));
        assert!(said.iter().all(|(_, packet)| (packet.sender_protocol, packet.target_protocol) == (ADDRESS, ADDRESS)));
        announced += said.len();
    }
    assert_eq!(announced, 3);
    assert_eq!(host.state(), AddressState::Usable);
    let counters = host.stack.counters();
    assert_eq!((counters.address_conflicts, counters.addresses_defended), (25, 3));
    assert!(!host.stack.neighbours().any(|(address, _)| address == IpAddr::V4(ADDRESS)), "nobody has our address");
}
