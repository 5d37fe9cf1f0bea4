//! Large batches go without socket buffers where the other end can take them, and by the ring where it can't: in order,
//! byte for byte, and nothing is lost or leaks either way.

use crate::helpers::{self, frame_bytes, require_root};
use crate::{DEVICE, HOST, assert_all_home, device, open, whole};
use qanat_nic::af_xdp::{AttachConfig, Injection, Interface, Rule};
use qanat_nic::link::{self, Feature, Namespace};
use qanat_nic::veth::Veth;
use qanat_nic::{AfXdp, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};
use std::net::UdpSocket;
use std::time::Duration;

const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2048, receive_frames: 2048, transmit_frames: 1024, prepared_frames: 0 };
/// Frames per flush: below and above what a batch must be to be injected, and more than one call takes.
const BATCHES: [usize; 6] = [1, 100, 3, 300, 16, 64];

fn client(veth: &Veth) -> Interface {
    Interface::attach(AttachConfig {
        interface: veth.host_name().to_owned(),
        namespace: Some(veth.host_namespace().clone()),
        rules: vec![Rule::whole(HOST.into())],
        ..AttachConfig::default()
    })
    .unwrap()
}

/// Numbered frames of all lengths that the device end sends to the host end.
fn datagram(veth: &Veth, number: u32) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.extend((0..number * 37 % 1469).map(|index| (index ^ number) as u8));
    frame_bytes::udp((veth.device_mac(), DEVICE, 9), (veth.host().mac, HOST, 9), &payload)
}

fn queue(nic: &mut AfXdp, bytes: &[u8]) {
    let mut frame = nic.transmit_pool().allocate(64).unwrap();
    frame.append(bytes.len()).unwrap().copy_from_slice(bytes);
    nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
}

#[test]
fn batches_of_all_sizes_arrive_whole_and_in_order() {
    require_root!();
    let veth = device(1500);
    let host_end = client(&veth);
    let (mut nic, mut peer) = (open(&veth.attach(whole()).unwrap(), PLAN), open(&host_end, PLAN));
    assert!(nic.injects(), "a kernel that can't inject: frames go by the ring, and this test shows nothing");
    let (mut number, mut expected) = (0, 0);
    let mut frames = Vec::new();
    for _round in 0..20 {
        for count in BATCHES {
            for _ in 0..count {
                queue(&mut nic, &datagram(&veth, number));
                number += 1;
            }
            let (doorbells, in_flight) = (nic.statistics().transmit_doorbells, nic.in_flight_count());
            nic.flush();
            let calls = nic.statistics().transmit_doorbells - doorbells;
            assert!(
                in_flight as usize == count && calls == count.div_ceil(256) as u64,
                "{count} frames, {calls} calls"
            );
            helpers::wait(|| {
                peer.receive(&mut frames, 64);
                for frame in frames.drain(..) {
                    assert_eq!(frame.bytes(), datagram(&veth, expected), "frame {expected}");
                    expected += 1;
                }
                expected == number
            });
        }
    }
    let statistics = nic.statistics();
    assert_eq!((statistics.transmit_lost, statistics.transmit_invalid), (0, 0), "{statistics:?}");
    assert_all_home(&mut nic);
}

/// Another process wrote the frames: their pages are not in this one's page table.
#[test]
fn pages_this_process_has_not_touched_are_sent() {
    require_root!();
    let veth = device(1500);
    let host_end = client(&veth);
    let opener = veth.attach(whole()).unwrap().openers().remove(0);
    let (memory, _file) = PLAN.allocate_in_memory_file().unwrap();
    let mut nic = opener.open_over(PLAN, memory).unwrap();
    let mut peer = open(&host_end, PLAN);
    assert!(nic.injects(), "a kernel that can't inject: frames go by the ring, and this test shows nothing");
    let mut frames = Vec::new();
    for number in 0..100 {
        let mut frame = nic.transmit_pool().allocate(64).unwrap();
        frame.append_bytes(&datagram(&veth, number)).unwrap();
        let page = (frame.bytes().as_ptr() as usize & !4_095) as *mut libc::c_void;
        nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
        // SAFETY: a page of a shared mapping: it is forgotten here and stays in the file.
        assert_eq!(unsafe { libc::madvise(page, 4_096, libc::MADV_DONTNEED) }, 0);
    }
    nic.flush();
    let mut expected = 0;
    helpers::wait(|| {
        peer.receive(&mut frames, 64);
        for frame in frames.drain(..) {
            assert_eq!(frame.bytes(), datagram(&veth, expected), "frame {expected}");
            expected += 1;
        }
        expected == 100
    });
    assert_eq!(nic.statistics().transmit_invalid, 0);
    assert_all_home(&mut nic);
}

#[test]
fn packets_too_long_for_it_go_by_the_ring() {
    require_root!();
    let veth = device(3500);
    let host_end = client(&veth);
    let plan = MemoryPlan { frame_size: MemoryPlan::frame_size_for(3500), ..PLAN };
    let mut nic = open(&veth.attach(whole()).unwrap(), plan);
    let mut peer = open(&host_end, plan);
    let packet = frame_bytes::udp((veth.device_mac(), DEVICE, 9), (veth.host().mac, HOST, 9), &[7; 3_400]);
    (0..100).for_each(|_| queue(&mut nic, &packet));
    nic.flush();
    let (mut frames, mut arrived) = (Vec::new(), 0);
    helpers::wait(|| {
        nic.flush();
        peer.receive(&mut frames, 64);
        arrived += frames.drain(..).filter(|frame| frame.bytes() == packet).count();
        arrived == 100
    });
    assert_eq!(nic.statistics().transmit_invalid, 0);
    assert_all_home(&mut nic);
}

#[test]
fn the_kernel_gets_what_is_injected_and_what_it_cannot_be() {
    require_root!();
    let veth = device(1500);
    let mut nic = open(&veth.attach(whole()).unwrap(), PLAN);
    let socket = veth.host_namespace().within(|| UdpSocket::bind((HOST, 9))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut exchange = |number: &mut u32| {
        let first = *number;
        // A page each: more would fill the socket's buffer.
        for _ in 0..32 {
            queue(&mut nic, &datagram(&veth, *number));
            *number += 1;
        }
        nic.flush();
        let mut payload = [0; 2048];
        (first..*number).all(|expected| {
            let arrived = socket.recv(&mut payload).is_ok();
            arrived && payload[..4] == expected.to_be_bytes()
        })
    };
    let mut number = 0;
    assert!(exchange(&mut number), "with GRO at the other end");
    // Somebody switches it off: what is injected is lost then, until the next look at the device.
    let (name, namespace) = (veth.host_name().to_owned(), veth.host_namespace().clone());
    namespace.within(|| link::set_feature(&name, Feature::GenericReceive, false)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    helpers::wait(|| exchange(&mut number));
    assert!(number < 200 * 32, "the look came in time");
    assert!((0..20).all(|_| exchange(&mut number)), "by the ring from then on");
    assert_all_home(&mut nic);
}

#[test]
fn its_programs_load() {
    require_root!();
    let injection = Injection::load().unwrap();
    let keeper = Namespace::anonymous().unwrap();
    keeper.within(|| injection.keep_at(1)).unwrap().unwrap();
    let batch = Injection::make_batch().unwrap();
    let number = batch.number();
    assert!(Injection::is_held(number));
    drop(batch);
    assert!(!Injection::is_held(number));
}
