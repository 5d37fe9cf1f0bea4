//! The driver of TAP devices over a real one: packets of 64 KiB both ways, and what may happen to the kernel's end.

use crate::helpers::{Peer, echo_once, require_root};
use crate::{DEVICE, HOST, PLAN};
use qanat_nic::af_xdp::{AttachConfig, Interface, Rule};
use qanat_nic::link::{self, Namespace};
use qanat_nic::tap::{self, TapConfig, TapDevice};
use qanat_nic::{
    ChecksumOffload, Frame, MemoryPlan, TRAIN_BYTES_MAX, Tap, Train, TransmitBuffer, TransmitOptions, Vnic,
};
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::IpAddr;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

/// Data of a segment.
const SEGMENT: usize = 1_448;
/// Ethernet, IPv4 and TCP headers, without options.
const HEADERS: usize = 14 + 20 + 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn device(mtu: u32) -> (TapDevice, Namespace) {
    let namespace = Namespace::anonymous().unwrap();
    let (host_addresses, host_namespace) = (vec![(IpAddr::V4(HOST), 24)], Some(namespace.clone()));
    let config = TapConfig { host_name: None, host_addresses, host_namespace, mtu };
    (tap::create(&config).unwrap(), namespace)
}

fn assert_all_home(nic: &mut Tap) {
    nic.flush();
    assert_eq!(nic.transmit_pool().in_use_count(), 0);
    assert_eq!(nic.receive_pool().in_use_count() as usize, nic.landing_count());
}

fn echo(mtu: u32, plan: MemoryPlan, (count, window, length): (usize, usize, usize)) {
    let (device, namespace) = device(mtu);
    let client = Peer::new(&namespace, HOST, DEVICE);
    let client = std::thread::spawn(move || {
        // Alone, for what is sent while our Ethernet address is asked for may be overtaken by what comes after the answer.
        client.ping(1, 1, length);
        client.ping(count, window, length)
    });
    let mut nic = device.open(plan).unwrap();
    assert_eq!((nic.capabilities().mac, u32::from(nic.capabilities().mtu)), (device.mac(), mtu));
    let deadline = Instant::now() + PATIENCE;
    while !client.is_finished() && Instant::now() < deadline {
        echo_once(&mut nic, DEVICE);
    }
    assert_eq!(client.join().unwrap(), count);
    assert_all_home(&mut nic);
    let statistics = nic.statistics();
    assert_eq!((statistics.transmit_lost, statistics.transmit_invalid), (0, 0), "{statistics:?}");
}

#[test]
fn a_kernel_client_of_a_tap_device_gets_every_echo() {
    require_root!();
    echo(1_500, PLAN, (50_000, 24, 200));
    // Several frames each.
    echo(9_000, MemoryPlan { frame_size: 4_096, ..PLAN }, (2_000, 4, 8_900));
}

/// A packet socket at the kernel's end; with `VIRTIO` headers before what is written.
fn packet_socket(namespace: &Namespace, index: u32, has_headers: bool) -> File {
    let open = || {
        // SAFETY: plain system calls on a new descriptor, with live values of the lengths given.
        unsafe {
            let every: u16 = (libc::ETH_P_ALL as u16).to_be();
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(every));
            assert!(fd >= 0);
            let mut place: libc::sockaddr_ll = std::mem::zeroed();
            (place.sll_family, place.sll_protocol) = (libc::AF_PACKET as u16, every);
            place.sll_ifindex = index as i32;
            let length = size_of_val(&place) as u32;
            assert_eq!(libc::bind(fd, (&raw const place).cast(), length), 0);
            let (patience, on) = (libc::timeval { tv_sec: 15, tv_usec: 0 }, i32::from(has_headers));
            let length = size_of_val(&patience) as u32;
            assert_eq!(
                libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const patience).cast(), length),
                0
            );
            assert_eq!(libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, (&raw const on).cast(), 4), 0);
            File::from_raw_fd(fd)
        }
    };
    namespace.within(open).unwrap()
}

/// A segment of TCP from our end, with the pseudo-header's sum in place of its checksum.
fn segment(host_mac: [u8; 6], mac: [u8; 6], sequence: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS];
    bytes[..6].copy_from_slice(&host_mac);
    bytes[6..12].copy_from_slice(&mac);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    bytes[16..18].copy_from_slice(&((40 + data.len()) as u16).to_be_bytes());
    bytes[20..24].copy_from_slice(&[0x40, 0, 64, 6]);
    bytes[26..30].copy_from_slice(&DEVICE.octets());
    bytes[30..34].copy_from_slice(&HOST.octets());
    let sum = !qanat_wire::checksum::sum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes[34..38].copy_from_slice(&[0x13, 0x88, 0, 9]);
    bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
    bytes[46..50].copy_from_slice(&[0x50, 0x10, 0xff, 0xff]);
    let pseudo = [6, (20 + data.len()) as u16].into_iter().map(u64::from).sum::<u64>();
    let addresses = u64::from(qanat_wire::checksum::sum(&bytes[26..34]));
    let partial = qanat_wire::checksum::fold(addresses + pseudo);
    bytes[50..52].copy_from_slice(&partial.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Sends `count` segments of one stream at once, in trains if they are taken; gives the data.
fn send_stream(nic: &mut Tap, device: &TapDevice, count: usize) -> Vec<u8> {
    let stream: Vec<u8> = (0..count * SEGMENT).map(|at| (at * 7 + at / 256) as u8).collect();
    let checksum = ChecksumOffload { start: 34, offset: 16 };
    let most = if nic.trains().is_some() { TRAIN_BYTES_MAX as usize / SEGMENT } else { 1 };
    for (number, data) in stream.chunks(most * SEGMENT).enumerate() {
        let sequence = (number * most * SEGMENT) as u32;
        let bytes = segment(device.host().mac.0, device.mac().0, sequence, data);
        let (headers, data) = bytes.split_at(HEADERS);
        if let Some(trains) = nic.trains() {
            // In pieces, as their owners have them.
            let (first, second) = data.split_at(data.len() / 3);
            let payload = [IoSlice::new(first), IoSlice::new(second)];
            let segment_bytes = SEGMENT as u16;
            trains.transmit_train(&Train { headers, payload: &payload, segment_bytes, checksum, is_v6: false });
        } else {
            let mut frame = nic.transmit_pool().allocate(64).unwrap();
            frame.append_bytes(&bytes).unwrap();
            let options = TransmitOptions { continues: false, checksum: Some(checksum) };
            nic.transmit(TransmitBuffer::Owned(frame), options).unwrap();
        }
    }
    nic.flush();
    stream
}

/// Data of the next packets at the kernel's end that come from ours, until it is all there; with how many packets there were.
fn collect(socket: &mut File, from: [u8; 6], length: usize) -> (Vec<u8>, usize) {
    let (mut stream, mut packets) = (Vec::new(), 0);
    let mut bytes = vec![0; 70_000];
    while stream.len() < length {
        let count = socket.read(&mut bytes).expect("a packet");
        if bytes[6..12] == from && bytes[23] == 6 {
            stream.extend_from_slice(&bytes[HEADERS..count]);
            packets += 1;
        }
    }
    (stream, packets)
}

#[test]
fn trains_leave_as_one_packet_unless_the_kernels_end_takes_none() {
    require_root!();
    let (device, namespace) = device(1_500);
    let mut nic = device.open(PLAN).unwrap();
    let mut socket = packet_socket(&namespace, device.host().index, false);
    let stream = send_stream(&mut nic, &device, 40);
    let (got, packets) = collect(&mut socket, device.mac().0, stream.len());
    assert!(got == stream);
    assert_eq!((packets, nic.statistics().transmit_doorbells, nic.statistics().transmit_frames), (1, 1, 40));
    // More than 64 KiB are two packets.
    let stream = send_stream(&mut nic, &device, 60);
    let (got, packets) = collect(&mut socket, device.mac().0, stream.len());
    assert!(got == stream);
    assert_eq!(packets, 2);
    let rules = vec![Rule::whole(HOST.into())];
    let (interface, namespace) = (device.host().name.clone(), Some(namespace));
    let program = Interface::attach(AttachConfig { interface, namespace, rules, ..AttachConfig::default() }).unwrap();
    let mut peer = program.openers().remove(0).open(PLAN).unwrap();
    // What an XDP program is to see must be cut: whole packets come to a socket behind it.
    let (mut frames, mut got) = (Vec::new(), 0);
    let deadline = Instant::now() + PATIENCE;
    while got < 30 && Instant::now() < deadline {
        send_stream(&mut nic, &device, 10);
        peer.receive(&mut frames, 64);
        got += frames.drain(..).filter(|frame: &Frame| frame.len() == HEADERS + SEGMENT).count();
    }
    assert!(got >= 30, "{got}; {:?}", program.verdicts().unwrap());
    assert_eq!(nic.statistics().transmit_lost, 0);
    assert_all_home(&mut nic);
}

#[test]
fn the_kernel_hands_64_kib_over_at_once() {
    require_root!();
    let (device, namespace) = device(1_500);
    let mut nic = device.open(PLAN).unwrap();
    let mut socket = packet_socket(&namespace, device.host().index, true);
    let data: Vec<u8> = (0..60_000).map(|at| (at * 5 + at / 256) as u8).collect();
    let bytes = segment(device.mac().0, device.host().mac.0, 1, &data);
    // `struct virtio_net_hdr`: a checksum is to be filled in, TCP over IPv4, headers, segments, where the checksum is.
    let mut message = vec![1, 1];
    for word in [HEADERS as u16, SEGMENT as u16, 34, 16] {
        message.extend_from_slice(&word.to_ne_bytes());
    }
    message.extend_from_slice(&bytes);
    socket.write_all(&message).unwrap();
    let mut frames: Vec<Frame> = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    // What the kernel itself has to say (IPv6) may come first.
    while frames.iter().map(Frame::len).sum::<usize>() < bytes.len() && Instant::now() < deadline {
        frames.clear();
        nic.receive(&mut frames, qanat_nic::PACKET_FRAMES_MAX);
    }
    let got: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
    assert!(got == bytes, "{} bytes of {}", got.len(), bytes.len());
    let (last, first) = frames.split_last().unwrap();
    assert!(first.iter().all(Frame::continues) && !last.continues());
    drop(frames);
    assert_all_home(&mut nic);
}

#[test]
fn a_receiver_without_frames_loses_nothing_that_the_kernel_can_hold() {
    require_root!();
    let (device, namespace) = device(1_500);
    let mut nic = device.open(MemoryPlan { receive_frames: 40, ..PLAN }).unwrap();
    let client = Peer::new(&namespace, HOST, DEVICE);
    let mut held = Vec::new();
    let ask = |count: usize| (0..count).for_each(|_| client.send(&[1; 100]));
    // The first is the question for our Ethernet address.
    ask(1);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && !client.has_answer() {
        echo_once(&mut nic, DEVICE);
    }
    ask(100);
    while nic.receive(&mut held, 64) > 0 {}
    assert!(held.len() <= 8, "frames for the largest packet are kept: {}", held.len());
    let mut got = held.len();
    while got < 100 && Instant::now() < deadline {
        held.clear();
        nic.receive(&mut held, 64);
        got += held.iter().filter(|frame| frame.len() == 142).count();
    }
    assert!(got >= 100, "{got}");
    assert_eq!(nic.statistics().receive_ring_full, 0);
}

#[test]
fn a_tap_device_goes_with_its_descriptor_and_its_deletion_is_seen() {
    require_root!();
    let (gone, namespace) = device(1_500);
    let mut nic = gone.open(PLAN).unwrap();
    assert!(!nic.is_gone());
    let index = gone.host().index;
    namespace.within(|| link::delete(index)).unwrap().unwrap();
    let mut frames = Vec::new();
    assert_eq!(nic.receive(&mut frames, 64), 0);
    assert!(nic.is_gone());
    send_stream(&mut nic, &gone, 2);
    assert_eq!(nic.statistics().transmit_lost, 2);
    assert_all_home(&mut nic);
    let (left, namespace) = device(1_500);
    let (nic, index) = (left.open(PLAN).unwrap(), left.host().index);
    drop(left);
    assert!(namespace.within(|| link::link_by_index(index)).unwrap().is_ok(), "a queue keeps it");
    drop(nic);
    assert!(namespace.within(|| link::link_by_index(index)).unwrap().is_err());
}
