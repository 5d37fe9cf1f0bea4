//! A veth device stands in for a NIC: what is for a card leaves the kernel's path there, and the rest is the kernel's.

use super::cards::{Control, PLAN, arrivals, send};
use super::frames::{Ipv4, Ipv6, arp, ethernet, neighbour as neighbour_message, udp};
use qanat_control::address::Address;
use qanat_control::client::VnicHandle;
use qanat_control::protocol::VnicWish;
use qanat_nic::AfXdp;
use qanat_nic::af_xdp::{AttachConfig, Interface, Rule};
use qanat_nic::link::{Namespace, link};
use qanat_tests::e2e::{eventually, scenario};
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

const WIRE: &str = "[uplink]\ninterface = \"up0\"\n\
    [[rule]]\nname = \"wire\"\nusers = [\"*\"]\nvnics = 8\naddresses = [\"192.0.2.0/24\", \"10.77.0.0/24\", \
    \"2001:db8::/64\"]\nqueues = 3\nservices = [\"udp\"]\nuplink = true\n";

/// A neighbour on the wire with 192.0.2.9, in a namespace of its own; the kernel here has 192.0.2.1.
fn neighbour() -> Namespace {
    let far = Namespace::anonymous().expect("a namespace");
    qanat_nic::link::make_veth("up0", "far0", &far, 1_500, 1).expect("a veth device");
    let run = |line: &str| {
        let mut words = line.split(' ');
        let status = std::process::Command::new(words.next().expect("a command")).args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
    };
    run("ip addr add 192.0.2.1/24 dev up0");
    run("ip addr add 2001:db8::1/64 dev up0 nodad");
    run("ip link set up0 up");
    far.within(|| {
        run("ip addr add 192.0.2.9/24 dev far0");
        run("ip addr add 2001:db8::9/64 dev far0 nodad");
        run("ip link set far0 up");
        // So that frames redirected into the device are taken; with checksums that are whole.
        run("ethtool -K far0 gro on tx off");
    })
    .expect("the neighbour's side");
    far
}

/// A card on the wire with this address, for its port 7.
fn wire_card(control: &Control, address: (IpAddr, u8), shared: bool) -> Result<(VnicHandle, AfXdp), String> {
    let wish = VnicWish {
        name: format!("card {}", address.0),
        addresses: vec![(address.0.into(), address.1)],
        services: vec!["udp/7".parse().expect("a service")],
        shared,
        ..VnicWish::default()
    };
    let vnic = control.session().create_vnic(wish).map_err(|error| error.to_string())?;
    let queue = vnic.open_queue(0, PLAN).map_err(|error| error.to_string())?;
    Ok((vnic, queue))
}

fn four_card(control: &Control, last: u8, shared: bool) -> Result<(VnicHandle, AfXdp), String> {
    wire_card(control, (IpAddr::from([192, 0, 2, last]), 24), shared)
}

fn socket(far: &Namespace, address: &str) -> UdpSocket {
    let open = || {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok::<_, std::io::Error>(socket)
    };
    far.within(open).expect("a namespace").expect("a socket")
}

fn received(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut bytes = [0; 64];
    socket.recv(&mut bytes).ok().map(|length| bytes[..length].to_vec())
}

/// With the IP checksum in, as a kernel wants it.
pub fn packet(source: u8, destination: u8, ports: (u16, u16)) -> Vec<u8> {
    let mut packet = Ipv4 { source: [192, 0, 2, source], destination: [192, 0, 2, destination], ..Ipv4::own(17) }
        .with(&udp(ports.0, ports.1));
    let sum: u32 = packet[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// 2001:db8:: and the last byte.
fn six(last: u8) -> [u8; 16] {
    let mut address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    address[15] = last;
    address
}

/// An IPv6 packet with the checksum of its payload at `offset` in it.
fn packet_6(source: [u8; 16], destination: [u8; 16], next: u8, mut payload: Vec<u8>, offset: usize) -> Vec<u8> {
    let pseudo = [&source[..], &destination, &(payload.len() as u32).to_be_bytes(), &[0, 0, 0, next]].concat();
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte))).sum()
    };
    let mut sum = words(&pseudo) + words(&payload);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    payload[offset..offset + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
    Ipv6 { source, destination, next, hops: 255 }.with(&payload)
}

fn datagram_6(source: u8, destination: u8, ports: (u16, u16)) -> Vec<u8> {
    packet_6(six(source), six(destination), 17, udp(ports.0, ports.1), 6)
}

/// Where solicitations for 2001:db8::`last` go: its Ethernet and its IPv6 address (RFC 4291 section 2.7.1).
fn solicited(last: u8) -> ([u8; 6], [u8; 16]) {
    ([0x33, 0x33, 0xff, 0, 0, last], [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, last])
}

fn is_neighbour(frame: &[u8], kind: u8, target: [u8; 16]) -> bool {
    frame.get(12..14) == Some(&[0x86, 0xdd])
        && frame.get(20) == Some(&58)
        && frame.get(54) == Some(&kind)
        && frame.get(62..78) == Some(&target)
}

fn is_udp_6(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(20) == Some(&17)
}

fn is_udp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17)
}

#[test]
fn a_card_is_on_the_wire_with_an_address_of_its_own() {
    scenario(|| {
        let far = neighbour();
        let control = Control::start(WIRE);
        let (vnic, mut queue) = four_card(&control, 20, false).expect("a card on the wire");
        let mac = vnic.status().mac;
        assert!(vnic.status().uplink);
        let far_mac = far.within(|| link("far0")).expect("a namespace").expect("its device").mac.0;
        let outside = socket(&far, "192.0.2.9:9");
        outside.send_to(b"data", "192.0.2.20:7").expect("sent");
        // The neighbour asks who has the address; the card, and nobody else, is asked, and answers.
        let frames = arrivals(&mut queue);
        let asked = frames
            .iter()
            .any(|frame| frame.get(12..14) == Some(&[8, 6]) && frame.get(38..42) == Some(&[192, 0, 2, 20]));
        assert!(asked, "{frames:02x?}");
        let mut answer = arp(2, mac, [192, 0, 2, 20], [192, 0, 2, 9]);
        answer[18..24].copy_from_slice(&far_mac);
        send(&mut queue, &[ethernet(far_mac, mac, 0x0806, &answer)]);
        let frames = arrivals(&mut queue);
        assert_eq!(frames.iter().filter(|frame| is_udp(frame)).count(), 1, "{frames:02x?}");
        send(&mut queue, &[ethernet(far_mac, mac, 0x0800, &packet(20, 9, (7, 9)))]);
        assert_eq!(received(&outside).as_deref(), Some(&b"data"[..]), "and answers by the wire");
        // Forged ones do not get there, and what is the kernel's is the kernel's.
        for forged in [packet(1, 9, (7, 9)), packet(21, 9, (7, 9)), packet(20, 9, (8, 9))] {
            send(&mut queue, &[ethernet(far_mac, mac, 0x0800, &forged)]);
        }
        outside.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
        assert!(received(&outside).is_none(), "nothing forged leaves");
        let kernel = UdpSocket::bind("192.0.2.1:7").expect("the kernel's socket");
        kernel.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
        outside.send_to(b"kernel", "192.0.2.1:7").expect("sent");
        assert_eq!(received(&kernel).as_deref(), Some(&b"kernel"[..]));
        assert!(!arrivals(&mut queue).iter().any(|frame| is_udp(frame)), "not the card's");
        drop(control);
        assert!(link("up0").expect("the uplink").xdp_program.is_none(), "the uplink is given back");
    });
}

#[test]
fn a_card_has_a_port_of_the_kernels_address() {
    scenario(|| {
        let far = neighbour();
        let control = Control::start(WIRE);
        assert!(four_card(&control, 1, false).is_err(), "the kernel's address is taken");
        assert!(four_card(&control, 20, true).is_err(), "and only its can be shared");
        let (vnic, mut queue) = four_card(&control, 1, true).expect("a card that shares");
        let mac = vnic.status().mac;
        let outside = socket(&far, "192.0.2.9:9");
        let kernel = UdpSocket::bind("192.0.2.1:8").expect("the kernel's socket");
        kernel.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
        outside.send_to(b"data", "192.0.2.1:7").expect("sent");
        outside.send_to(b"kernel", "192.0.2.1:8").expect("sent");
        assert_eq!(received(&kernel).as_deref(), Some(&b"kernel"[..]), "the kernel's port is the kernel's");
        let frames: Vec<Vec<u8>> = arrivals(&mut queue).into_iter().filter(|frame| is_udp(frame)).collect();
        assert_eq!(frames.len(), 1, "the card's port is the card's");
        assert_eq!(frames[0][..6], mac, "and comes to its Ethernet address");
        // Its question goes out in the kernel's name, and the answer comes to it.
        send(&mut queue, &[ethernet([0xff; 6], mac, 0x0806, &arp(1, mac, [192, 0, 2, 1], [192, 0, 2, 9]))]);
        let frames = arrivals(&mut queue);
        let answer = frames.iter().find(|frame| frame.get(12..14) == Some(&[8, 6])).expect("an answer");
        let far_mac: [u8; 6] = answer[22..28].try_into().expect("an Ethernet address");
        send(&mut queue, &[ethernet(far_mac, mac, 0x0800, &packet(1, 9, (7, 9)))]);
        assert_eq!(received(&outside).as_deref(), Some(&b"data"[..]));
        // It can't answer in the kernel's name, nor speak for its other ports.
        outside.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
        send(&mut queue, &[ethernet(far_mac, mac, 0x0800, &packet(1, 9, (8, 9)))]);
        assert!(received(&outside).is_none());
        send(&mut queue, &[ethernet(far_mac, mac, 0x0806, &arp(2, mac, [192, 0, 2, 1], [192, 0, 2, 9]))]);
        let counts = control.vnics()[0].transmit.counts.clone();
        assert!(counts.iter().any(|count| count.cause == "arp_forged"), "{counts:?}");
    });
}

fn six_card(control: &Control, last: u8, shared: bool) -> Result<(VnicHandle, AfXdp), String> {
    wire_card(control, (IpAddr::from(six(last)), 64), shared)
}

#[test]
fn a_card_is_on_the_wire_with_an_ipv6_address_of_its_own() {
    scenario(|| {
        let far = neighbour();
        let control = Control::start(WIRE);
        let (vnic, mut queue) = six_card(&control, 0x20, false).expect("a card on the wire");
        let mac = vnic.status().mac;
        let far_mac = far.within(|| link("far0")).expect("a namespace").expect("its device").mac.0;
        let outside = socket(&far, "[2001:db8::9]:9");
        outside.send_to(b"data", "[2001:db8::20]:7").expect("sent");
        let frames = arrivals(&mut queue);
        assert!(frames.iter().any(|frame| is_neighbour(frame, 135, six(0x20))), "the card is asked: {frames:02x?}");
        let answer = packet_6(six(0x20), six(9), 58, neighbour_message(136, six(0x20), 2, mac), 2);
        send(&mut queue, &[ethernet(far_mac, mac, 0x86dd, &answer)]);
        assert_eq!(arrivals(&mut queue).iter().filter(|frame| is_udp_6(frame)).count(), 1, "and answers itself");
        send(&mut queue, &[ethernet(far_mac, mac, 0x86dd, &datagram_6(0x20, 9, (7, 9)))]);
        assert_eq!(received(&outside).as_deref(), Some(&b"data"[..]));
        // For the kernel's address it does not answer.
        let forged = packet_6(six(1), six(9), 58, neighbour_message(136, six(1), 2, mac), 2);
        send(&mut queue, &[ethernet(far_mac, mac, 0x86dd, &forged)]);
        let counts = control.vnics()[0].transmit.counts.clone();
        assert!(counts.iter().any(|count| count.cause == "nd_forged"), "{counts:?}");
        let kernel = UdpSocket::bind("[2001:db8::1]:7").expect("the kernel's socket");
        kernel.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
        outside.send_to(b"kernel", "[2001:db8::1]:7").expect("sent");
        assert_eq!(received(&kernel).as_deref(), Some(&b"kernel"[..]));
    });
}

#[test]
fn a_card_has_a_port_of_the_kernels_ipv6_address() {
    scenario(|| {
        let far = neighbour();
        let control = Control::start(WIRE);
        let (vnic, mut queue) = six_card(&control, 1, true).expect("a card that shares");
        let mac = vnic.status().mac;
        let up_mac = link("up0").expect("the uplink").mac.0;
        let outside = socket(&far, "[2001:db8::9]:9");
        let kernel = UdpSocket::bind("[2001:db8::1]:8").expect("the kernel's socket");
        kernel.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
        // Who asks for the address is answered by the kernel, for both.
        outside.send_to(b"data", "[2001:db8::1]:7").expect("sent");
        outside.send_to(b"kernel", "[2001:db8::1]:8").expect("sent");
        assert_eq!(received(&kernel).as_deref(), Some(&b"kernel"[..]), "the kernel's port is the kernel's");
        let frames = arrivals(&mut queue);
        assert!(!frames.iter().any(|frame| is_neighbour(frame, 135, six(1))), "the card is not asked: {frames:02x?}");
        assert_eq!(frames.iter().filter(|frame| is_udp_6(frame)).count(), 1, "the card's port is the card's");
        // Its own question goes out in the kernel's name, with a checksum that is right; the answer comes to it.
        let (group_mac, group) = solicited(9);
        let question = packet_6(six(1), group, 58, neighbour_message(135, six(9), 1, mac), 2);
        let mut answer = None;
        eventually("an answer", Duration::from_secs(3), || {
            send(&mut queue, &[ethernet(group_mac, mac, 0x86dd, &question)]);
            answer = arrivals(&mut queue).into_iter().find(|frame| is_neighbour(frame, 136, six(9)));
            answer.is_some()
        });
        let answer = answer.expect("an answer");
        assert_eq!(answer[..6], mac);
        let far_mac: [u8; 6] = answer[80..86].try_into().expect("an Ethernet address");
        send(&mut queue, &[ethernet(far_mac, mac, 0x86dd, &datagram_6(1, 9, (7, 9)))]);
        assert_eq!(received(&outside).as_deref(), Some(&b"data"[..]));
        let known =
            far.within(|| std::process::Command::new("ip").args(["-6", "neigh", "show", "2001:db8::1"]).output());
        let known = String::from_utf8(known.expect("a namespace").expect("ip").stdout).expect("text");
        let up_mac: Vec<String> = up_mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(known.contains(&up_mac.join(":")), "the neighbour knows the uplink's Ethernet address: {known}");
        // It can't answer in the kernel's name, nor look for duplicates of its address, nor speak for its other ports.
        outside.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
        let advertisement = packet_6(six(1), six(9), 58, neighbour_message(136, six(1), 2, mac), 2);
        let probe = packet_6([0; 16], solicited(1).1, 58, neighbour_message(135, six(1), 1, mac), 2);
        let forged = [advertisement, probe].map(|packet| ethernet(far_mac, mac, 0x86dd, &packet));
        send(&mut queue, &forged);
        send(&mut queue, &[ethernet(far_mac, mac, 0x86dd, &datagram_6(1, 9, (8, 9)))]);
        assert!(received(&outside).is_none());
        let counts = control.vnics()[0].transmit.counts.clone();
        let dropped = |cause: &str| counts.iter().find(|count| count.cause == cause).map_or(0, |count| count.frames);
        assert_eq!((dropped("nd_forged"), dropped("no_filter")), (2, 1), "{counts:?}");
    });
}

/// The wire, and further queues on it, without a daemon and with the next.
#[test]
fn the_wire_outlives_the_daemon() {
    scenario(|| {
        let far = neighbour();
        let mut control = Control::start(WIRE);
        let wish = VnicWish {
            name: "card 20".to_owned(),
            addresses: vec![(Address::from([192, 0, 2, 20]), 24)],
            services: vec!["udp/7".parse().expect("a service")],
            queues: 3,
            priority_queues: 1,
            ..VnicWish::default()
        };
        let vnic = control.session().create_vnic(wish).expect("a card on the wire");
        let mut queues: Vec<AfXdp> = (0..2).map(|queue| vnic.open_queue(queue, PLAN).expect("a queue")).collect();
        let (shared, mut shared_queue) = four_card(&control, 1, true).expect("a card that shares");
        let mac = vnic.status().mac;
        let far_mac = far.within(|| link("far0")).expect("a namespace").expect("its device").mac.0;
        let texts = [(20, mac), (1, shared.status().mac)].map(|(last, _)| format!("192.0.2.{last}:7"));
        let outside: Vec<UdpSocket> = (0..16).map(|port| socket(&far, &format!("192.0.2.9:{}", 900 + port))).collect();
        far.within(|| {
            let line: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            let status = std::process::Command::new("ip")
                .args(["neigh", "replace", "192.0.2.20", "lladdr", &line.join(":"), "dev", "far0"])
                .status();
            assert!(status.is_ok_and(|status| status.success()));
        })
        .expect("a namespace");
        let passes = |queues: &mut [AfXdp], shared_queue: &mut AfXdp, when: &str| {
            for socket in &outside {
                socket.send_to(b"data", &texts[0]).expect("sent");
            }
            let counts: Vec<usize> =
                queues.iter_mut().map(|queue| arrivals(queue).iter().filter(|frame| is_udp(frame)).count()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 16, "{when}: {counts:?}");
            assert!(counts.iter().take(2).all(|count| *count > 0), "{when}: {counts:?}");
            for queue in queues.iter_mut() {
                send(queue, &[ethernet(far_mac, mac, 0x0800, &packet(20, 9, (7, 900)))]);
                assert_eq!(received(&outside[0]).as_deref(), Some(&b"data"[..]), "{when}");
            }
            outside[1].send_to(b"data", &texts[1]).expect("sent");
            assert_eq!(arrivals(shared_queue).iter().filter(|frame| is_udp(frame)).count(), 1, "{when}");
        };
        passes(&mut queues, &mut shared_queue, "at first");
        control.crash();
        passes(&mut queues, &mut shared_queue, "without a daemon");
        control.resume();
        passes(&mut queues, &mut shared_queue, "with the next");
        // A further queue is opened, and steered to, by the new one; a card made by it is on the wire too.
        queues.push(vnic.open_queue(2, PLAN).expect("a further queue"));
        let filter = qanat_control::filter::Filter::service("udp/7".parse().expect("a service"));
        let filter = control
            .session()
            .create_filter_of(qanat_control::filter::Direction::Receive, vec![filter])
            .expect("a filter");
        vnic.assign(&filter, Some(2)).expect("assigned");
        outside[3].send_to(b"data", &texts[0]).expect("sent");
        assert_eq!(arrivals(&mut queues[2]).iter().filter(|frame| is_udp(frame)).count(), 1, "to the queue named");
        drop(filter);
        // Another's end changes nothing for who shares the kernel's address.
        drop(four_card(&control, 40, false).expect("a card that goes"));
        eventually("it is gone", Duration::from_secs(1), || control.vnics().len() == 2);
        outside[1].send_to(b"data", &texts[1]).expect("sent");
        assert_eq!(arrivals(&mut shared_queue).iter().filter(|frame| is_udp(frame)).count(), 1, "its own still");
        drop(shared);
        let (late, _queue) = four_card(&control, 30, false).expect("a card of the new daemon's");
        assert!(late.status().uplink);
        drop((late, vnic));
        drop(control);
        assert!(link("up0").expect("the uplink").xdp_program.is_none(), "the uplink is given back");
    });
}

// Attack: privilege: an address on the uplink's wire
#[test]
fn the_wire_is_for_those_the_policy_names() {
    scenario(|| {
        let _far = neighbour();
        let control = Control::start(&WIRE.replace("uplink = true", ""));
        let (vnic, mut queue) = four_card(&control, 20, false).expect("a card");
        assert!(!vnic.status().uplink, "default deny");
        send(&mut queue, &[ethernet([2, 9, 9, 9, 9, 9], vnic.status().mac, 0x0800, &packet(20, 9, (7, 9)))]);
        let counts = control.vnics()[0].transmit.counts.clone();
        assert!(counts.iter().any(|count| count.cause == "destination_mac"), "{counts:?}");
        assert!(four_card(&control, 1, true).is_err(), "nor an address of the kernel's");
    });
}

/// Everything on the wire, seen and sent by one queue of its far end.
fn tap(far: &Namespace) -> (Interface, AfXdp) {
    let config = AttachConfig {
        interface: "far0".to_owned(),
        namespace: Some(far.clone()),
        rules: vec![Rule::everything()],
        injection: false,
        ..AttachConfig::default()
    };
    let interface = Interface::attach(config).expect("the far end");
    let queue = interface.openers().into_iter().next().expect("a queue").open(PLAN).expect("a queue");
    (interface, queue)
}

// Attack: time and cost: answers of neighbours on the wire pushed out, or taken, by another's questions
#[test]
fn answers_are_for_each_who_asked() {
    scenario(|| {
        let far = neighbour();
        let status = std::process::Command::new("ip").args(["addr", "add", "192.0.2.2/24", "dev", "up0"]).status();
        assert!(status.is_ok_and(|status| status.success()));
        let (_interface, mut wire) = tap(&far);
        let control = Control::start(WIRE);
        let (victim, mut queue) = four_card(&control, 1, true).expect("a card that shares");
        let (attacker, mut flood) = four_card(&control, 2, true).expect("another, of another address");
        let (mac, own) = (link("up0").expect("the uplink").mac.0, [2, 0, 0, 0, 0, 0x77]);
        let asks = |card: &VnicHandle, last: u8, target: [u8; 4]| {
            let mac = card.status().mac;
            ethernet([0xff; 6], mac, 0x0806, &arp(1, mac, [192, 0, 2, last], target))
        };
        let answer = |from: u8, to: u8| ethernet(mac, own, 0x0806, &arp(2, own, [192, 0, 2, from], [192, 0, 2, to]));
        let hears = |queue: &mut AfXdp, from: u8| {
            let answers =
                |frame: &Vec<u8>| frame.get(12..14) == Some(&[8, 6]) && frame.get(28..32) == Some(&[192, 0, 2, from]);
            arrivals(queue).iter().filter(|frame| answers(frame)).count()
        };
        send(&mut queue, &[asks(&victim, 1, [192, 0, 2, 77])]);
        // As many as one table for all would hold, and the very one the other asked for.
        let questions: Vec<Vec<u8>> = (0..1_500u16)
            .map(|number| [198, 51, (number >> 8) as u8, number as u8])
            .chain([[192, 0, 2, 77]])
            .map(|target| asks(&attacker, 2, target))
            .collect();
        let mut seen = 0;
        for some in questions.chunks(64) {
            send(&mut flood, some);
            seen += arrivals(&mut wire).len();
        }
        assert!(seen >= 1_400, "{seen} questions are on the wire");
        send(&mut wire, &[answer(78, 1)]);
        assert_eq!(hears(&mut queue, 78), 0, "it did not ask");
        send(&mut wire, &[answer(77, 1)]);
        assert_eq!(hears(&mut queue, 77), 1, "it asked");
        send(&mut wire, &[answer(77, 1)]);
        assert_eq!(hears(&mut queue, 77), 0, "it has its answer; the next is the kernel's");
        send(&mut wire, &[answer(77, 2)]);
        assert_eq!(hears(&mut flood, 77), 1, "and so did the other");
    });
}
