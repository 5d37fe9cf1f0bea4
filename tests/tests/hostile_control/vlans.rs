//! Filters of every kind of match, and forgeries of VLANs, Ethernet addresses and EtherTypes, run by the kernel on tables
//! of frames.

use super::frames::*;
use super::gate::{ARP, Attack, Fence, IP, IPV6, VICTIM, attack, filter, tcp_frame};
use qanat_control::filter::Filter;
use qanat_daemon::fence::rows::VnicRow;
use qanat_daemon::fence::tables::{FLAG_FILTERED, FLAG_ICMP, FLAG_SWITCH, FLAG_UPLINK, KERNEL};
use qanat_tests::e2e::scenario;

const CUSTOMER: u16 = 0x8100;
const SERVICE: u16 = 0x88a8;

/// A filter, and frames of which the first half is covered and the second not.
type Row = (&'static str, Filter, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn parts() -> Filter {
    filter("any", "any")
}

fn to(destination: [u8; 4]) -> Vec<u8> {
    sent(IP, &Ipv4 { destination, ..Ipv4::own(6) }.with(&tcp(80, 4_000)))
}

fn ports(own: u16, other: u16) -> Vec<u8> {
    sent(IP, &Ipv4::own(6).with(&tcp(own, other)))
}

fn protocol(number: u8) -> Vec<u8> {
    sent(IP, &Ipv4::own(number).with(&[0; 24]))
}

fn ip_rows() -> Vec<Row> {
    let v6 = |last: u8| {
        let mut destination = HOST_6;
        destination[15] = last;
        sent(IPV6, &Ipv6 { destination, ..Ipv6::own(6) }.with(&tcp(80, 4_000)))
    };
    let addresses = |text: &str| Filter { peer: text.parse().expect("addresses"), ..parts() };
    vec![
        ("a prefix", addresses("10.77.0.0/30"), vec![to([10, 77, 0, 1])], vec![to([10, 77, 0, 4]), v6(1)]),
        (
            "a range of addresses",
            addresses("10.77.0.9-10.77.0.11"),
            vec![to([10, 77, 0, 9]), to([10, 77, 0, 11])],
            vec![to([10, 77, 0, 8]), to([10, 77, 0, 12]), to([10, 76, 255, 10])],
        ),
        (
            "a mask of addresses",
            addresses("10.0.0.1/255.0.0.255"),
            vec![to([10, 77, 0, 1]), to([10, 9, 8, 1])],
            vec![to([10, 77, 0, 2]), to([11, 77, 0, 1]), v6(1)],
        ),
        ("a range of IPv6", addresses("fd77::5-fd77::6"), vec![v6(5), v6(6)], vec![v6(4), v6(7), tcp_frame()]),
        ("IPv4 alone", addresses("0.0.0.0/0"), vec![tcp_frame()], vec![v6(1)]),
        (
            "an own address",
            Filter { local: "10.77.0.2".parse().expect("addresses"), ..parts() },
            vec![tcp_frame()],
            vec![v6(1)],
        ),
        (
            "protocols",
            filter("46-47", "any"),
            vec![protocol(46), protocol(47)],
            vec![protocol(45), protocol(48), tcp_frame()],
        ),
        ("own ports", filter("tcp/80-81", "any"), vec![ports(80, 1), ports(81, 1)], vec![ports(79, 1), ports(82, 1)]),
        (
            "the peer's ports",
            Filter { peer_ports: "1000-2000".parse().expect("ports"), ..parts() },
            vec![ports(80, 1_000), ports(80, 2_000)],
            vec![ports(80, 999), ports(80, 2_001)],
        ),
        (
            "UDP ports",
            filter("udp/53", "any"),
            vec![sent(IP, &Ipv4::own(17).with(&udp(53, 9)))],
            vec![sent(IP, &Ipv4::own(17).with(&udp(54, 9))), ports(53, 9)],
        ),
    ]
}

fn link_rows() -> Vec<Row> {
    let good = tcp_frame();
    let in_vlan = |vlan: u16| tagged(&tcp_frame(), CUSTOMER, vlan);
    let in_two = |outer: u16, inner: u16| tagged(&tagged(&tcp_frame(), CUSTOMER, inner), SERVICE, outer);
    let vlan = |text: &str| Filter { vlan: text.parse().expect("a VLAN"), ..parts() };
    let macs = |text: &str| Filter { macs: text.parse().expect("addresses"), ..parts() };
    let types = |text: &str| Filter { types: Some(text.parse().expect("types")), ..parts() };
    let at = |last: u8| ethernet([2, 0, 0, 0, 0, last], OWN_MAC, IP, &Ipv4::own(6).with(&tcp(80, 4_000)));
    let raw = |ethertype: u16| sent(ethertype, &[7; 46]);
    vec![
        ("no VLAN", vlan("none"), vec![good.clone()], vec![in_vlan(7), in_vlan(0), in_two(7, 8)]),
        ("a VLAN", vlan("7"), vec![in_vlan(7)], vec![good.clone(), in_vlan(8), in_vlan(0), in_two(7, 8), in_two(8, 7)]),
        ("a range of VLANs", vlan("7-9"), vec![in_vlan(7), in_vlan(9)], vec![in_vlan(6), in_vlan(10), good.clone()]),
        ("a priority tag", vlan("0"), vec![in_vlan(0)], vec![in_vlan(7), good.clone()]),
        ("two tags", vlan("8.7"), vec![in_two(8, 7)], vec![in_two(7, 8), in_vlan(8), in_vlan(7), good.clone()]),
        ("any inner tag", vlan("8.any"), vec![in_two(8, 7), in_vlan(8)], vec![in_two(7, 8), good.clone()]),
        ("any VLAN", vlan("any"), vec![good.clone(), in_vlan(7), in_two(8, 7)], vec![]),
        ("an Ethernet address", macs("02:00:00:00:00:ff"), vec![at(0xff)], vec![at(0xfe)]),
        ("a range of them", macs("02:00:00:00:00:fe-02:00:00:00:00:ff"), vec![at(0xff)], vec![at(0xfd)]),
        ("a mask of them", macs("02:00:00:00:00:01/ff:00:00:00:00:01"), vec![at(0xff)], vec![at(0xfe)]),
        ("an EtherType", types("0x88b5"), vec![raw(0x88b5)], vec![raw(0x88b6), raw(0x88cc), good.clone()]),
        ("EtherTypes", types("0x88b5-0x88b6"), vec![raw(0x88b5), raw(0x88b6)], vec![raw(0x88b7)]),
        ("IP by its EtherType", types("0x0800"), vec![good.clone()], vec![raw(0x88b5), in_vlan(7)]),
    ]
}

#[test]
fn every_kind_of_match() {
    scenario(|| {
        let mut fence = Fence::new();
        let mut wrong = Vec::new();
        let rows: Vec<Row> = ip_rows().into_iter().chain(link_rows()).collect();
        for (name, filter, covered, beyond) in &rows {
            // Alone, where it is compared, and behind others, where its verdict is remembered: asked twice.
            for others in [0, 20] {
                let other = |number: u16| Filter { peer_ports: "7".parse().expect("ports"), ..filter_at(number) };
                let mut all: Vec<Filter> = (0..others).map(other).collect();
                all.push(*filter);
                fence.row.filters[0] = fence.tables.write_filters(&all).expect("room");
                fence.row.generation += 1;
                fence.set_flags(FLAG_ICMP);
                for (frame, passes) in covered.iter().map(|f| (f, true)).chain(beyond.iter().map(|f| (f, false))) {
                    for turn in 0..2 {
                        let (dropped, cause) = fence.gate(frame);
                        // Where it goes is the route's affair; what the filter says is.
                        let forbidden = dropped && !matches!(cause.as_str(), "destination_mac" | "not_switched");
                        if forbidden == passes {
                            wrong.push(format!("{name}, {others} others, turn {turn}: {cause} of {frame:02x?}"));
                        }
                    }
                }
                fence.tables.free_filters(fence.row.filters[0]);
            }
        }
        println!("{} kinds", rows.len());
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

fn filter_at(number: u16) -> Filter {
    let port = 2_000 + number;
    let mut filter = filter("tcp", "any");
    (filter.service.ports.first, filter.service.ports.last) = (port, port);
    filter
}

/// What is tried by one who may use VLAN 7, VLAN 7 inside 8, and EtherType 0x88b5 to one card.
fn attacks() -> Vec<Attack> {
    let plain = tcp_frame();
    let segment = Ipv4::own(6).with(&tcp(80, 4_000));
    let in_vlan = |frame: &[u8], control: u16| tagged(frame, CUSTOMER, control);
    let in_two = |frame: &[u8], outer: u16, inner: u16| tagged(&tagged(frame, CUSTOMER, inner), SERVICE, outer);
    let good = in_vlan(&plain, 7);
    let two = in_two(&plain, 8, 7);
    let tagged_with = |frame: &[u8]| in_vlan(frame, 7);
    let reply = tagged_with(&sent(ARP, &arp(2, OWN_MAC, OWN, HOST)));
    let answer = |target, mac| tagged_with(&sent(IPV6, &Ipv6::own(58).with(&neighbour(136, target, 2, mac))));
    let echo = tagged_with(&sent(IP, &Ipv4::own(1).with(&icmp(8))));
    let raw = sent(0x88b5, &[7; 46]);
    let from = |source| tagged_with(&sent(IP, &Ipv4 { source, ..Ipv4::own(6) }.with(&tcp(80, 4_000))));
    let triple = tagged(&two, SERVICE, 9);
    vec![
        attack("another VLAN", &good, &in_vlan(&plain, 9), "vlan_tag"),
        attack("the native VLAN by a priority tag", &good, &in_vlan(&plain, 0), "vlan_tag"),
        attack("the reserved VLAN", &good, &in_vlan(&plain, 4_095), "vlan_tag"),
        attack("a priority not given", &good, &in_vlan(&plain, 7 | 7 << 13), "vlan_tag"),
        attack("drop eligibility", &good, &in_vlan(&plain, 7 | 1 << 12), "vlan_tag"),
        attack("a priority in the inner tag", &two, &in_two(&plain, 8, 7 | 5 << 13), "vlan_tag"),
        attack("a priority in the outer tag", &two, &in_two(&plain, 8 | 5 << 13, 7), "vlan_tag"),
        attack("hopping by another inner tag", &two, &in_two(&plain, 8, 9), "vlan_tag"),
        attack("hopping by another outer tag", &two, &in_two(&plain, 7, 9), "vlan_tag"),
        attack("tags the other way round", &two, &in_two(&plain, 7, 8), "vlan_tag"),
        attack("two customers' tags", &two, &tagged(&in_vlan(&plain, 7), CUSTOMER, 8), "vlan_tag"),
        attack("two services' tags", &two, &tagged(&tagged(&plain, SERVICE, 7), SERVICE, 8), "vlan_tag"),
        attack("three tags", &two, &triple, "vlan_tag"),
        attack("a service's tag alone", &good, &tagged(&plain, SERVICE, 7), "vlan_tag"),
        attack("an old service's tag", &good, &tagged(&plain, 0x9100, 7), "ethertype"),
        attack("a tag cut off", &good, &good[..16], "vlan_tag"),
        attack("a second tag cut off", &two, &two[..20], "vlan_tag"),
        attack("IP cut off behind a tag", &good, &good[..30], "too_short"),
        attack(
            "a source MAC behind a tag",
            &good,
            &in_vlan(&ethernet(HOST_MAC, OTHER_MAC, IP, &segment), 7),
            "source_mac",
        ),
        attack("the victim's address behind a tag", &good, &from(OTHER), "source_address"),
        attack("the kernel's address behind a tag", &good, &from(HOST), "source_address"),
        attack(
            "a port not allowed behind a tag",
            &good,
            &tagged_with(&sent(IP, &Ipv4::own(6).with(&tcp(22, 1)))),
            "vlan_tag",
        ),
        attack(
            "a fragment behind a tag",
            &good,
            &tagged_with(&sent(IP, &Ipv4 { fragment: 3, ..Ipv4::own(6) }.with(&[0; 64]))),
            "fragment",
        ),
        attack(
            "longer than its tagged frame",
            &good,
            &{
                let mut frame = good.clone();
                let whole = (frame.len() - 18 + 1) as u16;
                frame[20..22].copy_from_slice(&whole.to_be_bytes());
                frame
            },
            "too_short",
        ),
        attack("ARP in another VLAN", &reply, &in_vlan(&sent(ARP, &arp(2, OWN_MAC, OWN, HOST)), 9), "vlan_tag"),
        attack(
            "ARP for the victim in a VLAN",
            &reply,
            &tagged_with(&sent(ARP, &arp(2, OWN_MAC, OTHER, HOST))),
            "arp_forged",
        ),
        attack(
            "ARP with the victim's MAC in a VLAN",
            &reply,
            &tagged_with(&sent(ARP, &arp(2, OTHER_MAC, OWN, HOST))),
            "arp_forged",
        ),
        attack(
            "gratuitous ARP for the gateway in a VLAN",
            &reply,
            &tagged_with(&ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, HOST, HOST))),
            "arp_forged",
        ),
        attack("ND for the victim in a VLAN", &answer(OWN_6, OWN_MAC), &answer(OTHER_6, OWN_MAC), "nd_forged"),
        attack("ND with the victim's MAC in a VLAN", &answer(OWN_6, OWN_MAC), &answer(OWN_6, OTHER_MAC), "nd_forged"),
        attack(
            "ND in another VLAN",
            &answer(OWN_6, OWN_MAC),
            &in_vlan(&sent(IPV6, &Ipv6::own(58).with(&neighbour(136, OWN_6, 2, OWN_MAC))), 9),
            "vlan_tag",
        ),
        attack(
            "router advertisement in a VLAN",
            &echo,
            &tagged_with(&sent(IPV6, &Ipv6::own(58).with(&icmp(134)))),
            "icmp_type",
        ),
        attack("ICMP redirect in a VLAN", &echo, &tagged_with(&sent(IP, &Ipv4::own(1).with(&icmp(5)))), "icmp_type"),
        attack("ping in another VLAN", &echo, &in_vlan(&sent(IP, &Ipv4::own(1).with(&icmp(8))), 9), "vlan_tag"),
        attack("another EtherType", &raw, &sent(0x88b6, &[7; 46]), "ethertype"),
        attack("LLDP beside an EtherType of one's own", &raw, &sent(0x88cc, &[7; 46]), "ethertype"),
        attack("an EtherType to another card", &raw, &ethernet(OTHER_MAC, OWN_MAC, 0x88b5, &[7; 46]), "ethertype"),
        attack("an EtherType to everybody", &raw, &ethernet(BROADCAST, OWN_MAC, 0x88b5, &[7; 46]), "ethertype"),
        attack("an EtherType in a VLAN", &raw, &in_vlan(&raw, 7), "vlan_tag"),
        attack("an EtherType from another's MAC", &raw, &ethernet(HOST_MAC, OTHER_MAC, 0x88b5, &[7; 46]), "source_mac"),
    ]
}

// Attack: frames: VLANs and EtherTypes no filter names
#[test]
fn no_other_vlan_and_no_other_type() {
    scenario(|| {
        let mut fence = Fence::new();
        let web = filter("tcp/80", "any");
        let raw = Filter {
            types: Some("0x88b5".parse().expect("a type")),
            macs: "02:00:00:00:00:ff".parse().expect("the kernel's"),
            ..filter("any", "any")
        };
        let filters = [
            web,
            Filter { vlan: "7".parse().expect("a VLAN"), ..web },
            Filter { vlan: "8.7".parse().expect("two"), ..web },
            raw,
        ];
        fence.row.filters[0] = fence.tables.write_filters(&filters).expect("room");
        fence.row.generation += 1;
        fence.set_flags(FLAG_ICMP | FLAG_SWITCH);
        fence.withstands(&attacks());
    });
}

#[test]
fn what_is_received_in_a_vlan() {
    scenario(|| {
        let mut fence = Fence::new();
        let plain = ethernet(
            OWN_MAC,
            HOST_MAC,
            IP,
            &Ipv4 { source: HOST, destination: OWN, ..Ipv4::own(6) }.with(&tcp(4_000, 80)),
        );
        let in_vlan = |vlan| tagged(&plain, CUSTOMER, vlan);
        let raw = ethernet(OWN_MAC, HOST_MAC, 0x88b5, &[7; 46]);
        let others = ethernet(OTHER_MAC, HOST_MAC, 0x88b5, &[7; 46]);
        // No socket is there: what would be delivered finds no queue.
        let arrives = "no_queue";
        assert_eq!(fence.deliver(&in_vlan(7)), "vlan_tag", "unless a filter says so there is no VLAN");
        assert_eq!(fence.deliver(&raw), "ethertype");
        let types = Filter { types: Some("0x88b5".parse().expect("a type")), ..filter("any", "any") };
        let filters =
            [filter("any", "any"), Filter { vlan: "7".parse().expect("a VLAN"), ..filter("any", "any") }, types];
        fence.row.filters[1] = fence.tables.write_filters(&filters).expect("room");
        fence.row.generation += 1;
        fence.set_flags(FLAG_ICMP | FLAG_FILTERED);
        assert_eq!(fence.deliver(&plain), arrives);
        assert_eq!(fence.deliver(&in_vlan(7)), arrives);
        assert_eq!(fence.deliver(&in_vlan(7 | 5 << 13)), arrives, "others may have priorities");
        assert_eq!(fence.deliver(&in_vlan(9)), "vlan_tag");
        assert_eq!(fence.deliver(&raw), arrives);
        assert_eq!(fence.deliver(&others), "not_addressed", "another's frame is not for reading");
    });
}

// Attack: privilege: filters of the Ethernet level beyond the rule
#[test]
fn the_wire_is_for_whom_the_policy_lets() {
    scenario(|| {
        let mut fence = Fence::new();
        let router = [2, 7, 7, 7, 7, 7];
        let out = ethernet(router, OWN_MAC, IP, &Ipv4::own(6).with(&tcp(80, 4_000)));
        let ask = |target| ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, OWN, target));
        let elsewhere = [10, 77, 0, 99];
        assert_eq!(fence.gate(&out), (true, "destination_mac".to_owned()), "not without the policy's word");
        fence.set_flags(FLAG_ICMP | FLAG_SWITCH | FLAG_UPLINK);
        assert_eq!(fence.gate(&out).1, "to_uplink");
        assert_eq!(fence.gate(&ask(elsewhere)).1, "to_uplink");
        assert_eq!(fence.gate(&tcp_frame()).1, "passed_to_kernel");
        fence.tables.own(KERNEL, HOST.into()).expect("the kernel's address");
        assert_eq!(fence.gate(&ask(HOST)).1, "passed_to_kernel", "who asks for the kernel is heard by the kernel");
        assert_eq!(fence.gate(&ask(OTHER)).1, "switched", "and who asks for a neighbour by the neighbour");
        let forged = ethernet(router, OWN_MAC, IP, &Ipv4 { source: OTHER, ..Ipv4::own(6) }.with(&tcp(80, 4_000)));
        assert_eq!(fence.gate(&forged), (true, "source_address".to_owned()));
        let row = VnicRow { flags: 0, ..fence.row };
        fence.tables.set_vnic(VICTIM, &VnicRow { mac: OTHER_MAC, ..row }).expect("a row");
        let round = ethernet(router, OWN_MAC, IP, &Ipv4 { destination: OTHER, ..Ipv4::own(6) }.with(&tcp(80, 4_000)));
        assert_eq!(fence.gate(&round).1, "not_switched", "nor round by the wire to who is not to be reached");
    });
}
