//! The fence, run by the kernel on tables of frames.

use super::frames::*;
use qanat_control::filter::{Addresses, Direction, Filter, Rate};
use qanat_daemon::fence::rows::VnicRow;
use qanat_daemon::fence::tables::{FLAG_FILTERED, FLAG_ICMP, FLAG_SWITCH, FLAG_UNFENCED, Tables};
use qanat_tests::e2e::scenario;

/// The interface that test runs come from.
pub const LOOPBACK: u32 = 1;
pub const ATTACKER: u32 = 3;
pub const VICTIM: u32 = 5;

/// A fence with two VNICs: the attacker may send as TCP 80 and UDP 53 to 10/8 and fd77::/64; the victim anything.
pub struct Fence {
    pub tables: Tables,
    pub row: VnicRow,
}

pub fn filter(service: &str, peer: &str) -> Filter {
    Filter { peer: peer.parse().expect("a prefix"), ..Filter::service(service.parse().expect("a service")) }
}

impl Fence {
    pub fn new() -> Fence {
        let mut tables = Tables::load().expect("the gate loads");
        let mut filters = Vec::new();
        for service in ["tcp/80", "udp/53"] {
            filters.extend(["10.0.0.0/8", "fd77::/64"].map(|peer| filter(service, peer)));
        }
        let range = tables.write_filters(&filters).expect("room for filters");
        let row = VnicRow {
            mac: OWN_MAC,
            host_mac: HOST_MAC,
            flags: FLAG_ICMP | FLAG_SWITCH,
            filters: [range, (0, 0)],
            generation: 1,
            limits: [[0; 2]; 2],
            spread: 1,
        };
        tables.set_vnic(ATTACKER, &row).expect("a row");
        let everything = tables.write_filters(&[filter("any", "any")]).expect("room for filters");
        let victim = VnicRow { mac: OTHER_MAC, filters: [everything, (0, 0)], ..row };
        tables.set_vnic(VICTIM, &victim).expect("a row");
        for (slot, v4, v6) in [(ATTACKER, OWN, OWN_6), (VICTIM, OTHER, OTHER_6)] {
            tables.own(slot, v4.into()).expect("an address");
            tables.own(slot, v6.into()).expect("an address");
        }
        tables.connect(ATTACKER, LOOPBACK, LOOPBACK).expect("an interface");
        tables.open_port(VICTIM, LOOPBACK).expect("a port");
        Fence { tables, row }
    }

    /// Under which name a frame of the attacker's is counted, and whether it went no further.
    pub fn gate(&self, frame: &[u8]) -> (bool, String) {
        let verdict = self.tables.judge(ATTACKER, Direction::Transmit, frame, 1).expect("a test run");
        (verdict.dropped, verdict.cause)
    }

    pub fn deliver(&self, frame: &[u8]) -> String {
        self.tables.judge(ATTACKER, Direction::Receive, frame, 1).expect("a test run").cause
    }

    pub fn set_flags(&mut self, flags: u32) {
        self.tables.set_vnic(ATTACKER, &VnicRow { flags, ..self.row }).expect("a row");
    }

    /// Each attack's allowed form passes, its forged form is dropped for the reason given, and would not be without the fence.
    pub fn withstands(&mut self, attacks: &[Attack]) {
        let mut wrong = Vec::new();
        for attack in attacks {
            let name = attack.name;
            let (dropped, cause) = self.gate(&attack.allowed);
            if dropped {
                wrong.push(format!("{name}: the allowed form was dropped: {cause}"));
            }
            let (dropped, cause) = self.gate(&attack.forged);
            if !dropped || cause != attack.cause {
                wrong.push(format!("{name}: dropped {dropped} as {cause}, not as {}", attack.cause));
            }
            self.set_flags(FLAG_ICMP | FLAG_SWITCH | FLAG_UNFENCED);
            if self.gate(&attack.forged).0 {
                wrong.push(format!("{name}: fails without protection too: it proves nothing"));
            }
            self.set_flags(FLAG_ICMP | FLAG_SWITCH);
        }
        println!("{} attacks", attacks.len());
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// What is tried, the same act allowed, and the drop expected.
pub struct Attack {
    name: &'static str,
    allowed: Vec<u8>,
    forged: Vec<u8>,
    cause: &'static str,
}

pub fn attack(name: &'static str, allowed: &[u8], forged: &[u8], cause: &'static str) -> Attack {
    Attack { name, allowed: allowed.to_vec(), forged: forged.to_vec(), cause }
}

pub const IP: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const ARP: u16 = 0x0806;

pub fn tcp_frame() -> Vec<u8> {
    sent(IP, &Ipv4::own(6).with(&tcp(80, 4_000)))
}

fn ethernet_attacks() -> Vec<Attack> {
    let good = tcp_frame();
    let segment = Ipv4::own(6).with(&tcp(80, 4_000));
    vec![
        attack("forged source MAC", &good, &ethernet(HOST_MAC, OTHER_MAC, IP, &segment), "source_mac"),
        attack("the kernel's MAC as source", &good, &ethernet(HOST_MAC, HOST_MAC, IP, &segment), "source_mac"),
        attack("broadcast as source", &good, &ethernet(HOST_MAC, BROADCAST, IP, &segment), "source_mac"),
        attack("VLAN tag", &good, &tagged(&good, 0x8100, 7), "vlan_tag"),
        attack("priority tag", &good, &tagged(&good, 0x8100, 0), "vlan_tag"),
        attack("service tag", &good, &tagged(&good, 0x88a8, 7), "vlan_tag"),
        attack("double tags", &good, &tagged(&tagged(&good, 0x8100, 7), 0x88a8, 8), "vlan_tag"),
        attack("old double tags", &good, &tagged(&tagged(&good, 0x8100, 7), 0x8100, 8), "vlan_tag"),
        attack("spanning tree", &good, &sent(0x0026, &[0x42, 0x42, 3, 0, 0, 0]), "ethertype"),
        attack("LLDP", &good, &sent(0x88cc, &[2, 7, 4, 2, 0, 0, 0, 0, 1]), "ethertype"),
        attack("pause frames", &good, &sent(0x8808, &[0, 1, 0xff, 0xff]), "ethertype"),
        attack("PPPoE around IP", &good, &sent(0x8864, &segment), "ethertype"),
        attack("MPLS around IP", &good, &sent(0x8847, &segment), "ethertype"),
        attack("a card of nobody's", &good, &ethernet([2, 9, 9, 9, 9, 9], OWN_MAC, IP, &segment), "destination_mac"),
        attack("nothing after the header", &good, &sent(IP, &[]), "too_short"),
    ]
}

fn ipv4_attacks() -> Vec<Attack> {
    let good = tcp_frame();
    let from = |source| sent(IP, &Ipv4 { source, ..Ipv4::own(6) }.with(&tcp(80, 4_000)));
    let to = |destination| sent(IP, &Ipv4 { destination, ..Ipv4::own(6) }.with(&tcp(80, 4_000)));
    let fragment = |fragment, payload: &[u8]| sent(IP, &Ipv4 { fragment, ..Ipv4::own(6) }.with(payload));
    let option = |options: &[u8]| sent(IP, &Ipv4 { options: options.to_vec(), ..Ipv4::own(6) }.with(&tcp(80, 4_000)));
    let change = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let echo = sent(IP, &Ipv4::own(1).with(&icmp(8)));
    let kind = |kind| sent(IP, &Ipv4::own(1).with(&icmp(kind)));
    let about = |quote: &[u8]| sent(IP, &Ipv4::own(1).with(&icmp_error(3, quote)));
    let dns = sent(IP, &Ipv4::own(17).with(&udp(53, 4_000)));
    vec![
        attack("the victim's address", &good, &from(OTHER), "source_address"),
        attack("the kernel's address", &good, &from(HOST), "source_address"),
        attack("the unspecified address", &good, &from([0; 4]), "source_address"),
        attack("loopback", &good, &from([127, 0, 0, 1]), "source_address"),
        attack("broadcast as source", &good, &from([255; 4]), "source_address"),
        attack("multicast as source", &good, &from([224, 0, 0, 1]), "source_address"),
        attack("a port not allowed", &good, &sent(IP, &Ipv4::own(6).with(&tcp(22, 4_000))), "no_filter"),
        attack("UDP from TCP's port", &dns, &sent(IP, &Ipv4::own(17).with(&udp(80, 4_000))), "no_filter"),
        attack("a peer not allowed", &good, &to([192, 0, 2, 1]), "no_filter"),
        attack("a protocol not allowed", &good, &sent(IP, &Ipv4::own(47).with(&tcp(80, 80))), "no_filter"),
        attack("SCTP with an allowed port", &good, &sent(IP, &Ipv4::own(132).with(&tcp(80, 80))), "no_filter"),
        attack("IP in IP", &good, &sent(IP, &Ipv4::own(4).with(&Ipv4::own(6).with(&tcp(80, 80)))), "no_filter"),
        attack("a first fragment", &good, &fragment(0x2000, &tcp(80, 4_000)), "fragment"),
        attack("a later fragment without ports", &good, &fragment(3, &[0; 64]), "fragment"),
        attack("a fragment over the ports", &good, &fragment(0x2001, &tcp(80, 4_000)), "fragment"),
        attack("a tiny fragment", &good, &fragment(0x2000, &tcp(80, 4_000)[..8]), "fragment"),
        attack("loose source route", &good, &option(&[131, 7, 4, 10, 0, 0, 9, 0]), "ip_options"),
        attack("strict source route", &good, &option(&[137, 7, 4, 10, 0, 0, 9, 0]), "ip_options"),
        attack("router alert", &good, &option(&[148, 4, 0, 0]), "ip_options"),
        attack("IPv6 in an IPv4 frame", &good, &change(14, 0x65), "too_short"),
        attack("a header length of 4 words", &good, &change(14, 0x44), "too_short"),
        attack("longer than the frame", &good, &change(16, 9), "too_short"),
        attack("shorter than its header", &good, &change(17, 19), "too_short"),
        attack("ports cut off", &good, &sent(IP, &Ipv4::own(6).with(&tcp(80, 4_000)[..3])), "too_short"),
        attack("a TCP header cut off", &good, &sent(IP, &Ipv4::own(6).with(&tcp(80, 4_000)[..16])), "too_short"),
        attack("a TCP header of 4 words", &good, &change(46, 4 << 4), "too_short"),
        attack("TCP options past the end", &good, &change(46, 15 << 4), "too_short"),
        attack(
            "a UDP length below its header",
            &dns,
            &{
                let mut frame = dns.clone();
                frame[39] = 7;
                frame
            },
            "too_short",
        ),
        attack("ICMP redirect", &echo, &kind(5), "icmp_type"),
        attack("router advertisement (RFC 1256)", &echo, &kind(9), "icmp_type"),
        attack("router solicitation (RFC 1256)", &echo, &kind(10), "icmp_type"),
        attack("ICMP source quench", &echo, &kind(4), "icmp_type"),
        attack("ICMP timestamp", &echo, &kind(13), "icmp_type"),
        attack("ICMP address mask", &echo, &kind(18), "icmp_type"),
        attack(
            "an ICMP error with the victim's address",
            &about(&Ipv4::back(17).with(&udp(9, 53))),
            &sent(IP, &Ipv4 { source: OTHER, ..Ipv4::own(1) }.with(&icmp_error(3, &Ipv4::back(17).with(&udp(9, 53))))),
            "source_address",
        ),
        attack("ICMP cut off", &echo, &sent(IP, &Ipv4::own(1).with(&[8, 0, 0])), "too_short"),
        attack("IGMP", &echo, &sent(IP, &Ipv4::own(2).with(&[0x16, 0, 0, 0, 224, 0, 0, 9])), "no_filter"),
    ]
}

fn arp_attacks() -> Vec<Attack> {
    let request = ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, OWN, HOST));
    let reply = sent(ARP, &arp(2, OWN_MAC, OWN, HOST));
    let forged = |packet: &[u8]| sent(ARP, packet);
    let mut strange = arp(2, OWN_MAC, OWN, HOST);
    strange[4] = 8;
    vec![
        attack("ARP answer for the kernel's address", &reply, &forged(&arp(2, OWN_MAC, HOST, HOST)), "arp_forged"),
        attack("ARP answer for the victim's address", &reply, &forged(&arp(2, OWN_MAC, OTHER, HOST)), "arp_forged"),
        attack("ARP answer with the victim's MAC", &reply, &forged(&arp(2, OTHER_MAC, OWN, HOST)), "arp_forged"),
        attack(
            "ARP request that teaches a lie",
            &request,
            &ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, OTHER, HOST)),
            "arp_forged",
        ),
        attack(
            "gratuitous ARP for the gateway",
            &request,
            &ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, HOST, HOST)),
            "arp_forged",
        ),
        attack(
            "a probe for an address not ours",
            &ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, [0; 4], OWN)),
            &ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, [0; 4], OTHER)),
            "arp_forged",
        ),
        attack("an answer from 0.0.0.0", &reply, &forged(&arp(2, OWN_MAC, [0; 4], OWN)), "arp_forged"),
        attack("reverse ARP's operation", &reply, &forged(&arp(3, OWN_MAC, OWN, HOST)), "arp_forged"),
        attack("ARP with addresses of other lengths", &reply, &forged(&strange), "arp_forged"),
        attack("ARP cut off", &reply, &sent(ARP, &arp(2, OWN_MAC, OWN, HOST)[..20]), "too_short"),
    ]
}

fn ipv6_attacks() -> Vec<Attack> {
    let good = sent(IPV6, &Ipv6::own(6).with(&tcp(80, 4_000)));
    let from = |source| sent(IPV6, &Ipv6 { source, ..Ipv6::own(6) }.with(&tcp(80, 4_000)));
    let chain = |next: u8| {
        let mut payload = vec![6, 0, 1, 4, 0, 0, 0, 0];
        payload.extend(tcp(80, 4_000));
        sent(IPV6, &Ipv6::own(next).with(&payload))
    };
    let message = |payload: &[u8]| sent(IPV6, &Ipv6::own(58).with(payload));
    let echo = message(&icmp(128));
    let answer = message(&neighbour(136, OWN_6, 2, OWN_MAC));
    let ask = message(&neighbour(135, HOST_6, 1, OWN_MAC));
    let near = |hops, payload: &[u8]| sent(IPV6, &Ipv6 { hops, ..Ipv6::own(58) }.with(payload));
    let mut two_options = neighbour(136, OWN_6, 2, OWN_MAC);
    two_options.extend([3, 4, 64, 0xc0, 0, 0, 0, 0]);
    let mut endless = neighbour(136, OWN_6, 2, OWN_MAC);
    endless[25] = 0;
    let mut many = neighbour(136, OWN_6, 2, OWN_MAC);
    for _ in 0..8 {
        many.extend([2, 1]);
        many.extend(OWN_MAC);
    }
    let unspecified = |payload: &[u8]| {
        let packet = Ipv6 { source: [0; 16], destination: ALL_NODES, ..Ipv6::own(58) }.with(payload);
        ethernet(ALL_NODES_MAC, OWN_MAC, IPV6, &packet)
    };
    let mut probe = neighbour(135, OWN_6, 14, [0; 6]);
    probe.truncate(24);
    let mut stolen = probe.clone();
    stolen[8..24].copy_from_slice(&OTHER_6);
    vec![
        attack("IPv6: the victim's address", &good, &from(OTHER_6), "source_address"),
        attack("IPv6: the kernel's address", &good, &from(HOST_6), "source_address"),
        attack("IPv6: the victim's IPv4-mapped address", &good, &from(mapped(OTHER)), "mapped_address"),
        attack("IPv6: the own IPv4-mapped address", &good, &from(mapped(OWN)), "mapped_address"),
        attack(
            "IPv6: to an IPv4-mapped address",
            &good,
            &sent(IPV6, &Ipv6 { destination: mapped(HOST), ..Ipv6::own(6) }.with(&tcp(80, 4_000))),
            "mapped_address",
        ),
        attack(
            "ND answer for the own IPv4-mapped address",
            &answer,
            &message(&neighbour(136, mapped(OWN), 2, OWN_MAC)),
            "nd_forged",
        ),
        attack(
            "ND question for an IPv4-mapped address",
            &ask,
            &message(&neighbour(135, mapped(HOST), 1, OWN_MAC)),
            "nd_forged",
        ),
        attack(
            "ND question to somebody it is not about",
            &ask,
            &message(&neighbour(135, OTHER_6, 1, OWN_MAC)),
            "nd_forged",
        ),
        attack("IPv6: a port not allowed", &good, &sent(IPV6, &Ipv6::own(6).with(&tcp(22, 4_000))), "no_filter"),
        attack("IPv6: hop-by-hop options", &good, &chain(0), "extension_header"),
        attack("IPv6: routing header", &good, &chain(43), "extension_header"),
        attack("IPv6: destination options", &good, &chain(60), "extension_header"),
        attack("IPv6: authentication header", &good, &chain(51), "extension_header"),
        attack("IPv6: mobility header", &good, &chain(135), "extension_header"),
        attack("IPv6: a fragment that hides ports", &good, &chain(44), "fragment"),
        attack(
            "IPv6: longer than the frame",
            &good,
            &{
                let mut frame = good.clone();
                frame[18] = 9;
                frame
            },
            "too_short",
        ),
        attack("IPv6: a header cut off", &good, &good[..40], "too_short"),
        attack("router advertisement", &echo, &message(&icmp(134)), "icmp_type"),
        attack("router solicitation", &echo, &message(&icmp(133)), "icmp_type"),
        attack("IPv6 redirect", &echo, &message(&icmp(137)), "icmp_type"),
        attack("multicast listener report", &echo, &message(&icmp(143)), "icmp_type"),
        attack("node information query", &echo, &message(&icmp(139)), "icmp_type"),
        attack(
            "ND answer for the victim's address",
            &answer,
            &message(&neighbour(136, OTHER_6, 2, OWN_MAC)),
            "nd_forged",
        ),
        attack(
            "ND answer for the kernel's address",
            &answer,
            &message(&neighbour(136, HOST_6, 2, OWN_MAC)),
            "nd_forged",
        ),
        attack("ND answer with the victim's MAC", &answer, &message(&neighbour(136, OWN_6, 2, OTHER_MAC)), "nd_forged"),
        attack("ND question with the victim's MAC", &ask, &message(&neighbour(135, HOST_6, 1, OTHER_MAC)), "nd_forged"),
        attack(
            "ND question from the victim's address",
            &ask,
            &sent(IPV6, &Ipv6 { source: OTHER_6, ..Ipv6::own(58) }.with(&neighbour(135, HOST_6, 1, OWN_MAC))),
            "nd_forged",
        ),
        attack("ND from afar", &answer, &near(254, &neighbour(136, OWN_6, 2, OWN_MAC)), "nd_forged"),
        attack("ND with a prefix option", &answer, &message(&two_options), "nd_forged"),
        attack("ND with an option without length", &answer, &message(&endless), "nd_forged"),
        attack("ND with more options than are looked at", &answer, &message(&many), "nd_forged"),
        attack(
            "duplicate address detection for an address not ours",
            &unspecified(&probe),
            &unspecified(&stolen),
            "nd_forged",
        ),
    ]
}

pub fn mapped(address: [u8; 4]) -> [u8; 16] {
    std::net::Ipv4Addr::from(address).to_ipv6_mapped().octets()
}

fn switch_attacks() -> Vec<Attack> {
    let to_victim = |destination: [u8; 6]| {
        ethernet(destination, OWN_MAC, IP, &Ipv4 { destination: OTHER, ..Ipv4::own(6) }.with(&tcp(80, 4_000)))
    };
    vec![
        attack("another's packets by broadcast", &to_victim(OTHER_MAC), &to_victim(BROADCAST), "destination_mac"),
        attack(
            "another's address at a wrong card",
            &to_victim(OTHER_MAC),
            &to_victim([2, 9, 9, 9, 9, 9]),
            "destination_mac",
        ),
    ]
}

// Attack: frames: every forged field of a frame
#[test]
fn nothing_forged_gets_through() {
    scenario(|| {
        let mut fence = Fence::new();
        let attacks: Vec<Attack> =
            [ethernet_attacks(), ipv4_attacks(), arp_attacks(), ipv6_attacks(), switch_attacks()]
                .into_iter()
                .flatten()
                .collect();
        assert!(attacks.len() >= 95, "{} attacks", attacks.len());
        fence.withstands(&attacks);
    });
}

// Attack: frames: filters of the wrong direction, or not for broadcast
#[test]
fn flags_are_kept() {
    scenario(|| {
        let mut fence = Fence::new();
        let echo = sent(IP, &Ipv4::own(1).with(&icmp(8)));
        let to_victim =
            ethernet(OTHER_MAC, OWN_MAC, IP, &Ipv4 { destination: OTHER, ..Ipv4::own(6) }.with(&tcp(80, 1)));
        assert_eq!(fence.gate(&echo), (false, "passed_to_kernel".to_owned()));
        assert_eq!(fence.gate(&to_victim), (false, "switched".to_owned()));
        fence.set_flags(0);
        assert_eq!(fence.gate(&echo), (true, "no_filter".to_owned()), "no ICMP without the policy's word");
        assert_eq!(fence.gate(&to_victim), (true, "not_switched".to_owned()), "nor neighbours");
        let by_kernel = [&HOST_MAC, &to_victim[6..]].concat();
        assert_eq!(fence.gate(&by_kernel), (true, "not_switched".to_owned()), "not by way of the kernel either");
        // What is not connected is nobody's.
        fence.tables.disconnect(ATTACKER, Some((LOOPBACK, LOOPBACK)), &[]);
        let verdict = fence.tables.judge(ATTACKER, Direction::Transmit, &echo, 1).expect("a test run");
        assert!(verdict.dropped && verdict.cause.is_empty());
    });
}

// Attack: frames: another's packets received
#[test]
fn a_card_sees_only_what_is_its_own() {
    scenario(|| {
        let mut fence = Fence::new();
        let to = |destination, port| {
            let packet = Ipv4 { source: HOST, destination, ..Ipv4::own(6) }.with(&tcp(4_000, port));
            ethernet(OWN_MAC, HOST_MAC, IP, &packet)
        };
        // No socket is there: what would be delivered finds no queue.
        let arrives = "no_queue";
        assert_eq!(fence.deliver(&to(OWN, 80)), arrives);
        assert_eq!(fence.deliver(&to(OTHER, 80)), "not_addressed");
        assert_eq!(fence.deliver(&to(HOST, 80)), "not_addressed");
        let ask = |target| ethernet(BROADCAST, HOST_MAC, ARP, &arp(1, HOST_MAC, HOST, target));
        assert_eq!(fence.deliver(&ask(OWN)), arrives);
        assert_eq!(fence.deliver(&ask(OTHER)), "not_addressed");
        let solicit = |target| {
            let packet = Ipv6 { source: HOST_6, destination: ALL_NODES, ..Ipv6::own(58) };
            ethernet(ALL_NODES_MAC, HOST_MAC, IPV6, &packet.with(&neighbour(135, target, 1, HOST_MAC)))
        };
        assert_eq!(fence.deliver(&solicit(OWN_6)), arrives);
        assert_eq!(fence.deliver(&solicit(OTHER_6)), "not_addressed");
        assert_eq!(fence.deliver(&tagged(&to(OWN, 80), 0x8100, 7)), "vlan_tag");
        let piece = Ipv4 { source: HOST, destination: OWN, fragment: 7, ..Ipv4::own(6) }.with(&[0; 32]);
        let piece = ethernet(OWN_MAC, HOST_MAC, IP, &piece);
        assert_eq!(fence.deliver(&piece), arrives, "without receive filters fragments come too");
        // With a receive filter only what it covers.
        let only = Filter { peer: "10.77.0.0/24".parse().expect("a prefix"), ..filter("tcp/80", "any") };
        let range = fence.tables.write_filters(&[only]).expect("room");
        fence.row.filters[1] = range;
        fence.row.generation += 1;
        fence.set_flags(FLAG_ICMP | FLAG_FILTERED);
        assert_eq!(fence.deliver(&to(OWN, 80)), arrives);
        assert_eq!(fence.deliver(&to(OWN, 81)), "no_filter");
        assert_eq!(fence.deliver(&piece), "fragment");
        let afar = Ipv4 { source: [192, 0, 2, 1], destination: OWN, ..Ipv4::own(6) }.with(&tcp(4_000, 80));
        assert_eq!(fence.deliver(&ethernet(OWN_MAC, HOST_MAC, IP, &afar)), "no_filter");
    });
}

/// A UDP datagram over IPv4 from `source`, or over IPv6, in pieces of these lengths, all of `identification`.
fn pieces(ports: (u16, u16), identification: u16, lengths: &[usize], is_six: bool) -> Vec<Vec<u8>> {
    let all: usize = lengths.iter().sum();
    let mut datagram = udp(ports.0, ports.1);
    datagram.resize(all, 0);
    datagram[4..6].copy_from_slice(&(all as u16).to_be_bytes());
    let starts = lengths.iter().scan(0, |at, length| Some(std::mem::replace(at, *at + length)));
    let piece = |(at, length): (usize, &usize)| {
        let more = at + length < all;
        fragment(if is_six { IPV6 } else { IP }, 17, identification, (at, more), &datagram[at..at + length])
    };
    starts.zip(lengths).map(piece).collect()
}

/// One fragment of the attacker's.
pub fn fragment(kind: u16, protocol: u8, identification: u16, (at, more): (usize, bool), payload: &[u8]) -> Vec<u8> {
    if kind == IP {
        let mut packet =
            Ipv4 { fragment: (at / 8) as u16 | if more { 0x2000 } else { 0 }, ..Ipv4::own(protocol) }.with(payload);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        return sent(IP, &packet);
    }
    let mut header = vec![protocol, 0];
    header.extend((at as u16 | u16::from(more)).to_be_bytes());
    header.extend(u32::from(identification).to_be_bytes());
    header.extend(payload);
    sent(IPV6, &Ipv6::own(44).with(&header))
}

/// What the attacker sent, as if the kernel sent it to him.
fn returned(mut frame: Vec<u8>) -> Vec<u8> {
    let (first, length) = if frame[12..14] == IP.to_be_bytes() { (26, 4) } else { (22, 16) };
    for (one, other) in (0..6).map(|at| (at, at + 6)).chain((first..first + length).map(|at| (at, at + length))) {
        frame.swap(one, other);
    }
    frame
}

// Attack: frames: fragments of what a card may not receive
#[test]
fn a_filtered_card_has_the_fragments_of_what_it_may_have() {
    scenario(|| {
        let mut fence = Fence::new();
        let filters = ["10.0.0.0/8", "fd77::/64"].map(|peer| filter("udp/53", peer));
        fence.row.filters[1] = fence.tables.write_filters(&filters).expect("room");
        fence.row.generation += 1;
        fence.set_flags(FLAG_ICMP | FLAG_FILTERED);
        // No socket is there: what would be delivered finds no queue.
        let (arrives, refused) = ("no_queue", "fragment");
        for kind in [IP, IPV6] {
            let deliver = |frame: &[u8]| fence.deliver(&returned(frame.to_vec()));
            let all = |ports: (u16, u16), lengths: &[usize]| -> Vec<String> {
                pieces(ports, 7, lengths, kind == IPV6).iter().map(|piece| deliver(piece)).collect()
            };
            assert_eq!(all((4_000, 53), &[1_480, 1_480, 40]), [arrives; 3], "{kind:x}");
            assert_eq!(all((4_000, 54), &[1_480, 1_480, 40]), ["no_filter"; 3], "{kind:x}");
            let (protocol, number) = if kind == IP { (1, 8) } else { (58, 128) };
            let echo = [icmp(number), vec![0; 1_404]].concat();
            let later = |protocol, at, more, length: usize| fragment(kind, protocol, 7, (at, more), &vec![0; length]);
            assert_eq!(deliver(&fragment(kind, protocol, 7, (0, true), &echo)), arrives);
            assert_eq!(deliver(&later(protocol, echo.len(), false, 100)), arrives, "the rest of an echo request");
            let first = pieces((4_000, 53), 7, &[64, 64], kind == IPV6).remove(0);
            let of_another = {
                let mut frame = later(17, 64, false, 64);
                frame[if kind == IP { 33 } else { 53 }] = 9;
                frame
            };
            for (name, attack) in [
                ("over the header's end", later(17, 8, false, 64)),
                ("behind a gap", later(17, 72, false, 64)),
                ("of TCP", later(6, 64, false, 64)),
                ("of another peer", of_another),
                ("not whole eights, and more to come", later(17, 64, true, 63)),
            ] {
                assert_eq!(deliver(&first), arrives, "{name}: {kind:x}");
                assert_eq!(deliver(&attack), refused, "{name}: {kind:x}");
            }
            assert_eq!(deliver(&first), arrives);
            // What it sends itself is followed apart.
            let own = pieces((53, 4_000), 7, &[128, 64], kind == IPV6);
            assert_eq!(fence.gate(&own[0]), (false, "passed_to_kernel".to_owned()));
            assert_eq!(deliver(&later(17, 64, false, 64)), arrives, "the control");
            assert_eq!(deliver(&later(17, 64, false, 64)), refused, "behind the last");
            // To an address that is another's nothing comes, filter or not.
            let mut others = returned(first.clone());
            others[if kind == IP { 33 } else { 53 }] = if kind == IP { OTHER[3] } else { OTHER_6[15] };
            assert_eq!(fence.deliver(&others), "not_addressed");
            // Without receive filters they come in any order.
            fence.set_flags(FLAG_ICMP);
            assert_eq!(fence.deliver(&returned(later(17, 64, false, 64))), arrives);
            fence.set_flags(FLAG_ICMP | FLAG_FILTERED);
        }
    });
}

#[test]
fn a_datagram_leaves_in_fragments_if_it_may_leave_whole() {
    scenario(|| {
        let fence = Fence::new();
        for is_six in [false, true] {
            for lengths in [&[1_480, 1_480, 40][..], &[8, 8, 1], &[1_448; 45]] {
                for (number, piece) in pieces((53, 4_000), 7, lengths, is_six).iter().enumerate() {
                    assert_eq!(fence.gate(piece), (false, "passed_to_kernel".to_owned()), "{is_six} {number}");
                }
            }
            for piece in pieces((80, 4_000), 8, &[1_480, 1_480, 40], is_six) {
                assert_eq!(fence.gate(&piece), (true, "no_filter".to_owned()), "{is_six}");
            }
        }
        let echo = |kind, protocol, number| {
            let parts = [
                fragment(kind, protocol, 9, (0, true), &[icmp(number), vec![0; 12]].concat()),
                fragment(kind, protocol, 9, (48, false), &[0; 9]),
            ];
            parts.map(|part| fence.gate(&part).1)
        };
        for (kind, protocol, number) in [(IP, 1, 8), (IP, 1, 0), (IPV6, 58, 128), (IPV6, 58, 129)] {
            assert_eq!(echo(kind, protocol, number), ["passed_to_kernel"; 2], "{protocol} {number}");
        }
        for (kind, protocol, number) in
            [(IP, 1, 3), (IP, 1, 5), (IP, 58, 128), (IPV6, 58, 136), (IPV6, 58, 1), (IPV6, 1, 8)]
        {
            assert_eq!(echo(kind, protocol, number), ["fragment"; 2], "{protocol} {number}");
        }
    });
}

// Attack: frames: a fragment that reaches back into what was judged
#[test]
fn no_fragment_passes_but_where_the_one_before_it_ended() {
    scenario(|| {
        let mut fence = Fence::new();
        let good = (false, "passed_to_kernel".to_owned());
        let refused = (true, "fragment".to_owned());
        for kind in [IP, IPV6] {
            let first = pieces((53, 4_000), 7, &[64, 64], kind == IPV6).remove(0);
            let later = |at, more, length: usize| fragment(kind, 17, 7, (at, more), &vec![0; length]);
            let attacks: [(&str, Vec<u8>); 12] = [
                ("over the ports (RFC 1858)", later(0, true, 4)),
                ("over the ports, whole eights", fragment(kind, 17, 7, (0, true), &udp(22, 4_000)[..8])),
                ("over the header's end", later(8, false, 64)),
                ("over the last bytes", later(56, false, 64)),
                ("behind a gap", later(72, false, 64)),
                ("of another datagram", fragment(kind, 17, 8, (64, false), &[0; 64])),
                ("of TCP", fragment(kind, 6, 7, (64, false), &[0; 64])),
                ("of ICMP", fragment(kind, if kind == IP { 1 } else { 58 }, 7, (64, false), &[0; 64])),
                ("with nothing in it", later(64, false, 0)),
                ("not whole eights, and more to come", later(64, true, 63)),
                ("beyond the longest datagram", later(65_528, false, 64)),
                ("to somebody else", {
                    let mut frame = later(64, false, 64);
                    frame[if kind == IP { 33 } else { 53 }] = 9;
                    frame
                }),
            ];
            for (name, attack) in &attacks {
                assert_eq!(fence.gate(&first), good, "{name}: {kind:x}");
                let found = fence.gate(attack);
                // A second first one is a datagram of its own, and judged as such.
                let is_first = *name == "over the ports, whole eights";
                let expected = if is_first { &(true, "no_filter".to_owned()) } else { &refused };
                assert_eq!(found, *expected, "{name}: {kind:x}");
            }
            assert_eq!(fence.gate(&first), good);
            assert_eq!(fence.gate(&later(64, false, 64)), good, "the control");
            assert_eq!(fence.gate(&later(64, false, 64)), refused, "behind the last");
            assert_eq!(fence.gate(&later(128, false, 64)), refused, "behind the last");
            // From another's address: the first is not its own.
            let mut forged = first.clone();
            forged[if kind == IP { 29 } else { 37 }] = 3;
            assert_eq!(fence.gate(&forged), (true, "source_address".to_owned()));
            // Whose leave has been taken back meanwhile.
            assert_eq!(fence.gate(&first), good);
            let range = std::mem::take(&mut fence.row.filters[0]);
            fence.row.generation += 1;
            fence.set_flags(FLAG_ICMP | FLAG_SWITCH);
            assert_eq!(fence.gate(&later(64, false, 64)), (true, "no_filter".to_owned()));
            fence.row.filters[0] = range;
            fence.row.generation += 1;
            // Without the fence each of them would pass.
            for (name, attack) in &attacks {
                fence.set_flags(FLAG_ICMP | FLAG_SWITCH | FLAG_UNFENCED);
                assert!(!fence.gate(attack).0, "{name}");
            }
            fence.set_flags(FLAG_ICMP | FLAG_SWITCH);
        }
    });
}

// Attack: time and cost: fragments sent to get round a rate
#[test]
fn each_fragment_is_charged() {
    scenario(|| {
        let mut fence = Fence::new();
        let row = Tables::vnic_limit(ATTACKER, Direction::Transmit);
        let rate = Rate { packets_per_s: 1, ..Rate::default() };
        fence.tables.set_limit(row, rate, 1_500).expect("a limit");
        fence.row.limits[0][0] = row;
        fence.set_flags(FLAG_ICMP | FLAG_SWITCH);
        let causes: Vec<String> =
            pieces((53, 4_000), 7, &[1_480; 44], false).iter().map(|piece| fence.gate(piece).1).collect();
        assert_eq!(causes.first().map(String::as_str), Some("passed_to_kernel"));
        assert_eq!(causes.last().map(String::as_str), Some("rate_packets"));
    });
}

// Attack: frames: frames cut short at every byte
#[test]
fn every_prefix_of_a_frame_is_judged_without_reading_past_it() {
    scenario(|| {
        let fence = Fence::new();
        for frame in [
            tcp_frame(),
            sent(ARP, &arp(2, OWN_MAC, OWN, HOST)[..28]),
            sent(IPV6, &Ipv6::own(58).with(&neighbour(136, OWN_6, 2, OWN_MAC))),
        ] {
            // The kernel's test run takes no less than an Ethernet header.
            for length in 14..frame.len() {
                let (dropped, cause) = fence.gate(&frame[..length]);
                assert!(dropped, "{length} of {} bytes: {cause}", frame.len());
            }
            assert!(!fence.gate(&frame).0);
        }
    });
}

/// Filters of one other service each.
fn others(count: u16) -> Vec<Filter> {
    let other = |number: u16| {
        let mut filter = filter("tcp", "any");
        filter.service.ports.first = 1_000 + number;
        filter.service.ports.last = 1_000 + number;
        filter.local = Addresses::host(OWN.into());
        filter
    };
    (0..count).map(other).collect()
}

/// What a frame costs must not grow with the number of filters; `qanat bench fence` measures it.
#[test]
fn many_filters_are_asked_once_a_flow() {
    scenario(|| {
        let mut fence = Fence::new();
        let others = others(1_023);
        let covering = [others.as_slice(), &[filter("tcp/80", "10.0.0.0/8")]].concat();
        for (filters, is_told, verdict) in [
            (&covering, true, (false, "passed_to_kernel")),
            // Given filters that would say otherwise, and not told that they are others, it does not notice.
            (&others, false, (false, "passed_to_kernel")),
            (&others, true, (true, "no_filter")),
            (&covering, false, (true, "no_filter")),
            (&covering, true, (false, "passed_to_kernel")),
        ] {
            fence.row.filters[0] = fence.tables.write_filters(filters).expect("room");
            fence.row.generation += u32::from(is_told);
            fence.set_flags(FLAG_ICMP);
            assert_eq!(
                fence.gate(&tcp_frame()),
                (verdict.0, verdict.1.to_owned()),
                "{} filters, {is_told}",
                filters.len()
            );
            let forged = sent(IP, &Ipv4::own(6).with(&tcp(22, 4_000)));
            assert_eq!(fence.gate(&forged), (true, "no_filter".to_owned()), "a kept verdict is of its own flow");
        }
    });
}
