//! Connections against each other: streams, faults, states.

mod acknowledging;
mod attacks;
mod episodes;
mod path_mtu;
mod right_sizing;
mod states;
mod testing;
mod urgent;
mod waiting;

use super::*;
use crate::tcp::recovery::scoreboard::Scoreboard;
use crate::tcp::tests::testing::{Faults, Host, Pair, pattern};
use bytes::Bytes;
use qanat_api::{CloseReason, Event};
use qanat_nic::{Random, Time};
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::{Flags, Header};
use qanat_wire::tcp_options::Options;
use std::time::Duration;

fn host() -> Host {
    Host::new(TcpConfig::default(), 1_460)
}

fn pair(faults: Faults, seed: u64) -> Pair {
    Pair::new(host(), host(), faults, seed)
}

#[test]
fn a_connection_is_small() {
    let size = size_of::<Connection>();
    assert!(size <= 728, "Connection has {size} bytes");
    assert!(size_of::<TimeWait>() <= 48, "{}", size_of::<TimeWait>());
    assert!(size_of::<HalfOpen>() <= 64, "{}", size_of::<HalfOpen>());
    assert!(size_of::<Scoreboard>() <= 56);
}

#[test]
fn opens_talks_and_closes() {
    let mut pair = pair(Faults::none(), 1).handshake();
    pair.hosts[0].to_send.push_back(Bytes::from_static(b"request"));
    pair.hosts[1].to_send.push_back(Bytes::from_static(b"response"));
    pair.turn(0);
    pair.turn(1);
    pair.run_for(Duration::from_millis(100));
    assert_eq!((&pair.hosts[1].received[..], &pair.hosts[0].received[..]), (&b"request"[..], &b"response"[..]));
    assert_eq!((pair.hosts[0].acked, pair.hosts[1].acked), (7, 8));
    pair.hosts[0].close_when_sent = true;
    pair.turn(0);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.hosts[0].closed, Some(CloseReason::Finished));
    assert_eq!(pair.hosts[1].closed, Some(CloseReason::Finished));
    assert!(pair.hosts[0].time_wait.is_some() && pair.hosts[1].time_wait.is_none());
    pair.run_for(Duration::from_secs(120));
    assert!(pair.hosts[0].time_wait.is_none());
    pair.check_conservation();
}

/// Runs until both ends are closed, at most for `limit`. A service that is not eager takes some of what has come now and then.
fn until_closed(pair: &mut Pair, limit: Duration) {
    pair.turn(0);
    pair.turn(1);
    let done = |pair: &Pair| pair.hosts.iter().all(|host| host.closed.is_some());
    let mut elapsed = Duration::ZERO;
    while !done(pair) && elapsed < limit {
        pair.run_until(Duration::from_millis(50), done);
        elapsed += Duration::from_millis(50);
        for index in 0..2 {
            if !pair.hosts[index].eager {
                for _ in 0..pair.random.below(8) {
                    let now = pair.now;
                    pair.hosts[index].consume_one(now);
                }
                pair.turn(index);
            }
        }
    }
}

/// Both ends send, then close; every byte must arrive once and in order, every byte be acked once.
fn exchange(seed: u64, mut pair: Pair, lengths: [usize; 2], limit: Duration) -> Pair {
    let data = [pattern(seed, lengths[0]), pattern(seed + 1, lengths[1])];
    for (index, bytes) in data.iter().enumerate() {
        let host = &mut pair.hosts[index];
        let mut rest = &bytes[..];
        let mut cut = Random::new(seed ^ 77);
        while !rest.is_empty() {
            let count = (1 + cut.below(20_000) as usize).min(rest.len());
            host.to_send.push_back(Bytes::copy_from_slice(&rest[..count]));
            rest = &rest[count..];
        }
        host.close_when_sent = true;
    }
    until_closed(&mut pair, limit);
    for index in 0..2 {
        let other = 1 - index;
        assert!(
            pair.hosts[index].received == data[other],
            "seed {seed}: host {index} received {} of {} bytes\n{}\n{}",
            pair.hosts[index].received.len(),
            data[other].len(),
            pair.describe(0),
            pair.describe(1)
        );
        assert!(
            pair.hosts[index].closed.is_some(),
            "seed {seed} not closed: {}\n{}",
            pair.describe(0),
            pair.describe(1)
        );
        assert_eq!(pair.hosts[index].closed, Some(CloseReason::Finished), "seed {seed}");
        assert_eq!(pair.hosts[index].acked, data[index].len() as u64, "seed {seed}: each byte acked once");
    }
    pair.check_conservation();
    pair
}

fn random_config(random: &mut Random) -> TcpConfig {
    TcpConfig {
        receive_window: [1_000, 4_000, 20_000, 64 * 1024, 256 * 1024][random.below(5) as usize],
        receive_frames_max: [4, 16, 64, 256][random.below(4) as usize],
        sack: !random.chance(250_000),
        timestamps: !random.chance(250_000),
        window_scaling: !random.chance(200_000),
        ecn: !random.chance(300_000),
        no_delay: !random.chance(200_000),
        pacing: random.chance(150_000),
        congestion: if random.chance(500_000) { CongestionAlgorithm::NewReno } else { CongestionAlgorithm::Cubic },
        retransmissions_max: 30,
        // Outlives every backoff of the peer, so that both ends finish in order.
        time_wait: Duration::from_secs(3_600),
        syn_retransmissions_max: 20,
        syn_ack_retransmissions_max: 20,
        ..TcpConfig::default()
    }
}

fn random_pair(seed: u64) -> (Pair, [usize; 2]) {
    let mut random = Random::new(seed);
    let faults = Faults {
        loss: [0, 10, 50, 150][random.below(4) as usize],
        reorder: [0, 100, 400][random.below(3) as usize],
        duplicate: [0, 20, 200][random.below(3) as usize],
        mark: [0, 0, 50][random.below(3) as usize],
        delay: Duration::from_micros([50, 1_000, 20_000, 100_000][random.below(4) as usize]),
        jitter: Duration::from_millis(1 + random.below(40)),
        rate: [0, 0, 1_000_000][random.below(3) as usize],
        queue: [10, 100][random.below(2) as usize],
        segment_max: usize::MAX,
    };
    let segments = [100, 536, 1_460, 8_960];
    let mut hosts: Vec<Host> = (0..2)
        .map(|_| {
            let segment = segments[random.below(4) as usize];
            let mut host = Host::new(random_config(&mut random), segment);
            host.eager = random.chance(800_000);
            host
        })
        .collect();
    let lengths = [random.below(60_000) as usize, random.below(60_000) as usize];
    if hosts.iter().any(|host| host.maximum_segment < 536) {
        // Segments far smaller than a frame's worth of window would be dropped all the time.
        for host in &mut hosts {
            host.config.receive_frames_max = host.config.receive_frames_max.max(64);
            host.config.receive_window = host.config.receive_window.min(20_000);
        }
    }
    let second = hosts.pop().unwrap();
    (Pair::new(hosts.pop().unwrap(), second, faults, seed), lengths)
}

fn random_exchange(seed: u64) {
    let (pair, lengths) = random_pair(seed);
    let mut pair = pair;
    pair.start();
    pair.run_until(Duration::from_secs(600), |pair| pair.hosts[0].connected && pair.hosts[1].connected);
    exchange(seed, pair, lengths, Duration::from_secs(4_000));
}

#[test]
fn every_byte_arrives_under_every_fault() {
    let count = std::env::var("TCP_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(600);
    let first = std::env::var("TCP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        random_exchange(seed);
    }
}

/// Every segment of an exchange, and how many trains there were.
fn segments_of(seed: u64, trains: bool) -> (Vec<String>, u64) {
    let (mut pair, lengths) = random_pair(seed);
    pair.log = Some(Vec::new());
    for host in &mut pair.hosts {
        host.trains = trains;
    }
    pair.start();
    pair.run_until(Duration::from_secs(600), |pair| pair.hosts[0].connected && pair.hosts[1].connected);
    let pair = exchange(seed, pair, lengths, Duration::from_secs(4_000));
    // A train's segments all have the window of its beginning, which was of the same moment.
    let said = |(from, at, packet): &(usize, Time, testing::Packet)| {
        let header = Header { window: 0, ..packet.header };
        format!("{from} {at:?} {header:?} {:?} {:?}", packet.ecn, packet.payload)
    };
    let sent = pair.hosts.iter().map(|host| host.counters.trains_sent).sum();
    (pair.log.iter().flatten().map(said).collect(), sent)
}

#[test]
fn trains_make_no_difference_to_any_segment() {
    let mut trains = 0;
    for seed in 0..150 {
        let (with, sent) = segments_of(seed, true);
        let (without, none) = segments_of(seed, false);
        trains += sent;
        assert_eq!(none, 0);
        for (index, (with, without)) in with.iter().zip(&without).enumerate() {
            assert_eq!(with, without, "seed {seed}, segment {index}");
        }
        assert_eq!(with.len(), without.len(), "seed {seed}");
    }
    assert!(trains > 1_000, "{trains} trains");
}

#[test]
fn a_megabyte_with_five_percent_loss() {
    for seed in 0..8 {
        let pair = pair(Faults { loss: 50, delay: Duration::from_millis(5), ..Faults::none() }, seed).handshake();
        let start = pair.now;
        let pair = exchange(seed, pair, [1 << 20, 0], Duration::from_secs(120));
        let elapsed = pair.now.since(start);
        assert!(elapsed < Duration::from_secs(20), "seed {seed}: {elapsed:?}\n{}", pair.describe(0));
    }
}

/// Seconds that 8 MiB take over a path.
fn transfer(faults: Faults, seed: u64, config: TcpConfig) -> (f64, String) {
    let mut other = faults;
    other.rate = 0;
    let mut pair = Pair::new(Host::new(config.clone(), 1_460), Host::new(config, 1_460), faults, seed).handshake();
    pair.faults[1] = other;
    let length = 8 << 20;
    let data = Bytes::from(pattern(seed, length));
    for start in (0..length).step_by(65_536) {
        pair.hosts[0].to_send.push_back(data.slice(start..start + 65_536));
    }
    let begin = pair.now;
    pair.turn(0);
    pair.run_until(Duration::from_secs(1_000), |pair| pair.hosts[1].received.len() >= length);
    (pair.now.since(begin).as_secs_f64(), pair.describe(0))
}

/// Goodput over loss, delay and queue; kept as a table to compare by eye: `cargo test goodput -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn goodput_table() {
    let config = TcpConfig { receive_window: 4 << 20, receive_frames_max: 4_096, ..TcpConfig::default() };
    println!("RTT ms  loss 1/1000  queue  reorder | cubic Mbit/s  new-reno Mbit/s");
    for (delay, loss, queue, reorder) in [
        (5, 0, 1000, 0),
        (5, 0, 20, 0),
        (5, 1, 1000, 0),
        (5, 10, 1000, 0),
        (5, 50, 1000, 0),
        (5, 10, 20, 0),
        (25, 0, 1000, 0),
        (25, 0, 20, 0),
        (25, 1, 1000, 0),
        (25, 10, 1000, 0),
        (25, 50, 1000, 0),
        (100, 0, 1000, 0),
        (100, 1, 1000, 0),
        (100, 10, 1000, 0),
        (25, 0, 1000, 100),
        (25, 10, 1000, 100),
    ] {
        let faults = Faults {
            loss,
            reorder,
            jitter: Duration::from_millis(delay / 2 + 1),
            delay: Duration::from_millis(delay),
            rate: 12_500_000,
            queue,
            ..Faults::none()
        };
        let rate = |algorithm| {
            let config = TcpConfig { congestion: algorithm, ..config.clone() };
            let times: Vec<(f64, String)> = (0..3).map(|seed| transfer(faults, seed, config.clone())).collect();
            if std::env::var("TCP_VERBOSE").is_ok() {
                println!("{}", times[0].1);
            }
            (8 << 20) as f64 * 8.0 / 1e6 / (times.iter().map(|time| time.0).sum::<f64>() / 3.0)
        };
        let (cubic, reno) = (rate(CongestionAlgorithm::Cubic), rate(CongestionAlgorithm::NewReno));
        println!("{:6}  {loss:11}  {queue:5}  {reorder:7} | {cubic:12.1}  {reno:15.1}", delay * 2);
    }
}

#[test]
#[ignore = "prints one seed's packets"]
fn debug_seed() {
    let seed: u64 = std::env::var("TCP_SEED").unwrap().parse().unwrap();
    let (mut pair, lengths) = random_pair(seed);
    pair.log = Some(Vec::new());
    pair.start();
    pair.run_until(Duration::from_secs(600), |pair| pair.hosts[0].connected && pair.hosts[1].connected);
    println!("{:?} {:?}", pair.hosts[0].config, pair.hosts[1].config);
    println!("{:?} {lengths:?}", pair.faults[0]);
    let data = [pattern(seed, lengths[0]), pattern(seed + 1, lengths[1])];
    for (index, bytes) in data.iter().enumerate() {
        pair.hosts[index].to_send.push_back(Bytes::copy_from_slice(bytes));
        pair.hosts[index].close_when_sent = true;
    }
    until_closed(&mut pair, Duration::from_secs(4000));
    for (from, at, packet) in pair.log.take().unwrap() {
        println!(
            "{from} {:?} {:?} seq {} len {} ack {} win {} {:?}",
            at.as_micros(),
            packet.header.flags,
            packet.header.sequence,
            packet.payload.len(),
            packet.header.acknowledgment,
            packet.header.window,
            packet.header.options.sack_blocks.as_slice()
        );
    }
    println!("{}\n{}", pair.describe(0), pair.describe(1));
}

/// Time of a request and its answer through input and output, without link, checksums and copying of payloads.
#[test]
#[ignore = "prints a measurement; run with --release"]
fn request_cost() {
    struct Sink(u32, usize);
    impl Emitter for Sink {
        fn room(&self) -> usize {
            64
        }
        fn emit(&mut self, header: &Header, payload: SegmentPayload<'_>, _: Ecn) -> bool {
            self.0 = self.0.wrapping_add(header.sequence.0 ^ payload.len() as u32);
            self.1 += 1;
            true
        }
    }
    let mut pair = pair(Faults::none(), 1).handshake();
    pair.run_for(Duration::from_millis(100));
    let answer = Bytes::from(vec![1; 1_200]);
    let host = &mut pair.hosts[1];
    let mut sink = Sink(0, 0);
    let mut now = pair.now;
    let rounds = 2_000_000u32;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        now += Duration::from_micros(20);
        let connection = host.connection.as_mut().unwrap();
        let options = Options {
            timestamps: Some(qanat_wire::tcp_options::Timestamps {
                value: connection.timestamps.recent(),
                echo: connection.timestamp_now(now),
            }),
            ..Options::NONE
        };
        let mut frame = host.pool.allocate(0).unwrap();
        frame.append(100);
        let segment = SegmentIn {
            sequence: connection.receive_next(),
            acknowledgment: connection.send_next(),
            flags: Flags::ACK | Flags::PSH,
            window: 60_000,
            urgent: 0,
            options: &options,
            payload_length: 100,
            ecn: Ecn::NotCapable,
        };
        let chunk = qanat_api::Chunk::new(frame);
        let mut env = testing::env!(host, now);
        let _ = connection.input(&segment, Some(chunk), &mut env);
        while let Some(event) = env.events.pop_front() {
            if let Event::Data { chunk, .. } = event {
                connection.consume(chunk.len() as u32, 1, &mut env);
                connection.send(answer.clone(), env.config).unwrap();
            }
        }
        let _ = connection.output(&mut env, &mut sink);
        let _ = connection.next_deadline();
    }
    let per = start.elapsed().as_nanos() / u128::from(rounds);
    println!("{per} ns per request and answer, {} segments, {}", sink.1, sink.0);
}
