//! Whose an address is, and about whose flows a card may speak: the fence, run by the kernel on frames and grants.

use super::cards::{Control, card};
use super::frames::*;
use super::gate::{
    ARP, ATTACKER, Attack, Fence, IP, IPV6, LOOPBACK, VICTIM, attack, filter, fragment, mapped, tcp_frame,
};
use qanat_control::filter::{Direction, Filter, Rate};
use qanat_daemon::fence::rows::{FilterRow, LinkScope};
use qanat_daemon::fence::tables::{FLAG_FILTERED, FLAG_ICMP, FLAG_PEERS, FLAG_SWITCH, KERNEL};
use qanat_tests::e2e::scenario;

/// Errors about flows that are not the card's: each quotes what it can't have received from whom it sends it to.
fn quote_attacks() -> Vec<Attack> {
    let about = |kind, quote: &[u8]| sent(IP, &Ipv4::own(1).with(&icmp_error(kind, quote)));
    let about_6 = |kind, quote: &[u8]| sent(IPV6, &Ipv6::own(58).with(&icmp_error(kind, quote)));
    let (good, good_6) = (Ipv4::back(6).with(&tcp(4_000, 80)), Ipv6::back(6).with(&tcp(4_000, 80)));
    let (allowed, allowed_6) = (about(3, &good), about_6(2, &good_6));
    let mut attacks = Vec::new();
    let mut try_four = |name, quote: &[u8]| attacks.push(attack(name, &allowed, &about(3, quote), "icmp_quote"));
    let to = |destination| Ipv4 { destination, ..Ipv4::back(6) }.with(&tcp(4_000, 80));
    let from = |source| Ipv4 { source, ..Ipv4::back(6) }.with(&tcp(4_000, 80));
    let change = |at: usize, byte: u8| {
        let mut quote = good.clone();
        quote[at] = byte;
        quote
    };
    try_four("the kernel's flow with somebody far", &to([192, 0, 2, 9]));
    try_four("the kernel's flow with the victim", &to(OTHER));
    try_four("the victim's flow with the card", &from(OTHER));
    try_four("a flow of the card's own", &Ipv4::own(6).with(&tcp(80, 4_000)));
    try_four("the kernel's flow with itself", &to(HOST));
    try_four("a quote without ports", &good[..24]);
    try_four("a quote without a header", &[]);
    try_four("a quote of no IPv4", &change(0, 0x65));
    try_four("a quote with options", &change(0, 0x46));
    try_four("a later fragment", &change(7, 3));
    try_four("an error about an error", &Ipv4::back(1).with(&icmp(3)));
    try_four("an error about a redirect", &Ipv4::back(1).with(&icmp(5)));
    try_four("an IPv6 packet in an IPv4 error", &good_6);
    for (name, kind) in [("time exceeded elsewhere", 11), ("a parameter problem elsewhere", 12)] {
        attacks.push(attack(name, &about(kind, &good), &about(kind, &to([192, 0, 2, 9])), "icmp_quote"));
    }
    let mut try_six = |name, kind, quote: &[u8]| {
        attacks.push(attack(name, &allowed_6, &about_6(kind, quote), "icmp_quote"));
    };
    let to = |destination| Ipv6 { destination, ..Ipv6::back(6) }.with(&tcp(4_000, 80));
    let far = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    try_six("IPv6: too big, to somebody far", 2, &to(far));
    try_six("IPv6: unreachable, the victim", 1, &to(OTHER_6));
    try_six("IPv6: time exceeded elsewhere", 3, &to(far));
    try_six("IPv6: a parameter problem elsewhere", 4, &to(far));
    try_six("IPv6: the victim's flow", 2, &Ipv6 { source: OTHER_6, ..Ipv6::back(6) }.with(&tcp(4_000, 80)));
    try_six("IPv6: a flow of the card's own", 2, &Ipv6::own(6).with(&tcp(80, 4_000)));
    try_six("IPv6: by a mapped address", 2, &to(mapped(OWN)));
    try_six(
        "IPv6: behind an extension header",
        2,
        &Ipv6::back(0).with(&[&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp(4_000, 80)].concat()),
    );
    try_six("IPv6: a fragment", 2, &Ipv6::back(44).with(&[&[6, 0, 0, 0, 0, 0, 0, 7][..], &tcp(4_000, 80)].concat()));
    try_six("IPv6: a quote without ports", 2, &good_6[..44]);
    try_six("IPv6: an error about an error", 2, &Ipv6::back(58).with(&icmp(1)));
    try_six("IPv6: an error about a solicitation", 2, &Ipv6::back(58).with(&neighbour(135, OWN_6, 1, HOST_MAC)));
    attacks
}

// Attack: frames: ICMP errors about flows that are others'
#[test]
fn no_error_is_about_anothers_flow() {
    scenario(|| {
        let attacks = quote_attacks();
        assert!(attacks.len() >= 25, "{} attacks", attacks.len());
        Fence::new().withstands(&attacks);
    });
}

/// What a card hears, and what it says, about flows it may have, where its filters are narrow.
// Attack: frames: ICMP errors about flows that the filters don't let pass
#[test]
fn errors_are_about_what_the_filters_let_pass() {
    scenario(|| {
        let mut fence = Fence::new();
        let good = (false, "passed_to_kernel".to_owned());
        let refused = (true, "icmp_quote".to_owned());
        let said = |fence: &Fence, port| {
            let four = sent(IP, &Ipv4::own(1).with(&icmp_error(3, &Ipv4::back(17).with(&udp(4_000, port)))));
            let six = sent(IPV6, &Ipv6::own(58).with(&icmp_error(1, &Ipv6::back(17).with(&udp(4_000, port)))));
            [fence.gate(&four), fence.gate(&six)]
        };
        let heard = |fence: &Fence, port| {
            let four = Ipv4::back(1).with(&icmp_error(3, &Ipv4::own(17).with(&udp(port, 4_000))));
            let six = Ipv6::back(58).with(&icmp_error(1, &Ipv6::own(17).with(&udp(port, 4_000))));
            [(IP, four), (IPV6, six)].map(|(kind, packet)| fence.deliver(&ethernet(OWN_MAC, HOST_MAC, kind, &packet)))
        };
        // Everything that is for it is received: a closed port is worth an error.
        assert_eq!(said(&fence, 9), [good.clone(), good.clone()]);
        assert_eq!(heard(&fence, 9), ["no_queue"; 2], "and what it hears is its stack's affair");
        let echo = Ipv4::back(1).with(&icmp(8));
        assert_eq!(fence.gate(&sent(IP, &Ipv4::own(1).with(&icmp_error(3, &echo)))), good, "about an echo request");
        // With receive filters what these cover, and what the transmit filters may have sent.
        let range = fence.tables.write_filters(&[filter("udp/53", "any")]).expect("room");
        fence.row.filters[1] = range;
        fence.row.generation += 1;
        fence.row.flags |= FLAG_FILTERED;
        fence.set_flags(FLAG_ICMP | FLAG_SWITCH | FLAG_FILTERED);
        assert_eq!(said(&fence, 53), [good.clone(), good.clone()]);
        assert_eq!(said(&fence, 9), [refused.clone(), refused.clone()]);
        assert_eq!(heard(&fence, 53), ["no_queue"; 2]);
        assert_eq!(heard(&fence, 9), ["icmp_quote"; 2]);
        let others = Ipv4::back(1).with(&icmp_error(3, &Ipv4 { source: OTHER, ..Ipv4::own(17) }.with(&udp(53, 9))));
        assert_eq!(fence.deliver(&ethernet(OWN_MAC, HOST_MAC, IP, &others)), "icmp_quote", "of another's flow");
        // An IPv4 address in an IPv6 packet is nobody's.
        let forged = Ipv6 { source: mapped(HOST), ..Ipv6::back(17) }.with(&udp(9, 53));
        assert_eq!(fence.deliver(&ethernet(OWN_MAC, HOST_MAC, IPV6, &forged)), "mapped_address");
        let forged = Ipv6 { destination: mapped(OWN), ..Ipv6::back(17) }.with(&udp(9, 53));
        assert_eq!(fence.deliver(&ethernet(OWN_MAC, HOST_MAC, IPV6, &forged)), "mapped_address");
        let forged = Ipv6::back(58).with(&neighbour(135, mapped(OWN), 1, HOST_MAC));
        assert_eq!(fence.deliver(&ethernet(OWN_MAC, HOST_MAC, IPV6, &forged)), "nd_forged");
    });
}

/// No grant takes away what another has, and only what is one's own is given back.
// Attack: identity and names: a grant of what another has: an address, an Ethernet address, an interface
#[test]
fn an_address_has_one_owner() {
    scenario(|| {
        let mut fence = Fence::new();
        let tables = &mut fence.tables;
        for (slot, address) in [(ATTACKER, OTHER.into()), (ATTACKER, mapped(OTHER).into()), (KERNEL, OTHER_6.into())] {
            let refusal = tables.own(slot, address).unwrap_err();
            assert!(refusal.to_string().contains("another VNIC's"), "{refusal}");
        }
        tables.own(VICTIM, OTHER.into()).expect("its own, again");
        tables.own(KERNEL, HOST.into()).expect("the kernel's");
        assert!(tables.own(ATTACKER, HOST.into()).unwrap_err().to_string().contains("the kernel's"));
        assert!(tables.share(ATTACKER, OTHER.into()).is_err(), "what is shared is the kernel's");
        tables.share(ATTACKER, HOST.into()).expect("and that can be");
        tables.name_card(VICTIM, OTHER_MAC).expect("a card");
        assert!(tables.name_card(ATTACKER, OTHER_MAC).is_err(), "an Ethernet address likewise");
        assert!(tables.connect(VICTIM, LOOPBACK, LOOPBACK).is_err(), "and an interface");
        // The attacker's end takes nothing of the victim's along.
        tables.disconnect(ATTACKER, Some((LOOPBACK, LOOPBACK)), &[OTHER.into(), OTHER_6.into(), OWN.into()]);
        assert!(tables.own(ATTACKER, OTHER.into()).is_err() && tables.own(VICTIM, OWN.into()).is_ok());
        tables.connect(VICTIM, LOOPBACK, LOOPBACK).expect("an interface given back");
    });
}

/// A rule that names peers binds ICMP, and questions for neighbours.
// Attack: frames: pings, and questions for neighbours, beyond the rule's peers
#[test]
fn peers_are_those_of_the_rule_without_a_service_too() {
    scenario(|| {
        let mut fence = Fence::new();
        fence.tables.own(KERNEL, HOST.into()).expect("the kernel's");
        fence.tables.own(KERNEL, HOST_6.into()).expect("the kernel's");
        let far = |last| [192, 0, 2, last];
        fence.tables.set_gateways(&[far(1).into()]).expect("a next hop");
        let row = |link, macs: &str| FilterRow {
            link: Some(link),
            ..FilterRow::from(Filter { macs: macs.parse().expect("macs"), ..filter("any", "10.77.0.0/29") })
        };
        let mac = |address: [u8; 6]| address.map(|byte| format!("{byte:02x}")).join(":");
        let rows = [row(LinkScope::All, &mac(HOST_MAC)), row(LinkScope::Questions, "any")];
        fence.row.filters[0] = fence.tables.write_filters(&rows).expect("room");
        let ping = |destination| Ipv4 { destination, ..Ipv4::own(1) }.with(&icmp(8));
        let question = |target| ethernet(BROADCAST, OWN_MAC, ARP, &arp(1, OWN_MAC, OWN, target));
        let solicit = |target| {
            sent(IPV6, &Ipv6 { destination: target, ..Ipv6::own(58) }.with(&neighbour(135, target, 1, OWN_MAC)))
        };
        let far_6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        let fragment = fragment(IP, 1, 9, (0, true), &[icmp(8), vec![0; 12]].concat());
        let far_fragment = {
            let mut frame = fragment.clone();
            frame[30..34].copy_from_slice(&far(9));
            frame
        };
        let quote = Ipv4 { source: far(9), ..Ipv4::back(17) }.with(&udp(9, 53));
        let error = sent(IP, &Ipv4 { destination: far(9), ..Ipv4::own(1) }.with(&icmp_error(3, &quote)));
        for (name, frame, is_bound) in [
            ("a ping to a peer", sent(IP, &ping(HOST)), false),
            ("a ping to another", sent(IP, &ping(far(9))), true),
            ("a ping to a next hop", sent(IP, &ping(far(1))), true),
            ("a ping by another Ethernet address", ethernet([2, 0, 0, 0, 0, 9], OWN_MAC, IP, &ping(HOST)), true),
            ("a ping in fragments", fragment, false),
            ("a ping in fragments to another", far_fragment, true),
            ("an error to another", error, true),
            ("an IPv6 ping", sent(IPV6, &Ipv6::own(58).with(&icmp(128))), true),
            ("a question for a peer", question([10, 77, 0, 7]), false),
            ("a question for another", question(far(9)), true),
            ("a question for the kernel", question(HOST), false),
            ("a question for a next hop", question(far(1)), false),
            ("a question for oneself", question(OWN), false),
            ("an answer", sent(ARP, &arp(2, OWN_MAC, OWN, far(9))), false),
            ("a solicitation of the kernel", solicit(HOST_6), false),
            ("a solicitation of another", solicit(far_6), true),
            ("what has a service", tcp_frame(), true),
        ] {
            fence.set_flags(FLAG_ICMP | FLAG_SWITCH | FLAG_PEERS);
            let (dropped, cause) = fence.gate(&frame);
            assert_eq!((dropped, cause == "no_filter"), (is_bound, is_bound), "{name}: {cause}");
            fence.set_flags(FLAG_ICMP | FLAG_SWITCH);
            let is_service = name == "what has a service";
            assert_eq!(fence.gate(&frame).1 == "no_filter", is_service, "{name}, unbound");
        }
    });
}

// Attack: identity and names: an address twice in an earlier daemon's notes, in two forms
#[test]
fn notes_that_give_an_address_twice_give_it_once() {
    scenario(|| {
        let mut control = Control::generous();
        let (first, _queue) = card(&control, 2, &["udp"]);
        let (second, _other) = card(&control, 3, &["udp"]);
        control.crash();
        let notes = control.socket.with_extension("state").join(format!("vnic-{}.json", second.status().vnic));
        let text = std::fs::read_to_string(&notes).expect("what the daemon wrote");
        let changed = text.replace("\"10.77.0.3\"", "\"::ffff:10.77.0.2\"");
        assert_ne!(text, changed);
        std::fs::write(&notes, changed).expect("written");
        control.resume();
        let names: Vec<String> = control.vnics().into_iter().map(|vnic| vnic.name).collect();
        assert_eq!(names, ["card 2"], "who has the address keeps it");
        assert!(first.set_rate(Direction::Transmit, Rate::UNLIMITED).is_ok());
        assert!(second.set_rate(Direction::Transmit, Rate::UNLIMITED).is_err());
        let (_third, _queue) = card(&control, 3, &["udp"]);
    });
}

/// An Ethernet-level filter in a VLAN is no leave to ping whom the rule does not name.
#[test]
fn a_filter_of_another_type_lets_no_ping_pass() {
    scenario(|| {
        let mut fence = Fence::new();
        let of = |types: Option<&str>, peer: &str| Filter {
            vlan: "7".parse().expect("a VLAN"),
            types: types.map(|text| text.parse().expect("a type")),
            ..filter("any", peer)
        };
        let ping = |frame: Vec<u8>| tagged(&frame, 0x8100, 7);
        let (near, far) = (Ipv4::own(1), Ipv4 { destination: [192, 0, 2, 9], ..Ipv4::own(1) });
        for (filter, passes) in [
            (of(Some("0x88b5"), "any"), [false, false]),
            (of(None, "10.77.0.0/24"), [true, false]),
            (of(None, "any"), [true, true]),
        ] {
            fence.row.filters[0] = fence.tables.write_filters(&[filter]).expect("room");
            fence.row.generation += 1;
            fence.set_flags(FLAG_ICMP | FLAG_SWITCH);
            let found = [&near, &far].map(|to| !fence.gate(&ping(sent(IP, &to.with(&icmp(8))))).0);
            assert_eq!(found, passes, "{filter}");
        }
    });
}
