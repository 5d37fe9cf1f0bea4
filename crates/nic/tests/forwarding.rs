//! Two devices over one memory, and the rule that takes every frame. Needs root; says so loudly when it can't run, and
//! fails instead with `QANAT_REQUIRE_ROOT=1`.

use qanat_nic::af_xdp::{AttachConfig, Rule, open_pair};
use qanat_nic::link::Namespace;
use qanat_nic::veth::{self, Veth, VethConfig};
use qanat_nic::{AfXdp, ChecksumOffload, Frame, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 97, 0, 1), Ipv4Addr::new(10, 97, 0, 2)];
const PLAN: MemoryPlan = MemoryPlan { frame_size: 2048, receive_frames: 512, transmit_frames: 64, prepared_frames: 0 };

fn end(number: usize) -> Veth {
    veth::create(&VethConfig {
        host_addresses: vec![(IpAddr::V4(ADDRESSES[number]), 24)],
        host_namespace: Some(Namespace::anonymous().unwrap()),
        ..VethConfig::default()
    })
    .unwrap()
}

fn pass_on(frames: &mut Vec<Frame>, from: &mut AfXdp, to: &mut AfXdp) {
    from.receive(frames, 64);
    for frame in frames.drain(..) {
        // A kernel sender leaves UDP's checksum to the device; so do we.
        let is_udp = frame.bytes().get(12..14) == Some(&[8, 0]) && frame.bytes().get(23) == Some(&17);
        let checksum = is_udp.then_some(ChecksumOffload { start: 34, offset: 6 });
        to.transmit(TransmitBuffer::Owned(frame), TransmitOptions { checksum, ..TransmitOptions::default() }).unwrap();
    }
    to.flush();
}

#[test]
fn two_kernels_speak_through_two_devices_with_one_memory() {
    // SAFETY: takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED (needs root): {}", module_path!());
        assert!(std::env::var_os("QANAT_REQUIRE_ROOT").is_none(), "QANAT_REQUIRE_ROOT is set, and this is not root");
        return;
    }
    let ends = [end(0), end(1)];
    let everything = AttachConfig { rules: vec![Rule::everything()], injection: false, ..AttachConfig::default() };
    let interfaces = ends.each_ref().map(|end| end.attach(everything.clone()).unwrap());
    let [first, second] = interfaces.each_ref().map(|interface| interface.openers().remove(0));
    let (mut first, mut second) = open_pair(first, second, PLAN).unwrap();

    let [client, server] = [0, 1].map(|number: usize| {
        let open = || UdpSocket::bind((ADDRESSES[number], 5_000 + number as u16)).unwrap();
        let socket = ends[number].host_namespace().within(open).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket
    });
    let talk = std::thread::spawn(move || {
        let mut bytes = [0; 2_000];
        for number in 0..5_000u32 {
            // The first needs ARP, by broadcast.
            client.send_to(&number.to_be_bytes().repeat(300), (ADDRESSES[1], 5_001)).unwrap();
            let (length, peer) = server.recv_from(&mut bytes).unwrap();
            server.send_to(&bytes[..length], peer).unwrap();
            let length = client.recv(&mut bytes).unwrap();
            assert_eq!(bytes[..length], number.to_be_bytes().repeat(300));
        }
    });
    let mut frames = Vec::with_capacity(64);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !talk.is_finished() && Instant::now() < deadline {
        pass_on(&mut frames, &mut first, &mut second);
        pass_on(&mut frames, &mut second, &mut first);
    }
    talk.join().unwrap();
    for nic in [&mut first, &mut second] {
        nic.flush();
        assert_eq!((nic.in_flight_count(), nic.transmit_pool().in_use_count()), (0, 0));
        let statistics = nic.statistics();
        assert_eq!((statistics.transmit_copied, statistics.receive_no_buffer), (0, 0), "{statistics:?}");
        assert!(statistics.transmit_frames >= 5_000);
    }
    for (interface, nic) in interfaces.iter().zip([&first, &second]) {
        assert_eq!(nic.receive_pool().in_use_count(), nic.lent_count(), "every frame is home or lent");
        assert!(interface.verdicts().unwrap().taken_everything >= 5_000);
        interface.set_rules(&[]).unwrap();
    }
}
