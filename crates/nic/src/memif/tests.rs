//! Two honest ends, then peers that lie: in every message of the handshake, in every field of a ring.

use super::control::{self, Channel};
use super::listener::dial;
use super::message::{AddRing, Init, Message, SECRET_LENGTH, VERSION};
use super::shared::{Descriptor, Mapping, SharedRing, ring_length};
use super::*;
use crate::base::event_fd::event_fd;
use crate::base::random::Random;
use crate::plan::MemoryPlan;
use crate::vnic::{TransmitBuffer, TransmitOptions, Vnic};
use crate::{Frame, Pool};
use qanat_wire::ethernet::MacAddress;
use rustix::event::PollFlags;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);

fn config() -> MemifConfig {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("qanat-memif-test-{}-{number}", std::process::id()));
    let mut config = MemifConfig::new(path, MacAddress([2, 0, 0, 0, 0, 1]));
    config.memory = MemoryPlan { frame_size: 2048, receive_frames: 64, transmit_frames: 32, prepared_frames: 2 };
    config.log2_ring_size = 4;
    config.handshake_timeout = Duration::from_millis(500);
    config
}

fn slave_of(config: &MemifConfig) -> JoinHandle<Result<MemifDevice, MemifError>> {
    let config = config.clone();
    std::thread::spawn(move || connect(&config, PATIENCE))
}

/// Master and slave, connected.
fn both(config: &MemifConfig) -> (Memif, Memif) {
    let listener = MemifListener::bind(config.clone()).unwrap();
    let slave = slave_of(config);
    let master = listener.accept(Some(PATIENCE)).unwrap().open().unwrap();
    (master, slave.join().unwrap().unwrap().open().unwrap())
}

fn filled(pool: &Pool, length: usize, value: u8) -> Frame {
    let mut frame = pool.allocate(64).unwrap();
    frame.append(length).unwrap().fill(value);
    frame
}

fn send(vnic: &mut Memif, length: usize, value: u8) -> Result<(), TransmitBuffer> {
    let frame = filled(vnic.transmit_pool(), length, value);
    vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default())
}

fn receive(vnic: &mut Memif) -> Vec<Frame> {
    let mut frames = Vec::new();
    vnic.receive(&mut frames, 64);
    frames
}

/// Every frame is where it may be: in its pool, or posted for the peer.
fn nothing_lost(vnic: &mut Memif) {
    vnic.flush();
    assert_eq!(vnic.receive_pool().in_use_count(), vnic.lent_count());
    assert_eq!(vnic.transmit_pool().in_use_count(), vnic.in_flight_count());
}

fn is_cut_off(vnic: &mut Memif, why: Violation) {
    for _ in 0..3 {
        assert!(receive(vnic).is_empty());
        let _ = vnic.transmit_room();
        vnic.flush();
    }
    assert!(!vnic.link().is_up(), "{why} must end it");
    assert_eq!(vnic.link().reason(), Some(why.to_string().as_str()));
    assert_eq!(vnic.receive_pool().in_use_count(), 0, "all frames are back");
    assert_eq!(vnic.transmit_pool().in_use_count(), 0);
    assert!(send(vnic, 60, 0).is_ok(), "what is sent on a dead link is lost, not stuck");
    assert_eq!(vnic.statistics().transmit_lost, 1);
}

#[test]
fn packets_flow_both_ways_and_frames_come_home() {
    let (mut master, mut slave) = both(&config());
    for round in 0..200u32 {
        let length = 60 + (round as usize * 37) % 1455;
        let count = 1 + round as usize % 7;
        for (from_master, value) in [(true, round as u8), (false, !(round as u8))] {
            let (from, to) = if from_master { (&mut master, &mut slave) } else { (&mut slave, &mut master) };
            for _ in 0..count {
                send(from, length, value).unwrap();
            }
            assert!(receive(to).is_empty(), "nothing is seen before flush");
            from.flush();
            let frames = receive(to);
            assert_eq!(frames.len(), count);
            assert!(frames.iter().all(|frame| frame.len() == length && frame.bytes().iter().all(|b| *b == value)));
            drop(frames);
            from.flush();
            nothing_lost(from);
            nothing_lost(to);
        }
    }
    assert_eq!(slave.in_flight_count(), 0);
    assert_eq!(master.statistics().receive_frames, slave.statistics().transmit_frames);
    assert_eq!(slave.statistics().receive_bytes, master.statistics().transmit_bytes);
}

#[test]
fn a_full_ring_gives_the_frame_back() {
    let (mut master, mut slave) = both(&config());
    for from_master in [true, false] {
        let (from, to) = if from_master { (&mut master, &mut slave) } else { (&mut slave, &mut master) };
        let mut sent = 0;
        while send(from, 100, 7).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, 16, "as many as the ring has");
        assert_eq!(from.transmit_room(), 0);
        assert_eq!(from.statistics().transmit_ring_full, 1);
        from.flush();
        assert_eq!(receive(to).len(), 16);
        from.flush();
        assert_eq!(from.transmit_room(), 16);
        nothing_lost(from);
    }
}

#[test]
fn shared_frames_are_released_when_the_peer_has_them() {
    let (mut master, mut slave) = both(&config());
    for from_slave in [true, false] {
        let vnic = if from_slave { &mut slave } else { &mut master };
        let mut frame = vnic.prepared_pool().allocate(64).unwrap();
        frame.append(200).unwrap().fill(3);
        let mut frame = Rc::new(frame);
        vnic.transmit(TransmitBuffer::Shared(Rc::clone(&frame)), TransmitOptions::default()).unwrap();
        vnic.transmit(TransmitBuffer::Shared(Rc::clone(&frame)), TransmitOptions::default()).unwrap();
        vnic.flush();
        if from_slave {
            assert!(Rc::get_mut(&mut frame).is_none(), "the master may still read it");
            assert_eq!(receive(&mut master).len(), 2);
            slave.flush();
        }
        assert!(Rc::get_mut(&mut frame).is_some());
    }
}

#[test]
fn too_long_and_scattered_packets_are_refused() {
    let (mut master, mut slave) = both(&config());
    for vnic in [&mut master, &mut slave] {
        send(vnic, 1_519, 0).unwrap();
        let scattered = TransmitOptions { continues: true, checksum: None };
        let frame = filled(vnic.transmit_pool(), 100, 0);
        vnic.transmit(TransmitBuffer::Owned(frame), scattered).unwrap();
        send(vnic, 100, 0).unwrap();
        assert_eq!(vnic.statistics().transmit_invalid, 3);
        send(vnic, 100, 0).unwrap();
        assert_eq!(vnic.statistics().transmit_frames, 1, "the next packet goes out");
    }
}

#[test]
fn sleepers_are_woken() {
    let mut config = config();
    config.log2_ring_size = 6;
    let listener = MemifListener::bind(config.clone()).unwrap();
    let slave = slave_of(&config);
    let master = listener.accept(Some(PATIENCE)).unwrap();
    // Each end on a thread of its own, asleep whenever nothing waits; a ball goes to and fro.
    let play = |device: MemifDevice, serves: bool| {
        let mut vnic = device.open().unwrap();
        if serves {
            send(&mut vnic, 64, 1).unwrap();
            vnic.flush();
        }
        let mut count = 0;
        while count < 2_000 {
            let frames = receive(&mut vnic);
            if frames.is_empty() {
                let fd = vnic.doorbell().unwrap();
                let rang = control::wait_for(fd, PollFlags::IN, Some(Instant::now() + PATIENCE)).unwrap();
                assert!(rang, "a lost wake-up after {count}");
            }
            for _ in frames {
                count += 1;
                send(&mut vnic, 64, 1).unwrap();
                vnic.flush();
            }
        }
        vnic
    };
    let other = std::thread::spawn(move || drop(play(slave.join().unwrap().unwrap(), true)));
    let vnic = play(master, false);
    other.join().unwrap();
    drop(vnic);
}

#[test]
fn many_queues() {
    let mut config = config();
    config.queues = 3;
    let listener = MemifListener::bind(config.clone()).unwrap();
    let slave = slave_of(&config);
    let master = listener.accept(Some(PATIENCE)).unwrap().into_openers();
    let slave = slave.join().unwrap().unwrap().into_openers();
    assert_eq!((master.len(), slave.len()), (3, 3));
    let mut masters: Vec<Memif> = master.into_iter().map(|opener| opener.open().unwrap()).collect();
    let mut slaves: Vec<Memif> = slave.into_iter().map(|opener| opener.open().unwrap()).collect();
    for (index, slave) in slaves.iter_mut().enumerate() {
        send(slave, 60 + index, 0).unwrap();
        slave.flush();
    }
    for (index, master) in masters.iter_mut().enumerate() {
        assert_eq!(receive(master)[0].len(), 60 + index);
    }
    config.queues = 9;
    config.socket = config.socket.with_extension("few");
    let few = MemifConfig { queues: 2, ..config.clone() };
    let listener = MemifListener::bind(few).unwrap();
    let slave = slave_of(&config);
    assert!(listener.accept(Some(PATIENCE)).is_err());
    assert!(matches!(slave.join().unwrap(), Err(MemifError::TooFewQueues { wanted: 9, available: 2 })));
}

#[test]
fn the_end_of_one_is_told_the_other() {
    for master_first in [true, false] {
        let (master, slave) = both(&config());
        let (gone, mut left) = if master_first { (master, slave) } else { (slave, master) };
        send(&mut left, 100, 0).unwrap();
        drop(gone);
        // The peer's own ring may come before its message does: woken, it looks, and sleeps again.
        while left.link().is_up() {
            let asleep = left.doorbell().unwrap();
            assert!(control::wait_for(asleep, PollFlags::IN, Some(Instant::now() + PATIENCE)).unwrap(), "it is woken");
            assert!(receive(&mut left).is_empty());
        }
        assert!(receive(&mut left).is_empty());
        assert_eq!(left.link().reason(), Some("the peer disconnected: closed"));
        assert_eq!(left.receive_pool().in_use_count() + left.transmit_pool().in_use_count(), 0);
    }
}

/// What it is, what it is called, how it is done.
type RingLie = (&'static str, Violation, fn(&Memif));

#[test]
fn a_slave_that_lies_about_positions_or_descriptors_is_cut_off() {
    let whole = Descriptor { continues: false, region: 1, length: 100, offset: 0 };
    let lies: [RingLie; 9] = [
        ("head past the ring", Violation::Index, |slave| slave.transmit.head().store(17, Ordering::Release)),
        ("head moved back", Violation::Index, |slave| slave.transmit.head().store(u16::MAX, Ordering::Release)),
        ("posted past the ring", Violation::Index, |slave| slave.receive.head().store(18, Ordering::Release)),
        ("posted moved back", Violation::Index, |slave| slave.receive.head().store(u16::MAX, Ordering::Release)),
        ("no such region", Violation::Region, |slave| publish(slave, &[Descriptor { region: 2, ..WHOLE }])),
        ("beyond the region", Violation::Extent, |slave| {
            publish(slave, &[Descriptor { offset: 98 * 2_048 - 99, ..WHOLE }]);
        }),
        ("beyond everything", Violation::Extent, |slave| {
            publish(slave, &[Descriptor { offset: u32::MAX, length: 30_000, ..WHOLE }]);
        }),
        ("a packet without end", Violation::Chain, |slave| {
            publish(slave, &[Descriptor { continues: true, ..WHOLE }; 16]);
        }),
        ("a packet too long", Violation::Chain, |slave| {
            publish(slave, &[Descriptor { length: 100_000, ..WHOLE }]);
        }),
    ];
    assert_eq!(whole, WHOLE);
    for (name, violation, lie) in lies {
        let (mut master, slave) = both(&config());
        lie(&slave);
        println!("{name}");
        is_cut_off(&mut master, violation);
        // It is told so.
        assert!(wait(|| !slave.link().is_up()));
        assert_eq!(slave.link().reason(), Some(format!("the peer disconnected: {violation}").as_str()));
    }
}

const WHOLE: Descriptor = Descriptor { continues: false, region: 1, length: 100, offset: 0 };

fn publish(slave: &Memif, descriptors: &[Descriptor]) {
    for (position, descriptor) in descriptors.iter().enumerate() {
        slave.transmit.write(position as u16, *descriptor);
    }
    slave.transmit.head().store(descriptors.len() as u16, Ordering::Release);
}

fn wait(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_slave_that_posts_lies_is_cut_off_when_written_to() {
    for (lie, violation) in [
        (Descriptor { region: 9, ..WHOLE }, Violation::Region),
        (Descriptor { offset: u32::MAX - 5, ..WHOLE }, Violation::Extent),
    ] {
        let (mut master, slave) = both(&config());
        slave.receive.write(0, lie);
        assert!(send(&mut master, 90, 0).is_ok());
        assert_eq!(master.link().reason(), Some(violation.to_string().as_str()));
    }
    // Buffers of no length: not filled, and the sender is not stuck in a loop.
    let (mut master, slave) = both(&config());
    for position in 0..16 {
        slave.receive.write(position, Descriptor { length: 0, ..WHOLE });
    }
    assert_eq!(master.transmit_room(), 0);
    assert!(send(&mut master, 90, 0).is_err());
    // Buffers smaller than the packet: it is spread over several.
    for position in 0..16 {
        slave.receive.write(position, Descriptor { length: 40, offset: u32::from(position) * 2_048, ..WHOLE });
    }
    assert!(send(&mut master, 90, 0).is_ok());
    let pieces: Vec<(bool, u32)> = (0..3).map(|at| slave.receive.read(at)).map(|d| (d.continues, d.length)).collect();
    assert_eq!(pieces, [(true, 40), (true, 40), (false, 10)]);
}

#[test]
fn a_master_that_lies_is_cut_off() {
    let lies: [RingLie; 6] = [
        ("filled more than posted", Violation::Index, |master| master.transmit.tail().store(17, Ordering::Release)),
        ("filled moved back", Violation::Index, |master| master.transmit.tail().store(u16::MAX, Ordering::Release)),
        ("taken more than sent", Violation::Index, |master| master.receive.tail().store(2, Ordering::Release)),
        ("taken moved back", Violation::Index, |master| master.receive.tail().store(u16::MAX, Ordering::Release)),
        ("longer than the buffer", Violation::Extent, |master| {
            master.transmit.write(0, Descriptor { length: 2_048, ..WHOLE });
            master.transmit.tail().store(1, Ordering::Release);
        }),
        ("a packet without end", Violation::Chain, |master| {
            (0..16).for_each(|at| master.transmit.write(at, Descriptor { continues: true, ..WHOLE }));
            master.transmit.tail().store(16, Ordering::Release);
        }),
    ];
    for (name, violation, lie) in lies {
        let (master, mut slave) = both(&config());
        send(&mut slave, 100, 0).unwrap();
        slave.flush();
        println!("{name}");
        lie(&master);
        is_cut_off(&mut slave, violation);
    }
    // What it writes into descriptors about where the frame is doesn't matter: we know.
    let (mut master, mut slave) = both(&config());
    send(&mut master, 100, 5).unwrap();
    master.transmit.write(0, Descriptor { region: 77, offset: u32::MAX, length: 100, continues: false });
    master.flush();
    assert!(receive(&mut slave)[0].bytes().iter().all(|byte| *byte == 5));
}

/// Anything at all in the rings: it ends in packets or in the end of the connection, with all frames back.
#[test]
fn arbitrary_rings_do_no_harm() {
    let mut random = Random::new(11);
    for case in 0..300u32 {
        let (mut master, mut slave) = both(&config());
        for _ in 0..40 {
            let bits = random.next();
            let descriptor = Descriptor {
                continues: bits & 3 == 0,
                region: if bits & 4 == 0 { 1 } else { (bits >> 40) as u16 },
                length: if bits & 8 == 0 { 100 } else { random.next() as u32 >> (bits >> 16 & 31) },
                offset: if bits & 16 == 0 { 0 } else { random.next() as u32 >> (bits >> 24 & 31) },
            };
            let (liar, honest) = if case % 2 == 0 { (&slave, &mut master) } else { (&master, &mut slave) };
            let ring = if bits & 32 == 0 { &liar.transmit } else { &liar.receive };
            ring.write((bits >> 48) as u16, descriptor);
            let position = if bits & 64 == 0 { ring.head() } else { ring.tail() };
            if bits & 128 == 0 {
                position.store((bits >> 32) as u16 & 31, Ordering::Release);
            }
            let frames = receive(honest);
            assert!(frames.iter().all(|frame| frame.len() <= frame.capacity()));
            drop(frames);
            if honest.transmit_room() > 0 && honest.transmit_pool().free_count() > 0 {
                let _ = send(honest, 100, 0);
            }
            honest.flush();
            nothing_lost(honest);
        }
    }
}

// ---------------------------------------------------------------- handshakes

fn dialled(config: &MemifConfig) -> Channel {
    Channel::new(dial(&config.socket).unwrap())
}

fn init(config: &MemifConfig) -> Message {
    Message::Init(Init { version: VERSION, id: config.id, mode: 0, secret: [0; SECRET_LENGTH], name: "t".to_owned() })
}

fn ring_message(to_master: bool, offset: u32) -> Message {
    let ring = AddRing { to_master, index: 0, region: 0, offset, log2_size: 4, private_header_length: 0 };
    Message::AddRing(ring)
}

/// The messages of an honest slave of one queue and one region, with their descriptors.
fn honest(config: &MemifConfig) -> Vec<(Message, Option<OwnedFd>)> {
    let (mapping, file) = Mapping::create(1 << 16).unwrap();
    let mapping = Arc::new(mapping);
    let second = ring_length(4) as u32;
    for offset in [0, second] {
        SharedRing::new(Arc::clone(&mapping), offset, 4).unwrap().initialise();
    }
    vec![
        (init(config), None),
        (Message::AddRegion { index: 0, length: 1 << 16 }, Some(file)),
        (ring_message(true, 0), Some(event_fd().unwrap())),
        (ring_message(false, second), Some(event_fd().unwrap())),
        (Message::Connect("t".to_owned()), None),
    ]
}

/// What the master answers a slave that sends `messages`, and what accepting it gives.
fn talk(config: &MemifConfig, messages: Vec<(Message, Option<OwnedFd>)>) -> Result<MemifDevice, MemifError> {
    let listener = MemifListener::bind(config.clone()).unwrap();
    let other = config.clone();
    let speaker = std::thread::spawn(move || {
        let channel = dialled(&other);
        channel.receive(Some(Instant::now() + PATIENCE)).map(|_| ())?;
        for (message, descriptor) in messages {
            channel.send(&message, descriptor.as_ref().map(AsFd::as_fd))?;
            channel.receive(Some(Instant::now() + PATIENCE))?;
        }
        Ok::<(), MemifError>(())
    });
    let outcome = listener.accept(Some(PATIENCE));
    let _ = speaker.join().unwrap();
    outcome
}

#[test]
fn a_slave_may_leave_at_any_message() {
    let config = config();
    let count = honest(&config).len();
    for kept in 0..count {
        let mut messages = honest(&config);
        messages.truncate(kept);
        assert!(matches!(talk(&config, messages), Err(MemifError::Gone)), "after {kept} messages");
    }
    assert!(talk(&config, honest(&config)).is_ok());
    // And within one: the socket keeps messages whole, so a part of one is a short one.
    let listener = MemifListener::bind(config.clone()).unwrap();
    for length in [1, 2, 64, 127] {
        let channel = dialled(&config);
        let part = &Message::Ack.emit()[..length];
        assert_eq!(rustix::net::send(channel.socket(), part, rustix::net::SendFlags::NOSIGNAL), Ok(length));
        let error = listener.accept(Some(PATIENCE)).unwrap_err();
        assert!(error.to_string().contains("bytes instead of 128"), "{error}");
    }
    // Silence is no way to keep the next one out.
    let _silent = dialled(&config);
    assert!(matches!(listener.accept(Some(PATIENCE)), Err(MemifError::Silent)));
    let slave = slave_of(&config);
    assert!(listener.accept(Some(PATIENCE)).is_ok());
    assert!(slave.join().unwrap().is_ok());
}

#[test]
fn a_slave_that_announces_lies_is_refused() {
    let config = config();
    type Lie = (&'static str, fn(&mut Vec<(Message, Option<OwnedFd>)>));
    let lies: [Lie; 18] = [
        ("version", |m| set_init(m, |init| init.version = 0x0300)),
        ("interface 7", |m| set_init(m, |init| init.id = 7)),
        ("mode 1", |m| set_init(m, |init| init.mode = 1)),
        ("wrong secret", |m| set_init(m, |init| init.secret[0] = 1)),
        ("instead of INIT", |m| drop(m.remove(0))),
        ("out of order", |m| m[1].0 = Message::AddRegion { index: 1, length: 4_096 }),
        ("in a file of", |m| m[1].0 = Message::AddRegion { index: 0, length: 1 << 17 }),
        ("region of 0 bytes", |m| m[1].0 = Message::AddRegion { index: 0, length: 0 }),
        ("in all", |m| m[1].0 = Message::AddRegion { index: 0, length: u64::MAX }),
        ("sealed", |m| m[1].1 = Some(std::fs::File::open("/dev/zero").unwrap().into())),
        ("its one descriptor", |m| m[1].1 = None),
        ("eventfd", |m| m[2].1 = Some(std::fs::File::open("/dev/null").unwrap().into())),
        ("ring at", |m| set_ring(m, |ring| ring.offset = 8)),
        ("ring at", |m| set_ring(m, |ring| ring.offset = (1 << 16) - 128)),
        ("2^15", |m| set_ring(m, |ring| ring.log2_size = 15)),
        ("ring in region 3", |m| set_ring(m, |ring| ring.region = 3)),
        ("without its cookie", |m| set_ring(m, |ring| ring.offset = 4_096)),
        ("rings to the master", |m| drop(m.remove(3))),
    ];
    for (words, lie) in lies {
        let mut messages = honest(&config);
        lie(&mut messages);
        let error = talk(&config, messages).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} should speak of {words:?}");
    }
    // A memory file that can shrink would be a SIGBUS at its owner's pleasure.
    // SAFETY: a NUL-terminated name; the descriptor is new.
    let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"soft".as_ptr(), libc::MFD_ALLOW_SEALING)) };
    std::fs::File::from(file.try_clone().unwrap()).set_len(1 << 16).unwrap();
    let mut messages = honest(&config);
    messages[1].1 = Some(file);
    assert!(talk(&config, messages).unwrap_err().to_string().contains("sealed against shrinking"));
}

fn set_init(messages: &mut [(Message, Option<OwnedFd>)], change: fn(&mut Init)) {
    if let Message::Init(init) = &mut messages[0].0 {
        change(init);
    }
}

fn set_ring(messages: &mut [(Message, Option<OwnedFd>)], change: fn(&mut AddRing)) {
    if let Message::AddRing(ring) = &mut messages[2].0 {
        change(ring);
    }
}

#[test]
fn a_master_may_leave_at_any_message_and_its_lies_are_refused() {
    // What the master says, message by message; then it hangs up.
    let hello = |name: &str| {
        Message::Hello(message::Hello {
            name: name.to_owned(),
            version_min: VERSION,
            version_max: VERSION,
            region_max: 255,
            to_slave_ring_max: 0,
            to_master_ring_max: 0,
            log2_ring_size_max: 255,
        })
    };
    let acks = |count: usize| {
        let mut said = vec![hello("m")];
        said.extend(vec![Message::Ack; count]);
        said
    };
    let mut cases: Vec<(Vec<Message>, &str)> = (0..=5).map(|count| (acks(count), "hung up")).collect();
    cases.push((vec![], "hung up"));
    cases.push((vec![Message::Ack], "instead of HELLO"));
    cases.push((vec![hello("m"), Message::Connected(String::new())], "instead of ACK"));
    cases.push((vec![hello("m"), Message::Disconnect { code: 3, reason: "no".to_owned() }], "disconnected: no"));
    for (said, outcome) in cases {
        let config = config();
        let listener = control::new_socket().unwrap();
        rustix::net::bind(&listener, &control::address(&config.socket).unwrap()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let slave = slave_of(&config);
        let channel = Channel::new(rustix::net::accept(&listener).unwrap());
        for message in &said {
            channel.send(message, None).unwrap();
        }
        drop(channel);
        let error = slave.join().unwrap().unwrap_err().to_string();
        assert!(error.contains(outcome), "{said:?}: {error:?} should say {outcome:?}");
        std::fs::remove_file(&config.socket).unwrap();
    }
}

#[test]
fn sockets() {
    let config = config();
    let first = MemifListener::bind(config.clone()).unwrap();
    assert!(matches!(MemifListener::bind(config.clone()), Err(MemifError::Occupied { .. })));
    drop(first);
    assert!(!config.socket.exists(), "no leftovers");
    // A leftover of somebody killed is replaced: a socket file that nobody listens on.
    let dead = control::new_socket().unwrap();
    rustix::net::bind(&dead, &control::address(&config.socket).unwrap()).unwrap();
    drop(dead);
    drop(MemifListener::bind(config.clone()).unwrap());
    assert!(matches!(connect(&config, Duration::ZERO), Err(MemifError::Socket { .. })));
    let long = MemifConfig::new("x".repeat(200), config.mac);
    assert!(matches!(MemifListener::bind(long), Err(MemifError::Invalid { .. })));
    let mut secret = config.clone();
    secret.secret = Some("s".repeat(25));
    assert!(matches!(MemifListener::bind(secret), Err(MemifError::Invalid { .. })));
}
