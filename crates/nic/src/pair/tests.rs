use super::*;
use proptest::prelude::*;
use std::os::fd::AsRawFd;

const PLAN: MemoryPlan = MemoryPlan { frame_size: 2048, receive_frames: 64, transmit_frames: 64, prepared_frames: 1 };

fn open(config: PairConfig) -> (Pair, Pair) {
    let (a, b) = pair(config).unwrap();
    (a.open(PLAN).unwrap(), b.open(PLAN).unwrap())
}

fn frame_of(pair: &Pair, bytes: &[u8]) -> Frame {
    let mut frame = pair.transmit_pool().allocate(64).unwrap();
    frame.append(bytes.len()).unwrap().copy_from_slice(bytes);
    frame
}

fn send(pair: &mut Pair, bytes: &[u8]) -> bool {
    let frame = frame_of(pair, bytes);
    pair.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_ok()
}

#[test]
fn nothing_arrives_before_flush() {
    let (mut a, mut b) = open(PairConfig::default());
    let mut frames = Vec::new();
    assert!(send(&mut a, b"hello"));
    assert_eq!(b.receive(&mut frames, 8), 0);
    a.flush();
    assert_eq!(b.receive(&mut frames, 8), 1);
    assert_eq!(frames[0].bytes(), b"hello");
    assert_eq!(frames[0].headroom(), RECEIVE_HEADROOM);
    assert_eq!(a.transmit_pool().in_use_count(), 0);
}

#[test]
fn full_ring_gives_the_frame_back() {
    let (mut a, mut b) = open(PairConfig { slots: 4, ..PairConfig::default() });
    assert_eq!(a.transmit_room(), 4);
    assert_eq!((0..6).filter(|_| send(&mut a, b"x")).count(), 4);
    assert_eq!(a.statistics().transmit_ring_full, 2);
    a.flush();
    let mut frames = Vec::new();
    assert_eq!(b.receive(&mut frames, 3), 3);
    assert_eq!(a.transmit_room(), 3);
}

#[test]
fn long_packets_are_scattered_whole_or_refused() {
    let config = PairConfig { mtu: 9000, transmit_buffers_max: 8, ..PairConfig::default() };
    let (mut a, mut b) = open(config);
    let mut frames = Vec::new();
    let pieces = [vec![1u8; 1980], vec![2u8; 700], vec![3u8; 5]];
    for (index, piece) in pieces.iter().enumerate() {
        let frame = frame_of(&a, piece);
        let options = TransmitOptions { continues: index < 2, checksum: None };
        a.transmit(TransmitBuffer::Owned(frame), options).unwrap();
        a.flush();
        assert_eq!(b.receive(&mut frames, 64) > 0, index == 2, "only whole packets are seen");
    }
    let lengths: Vec<(usize, bool)> = frames.iter().map(|frame| (frame.len(), frame.continues())).collect();
    assert_eq!(lengths, [(1792, true), (188, true), (700, true), (5, false)]);
    for index in 0..6 {
        let frame = frame_of(&a, &[0; 1900]);
        let options = TransmitOptions { continues: index < 5, checksum: None };
        a.transmit(TransmitBuffer::Owned(frame), options).unwrap();
    }
    a.flush();
    assert_eq!(b.receive(&mut frames, 64), 0);
    assert_eq!(a.statistics().transmit_invalid, 1);
}

#[test]
fn offloaded_checksum_is_filled_in_or_left_partial() {
    let packet: Vec<u8> = (0..61u8).collect();
    let (start, offset) = (11, 6);
    let expected = checksum::finish(checksum::add(0, 0, &packet[start..]));
    for (receive_checksum, filled) in [(ReceiveChecksum::Verify, true), (ReceiveChecksum::AcceptPartial, false)] {
        for cut in [61, 13, 16, 17, 18, 19] {
            let config = PairConfig { transmit_checksum: true, receive_checksum, ..PairConfig::default() };
            let (mut a, mut b) = open(config);
            let checksum = Some(ChecksumOffload { start: start as u16, offset: offset as u16 });
            let first = frame_of(&a, &packet[..cut]);
            let continues = cut < packet.len();
            a.transmit(TransmitBuffer::Owned(first), TransmitOptions { continues, checksum }).unwrap();
            if continues {
                let second = frame_of(&a, &packet[cut..]);
                a.transmit(TransmitBuffer::Owned(second), TransmitOptions::default()).unwrap();
            }
            a.flush();
            let mut frames = Vec::new();
            b.receive(&mut frames, 8);
            let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
            if cut == 18 && filled {
                // The field itself straddles two buffers: refused, as a device would.
                assert_eq!(a.statistics().transmit_invalid, 1);
            } else if filled {
                assert_eq!(bytes[17..19], expected.to_be_bytes(), "cut at {cut}");
            } else {
                assert_eq!(bytes, packet);
            }
        }
    }
}

#[test]
fn shared_frames_are_free_at_once_and_a_lost_peer_is_counted() {
    let (mut a, b) = open(PairConfig::default());
    let mut shared = std::rc::Rc::new(frame_of(&a, b"again"));
    a.transmit(TransmitBuffer::Shared(shared.clone()), TransmitOptions::default()).unwrap();
    assert!(std::rc::Rc::get_mut(&mut shared).is_some());
    drop(b);
    assert!(send(&mut a, b"gone"));
    assert_eq!(a.statistics().transmit_lost, 1);
}

#[test]
fn doorbell_rings_for_a_sleeper() {
    let (mut a, mut b) = open(PairConfig { doorbell: true, ..PairConfig::default() });
    let readable = |pair: &Pair| {
        let fd = pair.doorbell().unwrap().as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    };
    let mut frames = Vec::new();
    assert_eq!(b.receive(&mut frames, 8), 0);
    assert!(!readable(&b));
    send(&mut a, b"ring");
    a.flush();
    assert!(readable(&b));
    assert_eq!(b.receive(&mut frames, 8), 1);
    assert!(!readable(&b));
    assert_eq!(b.receive(&mut frames, 8), 0);
}

#[test]
fn two_threads_lose_nothing() {
    const COUNT: u32 = 200_000;
    let (a, b) = pair(PairConfig { slots: 16, doorbell: true, ..PairConfig::default() }).unwrap();
    let receiver = std::thread::spawn(move || {
        let mut end = b.open(PLAN).unwrap();
        let (mut frames, mut next) = (Vec::new(), 0u32);
        while next < COUNT {
            if end.receive(&mut frames, 16) == 0 {
                let fd = end.doorbell().unwrap().as_raw_fd();
                let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                // SAFETY: one live pollfd. A wake-up that never comes would end this test by its assertion.
                let ready = unsafe { libc::poll(&raw mut poll, 1, 10_000) };
                assert_eq!(ready, 1, "a wake-up was lost at {next}");
            }
            for frame in frames.drain(..) {
                assert_eq!(frame.bytes(), next.to_be_bytes());
                next += 1;
            }
        }
        assert_eq!(end.receive_pool().in_use_count(), 0);
    });
    let mut end = a.open(PLAN).unwrap();
    let mut next = 0u32;
    while next < COUNT {
        let batch = end.transmit_room().min((next as usize % 7) + 1).min((COUNT - next) as usize);
        for _ in 0..batch {
            assert!(send(&mut end, &next.to_be_bytes()));
            next += 1;
        }
        end.flush();
        if batch == 0 {
            std::thread::yield_now();
        }
    }
    receiver.join().unwrap();
    assert_eq!(end.transmit_pool().in_use_count(), 0);
}

proptest! {
    /// Whatever the two ends do, frames arrive once, in order and intact, and every frame comes home.
    #[test]
    fn frames_are_conserved(steps in prop::collection::vec((0u8..5, 1usize..9, 0usize..1518), 1..200)) {
        let (mut a, mut b) = open(PairConfig { slots: 8, ..PairConfig::default() });
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut frames = Vec::new();
        for (number, (action, count, length)) in steps.into_iter().enumerate() {
            match action {
                0 | 1 => for _ in 0..count {
                    let bytes = vec![number as u8; length];
                    if send(&mut a, &bytes) { sent.push(bytes); }
                },
                2 => a.flush(),
                3 => { b.receive(&mut frames, count); }
                _ => received.extend(frames.drain(..).map(|frame| frame.bytes().to_vec())),
            }
        }
        for _ in 0..4 {
            a.flush();
            b.receive(&mut frames, 64);
            received.extend(frames.drain(..).map(|frame| frame.bytes().to_vec()));
        }
        prop_assert_eq!(sent, received);
        prop_assert_eq!(a.transmit_pool().in_use_count(), 0);
        prop_assert_eq!(b.receive_pool().in_use_count(), 0);
    }
}
