//! A veth device stands in for a NIC: what is for a card leaves the kernel's path there, and the rest is the kernel's.

use super::cards::{Control, PLAN, arrivals, send};
use super::frames::{Ipv4, arp, ethernet, udp};
use qanat::control::client::VnicHandle;
use qanat::control::protocol::VnicWish;
use qanat::nic::AfXdp;
use qanat::nic::link::{Namespace, link};
use qanat_tests::e2e::scenario;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

const WIRE: &str = "[uplink]\ninterface = \"up0\"\n\
    [[rule]]\nname = \"wire\"\nusers = [\"*\"]\nvnics = 8\naddresses = [\"192.0.2.0/24\", \"10.77.0.0/24\"]\n\
    services = [\"udp\"]\nuplink = true\n";

/// A neighbour on the wire with 192.0.2.9, in a namespace of its own; the kernel here has 192.0.2.1.
fn neighbour() -> Namespace {
    let far = Namespace::anonymous().expect("a namespace");
    qanat::nic::link::make_veth("up0", "far0", &far, 1_500, 1).expect("a veth device");
    let run = |line: &str| {
        let mut words = line.split(' ');
        let status = std::process::Command::new(words.next().expect("a command")).args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
    };
    run("ip addr add 192.0.2.1/24 dev up0");
    run("ip link set up0 up");
    far.within(|| {
        run("ip addr add 192.0.2.9/24 dev far0");
        run("ip link set far0 up");
        // So that frames redirected into the device are taken; with checksums that are whole.
        run("ethtool -K far0 gro on tx off");
    })
    .expect("the neighbour's side");
    far
}

fn wire_card(control: &Control, last: u8, shared: bool) -> Result<(VnicHandle, AfXdp), String> {
    let wish = VnicWish {
        name: format!("card {last}"),
        addresses: vec![(IpAddr::from([192, 0, 2, last]), 24)],
        services: vec!["udp/7".parse().expect("a service")],
        shared,
        ..VnicWish::default()
    };
    let vnic = control.session().create_vnic(wish).map_err(|error| error.to_string())?;
    let queue = vnic.open_queue(0, PLAN).map_err(|error| error.to_string())?;
    Ok((vnic, queue))
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
fn packet(source: u8, destination: u8, ports: (u16, u16)) -> Vec<u8> {
    let mut packet = Ipv4 { source: [192, 0, 2, source], destination: [192, 0, 2, destination], ..Ipv4::own(17) }
        .with(&udp(ports.0, ports.1));
    let sum: u32 = packet[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn is_udp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17)
}

#[test]
fn a_card_is_on_the_wire_with_an_address_of_its_own() {
    scenario(|| {
        let far = neighbour();
        let control = Control::start(WIRE);
        let (vnic, mut queue) = wire_card(&control, 20, false).expect("a card on the wire");
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
        assert!(wire_card(&control, 1, false).is_err(), "the kernel's address is taken");
        assert!(wire_card(&control, 20, true).is_err(), "and only its can be shared");
        let (vnic, mut queue) = wire_card(&control, 1, true).expect("a card that shares");
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

#[test]
fn the_wire_is_for_those_the_policy_names() {
    scenario(|| {
        let _far = neighbour();
        let control = Control::start(&WIRE.replace("uplink = true", ""));
        let (vnic, mut queue) = wire_card(&control, 20, false).expect("a card");
        assert!(!vnic.status().uplink, "default deny");
        send(&mut queue, &[ethernet([2, 9, 9, 9, 9, 9], vnic.status().mac, 0x0800, &packet(20, 9, (7, 9)))]);
        let counts = control.vnics()[0].transmit.counts.clone();
        assert!(counts.iter().any(|count| count.cause == "destination_mac"), "{counts:?}");
        assert!(wire_card(&control, 1, true).is_err(), "nor an address of the kernel's");
    });
}
