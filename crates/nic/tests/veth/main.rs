//! The drivers over real devices: AF_XDP over veth, and TAP. Needs root; says so loudly when it can't run, and fails instead with
//! `QANAT_REQUIRE_ROOT=1`.

mod helpers;
mod injection;
mod link_changes;
mod tap;

use helpers::{Peer, echo_once, frame_bytes, require_root};
use qanat_nic::af_xdp::{AttachConfig, Interface, PortRange, Rule};
use qanat_nic::link::{self, Namespace};
use qanat_nic::veth::{self, Veth, VethConfig};
use qanat_nic::{AfXdp, ChecksumOffload, DeviceError, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const PLAN: MemoryPlan = MemoryPlan { frame_size: 2048, receive_frames: 512, transmit_frames: 256, prepared_frames: 8 };

/// A device whose both ends are in namespaces of this test alone.
fn device(mtu: u32) -> Veth {
    let host_namespace = Some(Namespace::anonymous().unwrap());
    let host_addresses = vec![(IpAddr::V4(HOST), 24)];
    veth::create(&VethConfig { host_addresses, host_namespace, mtu, ..VethConfig::default() }).unwrap()
}

fn whole() -> AttachConfig {
    AttachConfig { rules: vec![Rule::whole(DEVICE.into())], ..AttachConfig::default() }
}

fn open(interface: &Interface, plan: MemoryPlan) -> AfXdp {
    interface.openers().remove(0).open(plan).unwrap()
}

fn assert_all_home(nic: &mut AfXdp) {
    nic.flush();
    assert_eq!(nic.in_flight_count(), 0);
    assert_eq!(nic.transmit_pool().in_use_count(), 0);
    assert_eq!(nic.receive_pool().in_use_count(), nic.lent_count());
    assert_eq!(nic.prepared_pool().in_use_count(), 0);
}

#[test]
fn a_kernel_client_gets_every_echo_and_no_frame_leaks() {
    require_root!();
    const COUNT: usize = 100_000;
    let veth = device(1500);
    let interface = veth.attach(whole()).unwrap();
    let client = Peer::new(veth.host_namespace(), HOST, DEVICE);
    let client = std::thread::spawn(move || client.ping(COUNT, 24, 200));
    let mut nic = open(&interface, PLAN);
    assert_eq!(nic.capabilities().mac, veth.device_mac());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.is_finished() && Instant::now() < deadline {
        echo_once(&mut nic, DEVICE);
    }
    let answered = client.join().unwrap();
    assert_eq!(answered, COUNT);
    assert_all_home(&mut nic);
    let statistics = nic.statistics();
    assert_eq!((statistics.receive_no_buffer, statistics.transmit_lost), (0, 0), "{statistics:?}");
    let verdicts = interface.verdicts().unwrap();
    assert!(verdicts.taken_address >= COUNT as u64 && verdicts.taken_arp >= 1, "{verdicts:?}");
}

#[test]
fn jumbo_packets_come_and_go_in_several_frames() {
    require_root!();
    let veth = device(9000);
    let interface = veth.attach(whole()).unwrap();
    let client = Peer::new(veth.host_namespace(), HOST, DEVICE);
    let client = std::thread::spawn(move || client.ping(2000, 4, 8900));
    let mut nic = open(&interface, MemoryPlan { frame_size: 4096, ..PLAN });
    assert!(nic.capabilities().transmit_buffers_max > 1);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !client.is_finished() && Instant::now() < deadline {
        echo_once(&mut nic, DEVICE);
    }
    assert_eq!(client.join().unwrap(), 2000);
    assert_all_home(&mut nic);
}

#[test]
fn frames_leave_room_for_the_devices_metadata() {
    require_root!();
    let veth = device(9000);
    let interface = veth.attach(AttachConfig { transmit_checksum: true, ..whole() }).unwrap();
    let mut nic = open(&interface, MemoryPlan { frame_size: 4096, ..PLAN });
    assert!(nic.capabilities().transmit_headroom > 0);
    let mut send = |headroom: usize, length: usize, continues: bool| {
        let mut frame = nic.transmit_pool().allocate(headroom).unwrap();
        frame.append(length).unwrap().fill(0xff);
        let options = TransmitOptions { continues, checksum: None };
        nic.transmit(TransmitBuffer::Owned(frame), options).unwrap();
    };
    // What the kernel would stop at: the packet is refused whole. One whose data could stand elsewhere is copied there.
    send(0, 4096, true);
    send(64, 60, false);
    send(0, 60, false);
    nic.flush();
    let statistics = nic.statistics();
    assert_eq!((statistics.transmit_invalid, statistics.transmit_copied, statistics.transmit_frames), (1, 1, 1));
    assert_all_home(&mut nic);
}

#[test]
fn a_shared_frame_in_flight_is_copied_and_a_strange_one_too() {
    require_root!();
    let veth = device(1500);
    let interface = veth.attach(whole()).unwrap();
    let mut nic = open(&interface, PLAN);
    let mut frame = nic.prepared_pool().allocate(64).unwrap();
    frame.append(60).unwrap().fill(0xff);
    let mut shared = std::rc::Rc::new(frame);
    for _ in 0..3 {
        nic.transmit(TransmitBuffer::Shared(shared.clone()), TransmitOptions::default()).unwrap();
    }
    assert_eq!(nic.statistics().transmit_copied, 2);
    assert!(std::rc::Rc::get_mut(&mut shared).is_none());
    nic.flush();
    assert!(std::rc::Rc::get_mut(&mut shared).is_some());
    let foreign = MemoryPlan::default().allocate().unwrap();
    let mut frame = foreign.transmit.allocate(64).unwrap();
    frame.append(60).unwrap().fill(0xff);
    nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    let empty = nic.transmit_pool().allocate(64).unwrap();
    nic.transmit(TransmitBuffer::Owned(empty), TransmitOptions::default()).unwrap();
    nic.flush();
    let statistics = nic.statistics();
    assert_eq!((statistics.transmit_copied, statistics.transmit_invalid, statistics.transmit_frames), (3, 1, 4));
    drop(shared);
    assert_all_home(&mut nic);
}

#[test]
fn kernel_and_own_addresses_live_on_one_interface() {
    require_root!();
    let veth = device(1500);
    let ours = Ipv4Addr::new(10, 99, 0, 3);
    // The load generator's way: extra addresses on the kernel's end, and a few ports of the kernel's own address.
    let ports = PortRange { protocol: 17, first: 40_000, last: 40_100 };
    let host_end = Interface::attach(AttachConfig {
        interface: veth.host_name().to_owned(),
        namespace: Some(veth.host_namespace().clone()),
        rules: vec![Rule::whole(ours.into()), Rule::shared(HOST.into(), &[ports])],
        ..AttachConfig::default()
    })
    .unwrap();
    let mut generator = open(&host_end, PLAN);
    let interface = veth.attach(whole()).unwrap();
    let mut nic = open(&interface, PLAN);
    let kernel = Peer::new(veth.host_namespace(), HOST, DEVICE);
    let mut frames = Vec::new();
    // Who has .1? The kernel answers. Who has .3? The generator's to answer.
    helpers::send(&mut nic, &frame_bytes::arp_request(veth.device_mac(), DEVICE, HOST));
    helpers::send(&mut nic, &frame_bytes::arp_request(veth.device_mac(), DEVICE, ours));
    helpers::wait(|| generator.receive(&mut frames, 8) > 0);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames.pop().unwrap().bytes()[38..42], ours.octets());
    helpers::wait(|| nic.receive(&mut frames, 8) > 0);
    assert_eq!(frames.pop().unwrap().bytes()[28..32], HOST.octets());
    // Port 40050 of the shared address is the generator's, port 5000 the kernel's.
    let host_mac = veth.host().mac;
    for port in [40_050, Peer::PORT] {
        let bytes = frame_bytes::udp((veth.device_mac(), DEVICE, 7), (host_mac, HOST, port), b"hello");
        helpers::send(&mut nic, &bytes);
    }
    assert_eq!(kernel.receive().unwrap(), b"hello");
    helpers::wait(|| generator.receive(&mut frames, 8) > 0);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames.pop().unwrap().bytes()[36..38], 40_050u16.to_be_bytes());
    let verdicts = host_end.verdicts().unwrap();
    assert_eq!((verdicts.taken_service, verdicts.taken_arp), (1, 1), "{verdicts:?}");
    // ICMP: an error about the generator's packet is the generator's, a ping and other errors are the kernel's.
    for (quoted_port, kind) in [(40_050u16, 3u8), (53, 3), (40_050, 8)] {
        let bytes = frame_bytes::icmp(veth.device_mac(), DEVICE, host_mac, HOST, kind, quoted_port);
        helpers::send(&mut nic, &bytes);
    }
    helpers::wait(|| generator.receive(&mut frames, 8) > 0);
    assert_eq!(frames.drain(..).count(), 1);
    assert_eq!(host_end.verdicts().unwrap().taken_error, 1);
    // Neighbour discovery: the solicited target decides. A VLAN tag, a fragment and half a header are the kernel's.
    let (own_v6, other_v6): (Ipv6Addr, Ipv6Addr) = ("fd00::3".parse().unwrap(), "fd00::1:3".parse().unwrap());
    host_end
        .set_rules(&[Rule::whole(ours.into()), Rule::whole(own_v6.into()), Rule::shared(HOST.into(), &[ports])])
        .unwrap();
    let before = host_end.verdicts().unwrap();
    for target in [own_v6, other_v6] {
        helpers::send(&mut nic, &frame_bytes::neighbour_solicitation(veth.device_mac(), target));
    }
    let mut tagged = frame_bytes::udp((veth.device_mac(), DEVICE, 7), (host_mac, ours, 7), b"tagged");
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let mut fragment = frame_bytes::udp((veth.device_mac(), DEVICE, 7), (host_mac, HOST, 40_050), b"part");
    fragment[20] = 0x20;
    for bytes in [&tagged[..], &fragment[..], &tagged[..14], &fragment[..20]] {
        helpers::send(&mut nic, bytes);
    }
    let after = host_end.verdicts().unwrap();
    assert_eq!(after.taken_nd - before.taken_nd, 1);
    assert_eq!((after.taken_address, after.taken_service), (before.taken_address, before.taken_service));
    assert_eq!(after.malformed - before.malformed, 2, "the cut tag and the cut IPv4 header");
    assert_eq!(generator.receive(&mut frames, 8), 1);
    frames.clear();
    // Rules can change under way.
    host_end.set_rules(&[Rule::whole(ours.into())]).unwrap();
    let bytes = frame_bytes::udp((veth.device_mac(), DEVICE, 7), (host_mac, HOST, 40_050), b"gone");
    helpers::send(&mut nic, &bytes);
    assert_eq!(host_end.verdicts().unwrap().taken_service, 1);
}

#[test]
fn refusals_name_the_place() {
    require_root!();
    let veth = device(1500);
    let interface = veth.attach(whole()).unwrap();
    assert!(matches!(veth.attach(whole()), Err(DeviceError::Occupied { program: Some(_), .. })));
    let _nic = open(&interface, PLAN);
    let second = interface.openers().remove(0).open(PLAN);
    assert!(matches!(second, Err(DeviceError::QueueBusy { queue: 0, .. })));
    let nowhere = AttachConfig { interface: "nic-nowhere".to_owned(), ..AttachConfig::default() };
    assert!(matches!(Interface::attach(nowhere), Err(DeviceError::NoSuchInterface { .. })));
    let many = veth.attach(AttachConfig { queues: 9, ..whole() });
    assert!(matches!(many, Err(DeviceError::TooFewQueues { available: 1, .. })));
    let loopback = AttachConfig { interface: "lo".to_owned(), ..AttachConfig::default() };
    if link::link("lo").unwrap().is_up {
        assert!(matches!(Interface::attach(loopback), Err(DeviceError::NoNativeXdp { .. })));
    }
    let again = VethConfig {
        host_name: Some(veth.host_name().to_owned()),
        host_namespace: Some(veth.host_namespace().clone()),
        ..VethConfig::default()
    };
    let error = veth::create(&again).unwrap_err();
    assert!(matches!(error, DeviceError::NameTaken { .. }) && error.to_string().contains(veth.host_name()));
    let address = VethConfig { host_name: None, host_addresses: vec![(HOST.into(), 24)], ..again };
    assert!(matches!(veth::create(&address), Err(DeviceError::AddressTaken { .. })));
    let other = VethConfig { host_addresses: Vec::new(), ..address };
    assert_eq!(veth::create(&other).unwrap().host_name(), "qanat1");
}

#[test]
fn a_queue_can_be_opened_again_at_once() {
    require_root!();
    let veth = device(1500);
    for _ in 0..3 {
        let interface = veth.attach(whole()).unwrap();
        drop(open(&interface, PLAN));
    }
}

#[test]
fn what_the_kernel_would_refuse_never_reaches_it() {
    require_root!();
    let veth = device(1500);
    let interface = veth.attach(AttachConfig { transmit_scatter: true, ..whole() }).unwrap();
    let mut nic = open(&interface, PLAN);
    let frame = |nic: &AfXdp, length: usize| {
        let mut frame = nic.transmit_pool().allocate(64).unwrap();
        frame.append(length).unwrap().fill(0xff);
        TransmitBuffer::Owned(frame)
    };
    let more = TransmitOptions { continues: true, checksum: None };
    // Too long in the second of three; too many pieces; a checksum field outside the first frame.
    for (length, options) in [(1000, more), (1000, more), (100, TransmitOptions::default())] {
        let buffer = frame(&nic, length);
        nic.transmit(buffer, options).unwrap();
    }
    for piece in 0..20 {
        let buffer = frame(&nic, 60);
        nic.transmit(buffer, if piece < 19 { more } else { TransmitOptions::default() }).unwrap();
    }
    let checksum = Some(ChecksumOffload { start: 34, offset: 25 });
    let buffer = frame(&nic, 60);
    nic.transmit(buffer, TransmitOptions { continues: false, checksum }).unwrap();
    assert_eq!((nic.statistics().transmit_invalid, nic.in_flight_count()), (3, 0));
    // And the ring goes on.
    for (length, options) in [(60, more), (60, TransmitOptions::default()), (60, TransmitOptions::default())] {
        let buffer = frame(&nic, length);
        nic.transmit(buffer, options).unwrap();
    }
    assert_eq!(nic.in_flight_count(), 3);
    assert_all_home(&mut nic);
    assert_eq!(nic.statistics().transmit_invalid, 3);
}

#[test]
fn the_doorbell_wakes_a_sleeper() {
    require_root!();
    let veth = device(1500);
    let interface = veth.attach(whole()).unwrap();
    let mut nic = open(&interface, PLAN);
    let client = Peer::new(veth.host_namespace(), HOST, DEVICE);
    let client = std::thread::spawn(move || client.ping(200, 1, 100));
    let mut wakes = 0;
    while !client.is_finished() {
        let fd = nic.doorbell().unwrap().as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        wakes += unsafe { libc::poll(&raw mut poll, 1, 100) };
        echo_once(&mut nic, DEVICE);
    }
    assert_eq!(client.join().unwrap(), 200);
    assert!(wakes >= 200, "{wakes}");
}

#[test]
fn several_queues_share_the_traffic() {
    require_root!();
    const FLOWS: usize = 16;
    let host_namespace = Some(Namespace::anonymous().unwrap());
    let host_addresses = vec![(IpAddr::V4(HOST), 24)];
    let config = VethConfig { host_addresses, host_namespace, queues: 2, ..VethConfig::default() };
    let veth = veth::create(&config).unwrap();
    let interface = veth.attach(AttachConfig { queues: 2, ..whole() }).unwrap();
    let clients: Vec<_> = (0..FLOWS)
        .map(|flow| Peer::on_port(veth.host_namespace(), HOST, DEVICE, 6000 + flow as u16))
        .map(|client| std::thread::spawn(move || client.ping(100, 4, 100)))
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let servers: Vec<_> = interface
        .openers()
        .into_iter()
        .map(|opener| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut nic = opener.open(PLAN).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    echo_once(&mut nic, DEVICE);
                    std::thread::yield_now();
                }
                assert_all_home(&mut nic);
                nic.statistics().receive_frames
            })
        })
        .collect();
    let answered: usize = clients.into_iter().map(|client| client.join().unwrap_or(0)).sum();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(answered, FLOWS * 100);
    let received: Vec<u64> = servers.into_iter().map(|server| server.join().unwrap()).collect();
    assert!(received.iter().all(|count| *count >= 100), "both queues get flows: {received:?}");
}

#[test]
fn several_queues_each_have_their_socket() {
    require_root!();
    let host_namespace = Some(Namespace::anonymous().unwrap());
    let host_addresses = vec![(IpAddr::V4(HOST), 24)];
    let config = VethConfig { host_addresses, host_namespace, queues: 2, ..VethConfig::default() };
    let veth = veth::create(&config).unwrap();
    let interface = veth.attach(AttachConfig { queues: 2, ..whole() }).unwrap();
    let openers = interface.openers();
    assert_eq!(openers.len(), 2);
    let threads: Vec<_> = openers
        .into_iter()
        .map(|opener| std::thread::spawn(move || opener.open(PLAN).map(|nic| nic.queue()).unwrap()))
        .collect();
    let queues: Vec<u32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(queues, [0, 1]);
}

const VICTIM: &str = "nicvictim0";

/// Not a test: the process that `a_killed_process_leaves_nothing` kills.
#[test]
#[ignore = "run by a_killed_process_leaves_nothing"]
fn victim() {
    let config = VethConfig { host_name: Some(VICTIM.to_owned()), ..VethConfig::default() };
    let veth = veth::create(&config).unwrap();
    let interface = veth.attach(whole()).unwrap();
    let _nic = open(&interface, PLAN);
    println!("\nready");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_leaves_nothing() {
    require_root!();
    for _ in 0..2 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the victim did not start");
        assert!(link::link(VICTIM).unwrap().is_up);
        child.kill().unwrap();
        child.wait().unwrap();
        // The name is free again for the next, who waits for it himself.
        let config = VethConfig { host_name: Some(VICTIM.to_owned()), ..VethConfig::default() };
        let next = veth::create(&config).unwrap();
        drop(next);
        let deadline = Instant::now() + Duration::from_secs(30);
        while link::link(VICTIM).is_ok() {
            assert!(Instant::now() < deadline, "{VICTIM} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
