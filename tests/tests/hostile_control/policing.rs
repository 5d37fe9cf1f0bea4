//! Rates: what is policed stays policed, by whatever packets, queues and cards it is tried.

use super::cards::{Control, PLAN, card, count, rule, send, wish};
use super::frames::{Ipv4, ethernet, udp};
use qanat_control::client::VnicHandle;
use qanat_control::filter::{Direction, Rate};
use qanat_nic::{AfXdp, Vnic};
use qanat_tests::e2e::scenario;
use std::time::{Duration, Instant};

const RATE: u64 = 40_000_000;
/// 20 ms' worth: a busy machine may not let the flooder run for so long, and what it does not send is lost to it.
const BURST: u64 = 100_000;
const BURST_TIME: Duration = Duration::from_millis(20);

fn host_mac(control: &Control, vnic: &VnicHandle) -> [u8; 6] {
    let interface = &vnic.status().interface;
    let link = qanat_nic::link::link(interface).expect("the kernel's end");
    assert!(control.vnics().iter().any(|vnic| vnic.interface == *interface));
    link.mac.0
}

/// A frame to the kernel's discard port, `length` bytes in all.
fn frame(control: &Control, vnic: &VnicHandle, last: u8, length: usize) -> Vec<u8> {
    let mut datagram = udp(9, 9);
    datagram.resize(length - 34, 0);
    let bytes = (datagram.len() as u16).to_be_bytes();
    datagram[4..6].copy_from_slice(&bytes);
    let packet = Ipv4 { source: [10, 77, 0, last], ..Ipv4::own(17) }.with(&datagram);
    ethernet(host_mac(control, vnic), vnic.status().mac, 0x0800, &packet)
}

/// What became of a flood.
#[derive(Debug)]
struct Flood {
    /// Bits a second that passed, overhead counted.
    passed: f64,
    /// Bits a second offered.
    offered: f64,
    /// Share of the time in which a busy machine did not let it run for longer than a burst lasts: credit nobody can keep.
    starved: f64,
}

/// Sends as fast as can be for `duration`.
fn flood(control: &Control, cards: &mut [(VnicHandle, AfXdp)], frames: &[Vec<u8>], duration: Duration) -> Flood {
    let mut queues: Vec<&mut AfXdp> = cards.iter_mut().map(|(_, queue)| queue).collect();
    flood_queues(control, &mut queues, frames, duration, (true, "passed_to_kernel"))
}

/// As `flood`, by these queues; what counts as passed is named by direction and fate. The burst is over before it begins.
fn flood_queues(
    control: &Control,
    queues: &mut [&mut AfXdp],
    frames: &[Vec<u8>],
    duration: Duration,
    (transmit, fate): (bool, &str),
) -> Flood {
    let passed = |control: &Control| -> u64 {
        let statuses = control.vnics();
        statuses.iter().map(|status| count(status, transmit, fate)).map(|(f, b)| b + 24 * f).sum()
    };
    let mut run = |duration: Duration| {
        let (start, mut offered) = (Instant::now(), 0);
        let (mut sent_at, mut starved) = (start, Duration::ZERO);
        while start.elapsed() < duration {
            for (queue, frame) in queues.iter_mut().zip(frames) {
                if queue.transmit_room() > 64 && queue.transmit_pool().free_count() > 64 {
                    send(queue, &vec![frame.clone(); 64]);
                    offered += 64 * (frame.len() as u64 + 24);
                    starved += sent_at.elapsed().saturating_sub(BURST_TIME);
                    sent_at = Instant::now();
                } else {
                    queue.flush();
                }
            }
        }
        (offered, starved + sent_at.elapsed().saturating_sub(BURST_TIME))
    };
    run(duration / 8);
    let (before, start) = (passed(control), Instant::now());
    let (offered, starved) = run(duration);
    let elapsed = start.elapsed().as_secs_f64();
    let per_second = |bytes: u64| bytes as f64 * 8.0 / elapsed;
    let starved = starved.as_secs_f64() / elapsed;
    Flood { passed: per_second(passed(control) - before), offered: per_second(offered), starved }
}

/// Measures until a busy machine let flood and kernel run, ten times at most; `unit` is what is counted, bits. Never may more
/// pass than the rate.
fn stays_at(wanted: u64, burst: u64, unit: f64, seconds: f64, mut measure: impl FnMut() -> Flood) {
    let most = (wanted as f64 + burst as f64 / seconds) * 1.02;
    let mut all = Vec::new();
    for _ in 0..10 {
        let flood = measure();
        let measured = flood.passed / unit;
        assert!(measured < most, "{measured}/s passed, {wanted}/s are allowed: {flood:?}");
        if measured > wanted as f64 * 0.98 * (1.0 - flood.starved) {
            return;
        }
        all.push(flood);
    }
    panic!("{wanted}/s should pass: {all:?}");
}

// Attack: time and cost: a flood over the rate
#[test]
fn a_flood_stays_at_its_rate_whatever_the_packets_size() {
    scenario(|| {
        let control = Control::generous();
        let cards = &mut [card(&control, 2, &["udp"])];
        let duration = Duration::from_millis(800);
        for length in [1_400, 64, 700] {
            let frames = [frame(&control, &cards[0].0, 2, length)];
            let vnic = cards[0].0.clone();
            vnic.set_rate(Direction::Transmit, Rate::UNLIMITED).expect("no rate");
            let free = flood(&control, cards, &frames, duration / 4).passed;
            assert!(free > RATE as f64 * 1.5, "without policing {free} bit/s: the flood is no test");
            let rate = Rate { bits_per_s: RATE, burst_bytes: BURST, ..Rate::UNLIMITED };
            vnic.set_rate(Direction::Transmit, rate).expect("a rate");
            stays_at(RATE, BURST * 8, 1.0, duration.as_secs_f64(), || {
                let policed = flood(&control, cards, &frames, duration);
                println!("{length} bytes: {free:.0} bit/s free, policed to {RATE}: {policed:?}");
                policed
            });
        }
        let frames = [frame(&control, &cards[0].0, 2, 64)];
        let rate = Rate { packets_per_s: 20_000, burst_packets: 400, ..Rate::UNLIMITED };
        cards[0].0.set_rate(Direction::Transmit, rate).expect("a rate");
        stays_at(20_000, 400, 88.0 * 8.0, duration.as_secs_f64(), || flood(&control, cards, &frames, duration));
    });
}

// Attack: time and cost: many cards to get round the rate of one
#[test]
fn many_cards_are_one_user() {
    scenario(|| {
        let control = Control::start(&rule(&format!("transmit = {{ bits_per_s = {RATE}, burst_bytes = {BURST} }}")));
        let session = control.session();
        let mut cards = Vec::new();
        let mut frames = Vec::new();
        for last in 2..6 {
            let vnic = session.create_vnic(wish(last, &["udp"])).expect("a VNIC");
            let queue = vnic.open_queue(0, PLAN).expect("a queue");
            frames.push(frame(&control, &vnic, last, 1_000));
            cards.push((vnic, queue));
        }
        let duration = Duration::from_millis(800);
        stays_at(RATE, BURST * 8, 1.0, duration.as_secs_f64(), || {
            let policed = flood(&control, &mut cards, &frames, duration);
            println!("4 cards, ceiling {RATE}: {policed:?}");
            assert!(policed.offered > RATE as f64 * 1.5, "the flood is no test");
            policed
        });
        let more = Rate { bits_per_s: RATE * 2, ..Rate::UNLIMITED };
        let refusal = cards[0].0.set_rate(Direction::Transmit, more).expect_err("more than the ceiling").to_string();
        assert!(refusal.contains("rule \"test\""), "{refusal}");
    });
}

// Attack: time and cost: many queues to get round the rate of one
#[test]
fn many_queues_are_one_card() {
    scenario(|| {
        let control = Control::generous();
        let wish = qanat_control::protocol::VnicWish { queues: 4, ..wish(2, &["udp"]) };
        let vnic = control.session().create_vnic(wish).expect("a VNIC");
        let mut queues: Vec<AfXdp> = (0..4).map(|queue| vnic.open_queue(queue, PLAN).expect("a queue")).collect();
        let mut queues: Vec<&mut AfXdp> = queues.iter_mut().collect();
        let frames = vec![frame(&control, &vnic, 2, 1_000); 4];
        let duration = Duration::from_millis(600);
        let mut measure = |duration| flood_queues(&control, &mut queues, &frames, duration, (true, "passed_to_kernel"));
        let free = measure(duration / 3).passed;
        assert!(free > RATE as f64 * 1.5, "without policing {free} bit/s: the flood is no test");
        let rate = Rate { bits_per_s: RATE, burst_bytes: BURST, ..Rate::UNLIMITED };
        vnic.set_rate(Direction::Transmit, rate).expect("a rate");
        stays_at(RATE, BURST * 8, 1.0, duration.as_secs_f64(), || {
            let policed = measure(duration);
            println!("4 queues: {free:.0} bit/s free, policed to {RATE}: {policed:?}");
            policed
        });
    });
}

/// What reaches two cards of one user from two others, whose floods nothing polices.
fn flood_received(ceiling: &str, duration: Duration) -> Flood {
    let control = Control::start(&rule(ceiling));
    let mut senders = [card(&control, 2, &["udp"]), card(&control, 5, &["udp"])];
    let receivers = [(3, card(&control, 3, &[])), (4, card(&control, 4, &[]))];
    let mut frames = Vec::new();
    for ((from, (sender, _)), (to, (receiver, _))) in [2, 5].into_iter().zip(&senders).zip(&receivers) {
        let mut datagram = udp(9, 9);
        datagram.resize(966, 0);
        let bytes = (datagram.len() as u16).to_be_bytes();
        datagram[4..6].copy_from_slice(&bytes);
        let packet = Ipv4 { source: [10, 77, 0, from], destination: [10, 77, 0, *to], ..Ipv4::own(17) };
        frames.push(ethernet(receiver.status().mac, sender.status().mac, 0x0800, &packet.with(&datagram)));
    }
    // What finds no buffer has been delivered all the same.
    let mut queues: Vec<&mut AfXdp> = senders.iter_mut().map(|(_, queue)| queue).collect();
    flood_queues(&control, &mut queues, &frames, duration, (false, "delivered"))
}

// Attack: time and cost: many cards to receive over the ceiling
#[test]
fn a_users_ceiling_holds_for_what_is_received() {
    scenario(|| {
        let duration = Duration::from_millis(400);
        let free = flood_received("", duration / 2).passed;
        assert!(free > RATE as f64 * 1.5, "without a ceiling {free} bit/s: the flood is no test");
        let ceiling = format!("receive = {{ bits_per_s = {RATE}, burst_bytes = {BURST} }}");
        stays_at(RATE, BURST * 8, 1.0, duration.as_secs_f64(), || {
            let policed = flood_received(&ceiling, duration);
            println!("received: {free:.0} bit/s free, with a ceiling of {RATE}: {policed:?}");
            policed
        });
    });
}

#[test]
fn what_is_received_is_throttled() {
    scenario(|| {
        let control = Control::generous();
        let (sender, mut queue) = card(&control, 2, &["udp"]);
        let (receiver, _other) = card(&control, 3, &[]);
        let rate = Rate { packets_per_s: 1_000, burst_packets: 16, ..Rate::UNLIMITED };
        receiver.set_rate(Direction::Receive, rate).expect("a rate");
        let packet = Ipv4 { destination: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(9, 9));
        let frame = ethernet(receiver.status().mac, sender.status().mac, 0x0800, &packet);
        send(&mut queue, &vec![frame; 200]);
        std::thread::sleep(Duration::from_millis(20));
        let vnics = control.vnics();
        let status = vnics.iter().find(|vnic| vnic.vnic == receiver.status().vnic).expect("the receiver");
        let (delivered, dropped) = (count(status, false, "delivered").0, count(status, false, "rate_packets").0);
        assert!(
            (16..200).contains(&delivered) && delivered + dropped == 200,
            "{delivered} delivered, {dropped} dropped"
        );
    });
}
