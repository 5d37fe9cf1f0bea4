//! Two of our stacks: byte-exact streams, everything acknowledged once, all given back, under every fault.

use qanat::{CloseReason, Config};
use qanat_nic::Time;
use qanat_stack::tcp::{CongestionAlgorithm, TcpConfig};
use qanat_tests::random::Random;
use qanat_tests::sim::streams::{Ending, FlowPlan, Streams, own_address};
use qanat_tests::sim::{Moves, Network, Node, Run, StackNode, World, seeds};
use std::net::IpAddr;
use std::time::Duration;

type Pair = World<StackNode<Streams>, StackNode<Streams>>;

const LIMIT: Duration = Duration::from_secs(3_600);
/// TIME-WAIT, and half-open connections that nobody completes.
const DRAIN: Duration = Duration::from_secs(1_800);

pub fn any_tcp(random: &mut Random) -> TcpConfig {
    let tiny = random.one_in(3);
    TcpConfig {
        receive_window: if tiny { random.between(1_024, 4_096) } else { random.pick(&[16, 64, 256, 2_048]) * 1_024 }
            as u32,
        sack: !random.one_in(5),
        timestamps: !random.one_in(5),
        window_scaling: !random.one_in(5),
        ecn: !random.one_in(5),
        no_delay: !random.one_in(4),
        pacing: random.one_in(5),
        congestion: random.pick(&CongestionAlgorithm::ALL),
        delayed_ack: Duration::from_millis(random.pick(&[1, 40, 200])),
        syn_retransmissions_max: 12,
        // A reset may be lost: without keepalive a side that only listens never hears of it.
        keepalive: Some(Duration::from_secs(30)),
        keepalive_interval: Duration::from_secs(5),
        // Longer than the longest retransmission time-out, several times: a side that has lost many segments still finds
        // its peer there for its last one.
        time_wait: Duration::from_secs(600),
        fin_wait_2: Duration::from_secs(600),
        ..TcpConfig::default()
    }
}

pub fn config(address: IpAddr, tcp: TcpConfig) -> Config {
    let mut config = Config::new(address, if address.is_ipv4() { 24 } else { 64 });
    config.connections_max = 64;
    config.half_open_max = 64;
    config.time_wait_max = 64;
    config.timers_max = 256;
    config.tcp = tcp;
    config
}

fn world(run: &Run, random: &mut Random, network: &Network, tcp: [TcpConfig; 2], plans: &[FlowPlan]) -> Pair {
    let server: IpAddr = random.pick(&["10.0.0.2", "fd00::2"]).parse().unwrap();
    let start = Time::from_millis(random.between(0, 1 << 33));
    let (entropy_a, entropy_b) = (random.entropy(), random.entropy());
    let [tcp_a, tcp_b] = tcp;
    let service = |side| Streams::new(side, server, plans);
    World::new(
        run,
        start,
        network,
        |device, now| StackNode::new(config(own_address(server), tcp_a), entropy_a, service(0), device, now),
        |device, now| StackNode::new(config(server, tcp_b), entropy_b, service(1), device, now),
    )
}

fn scenario(run: &Run) -> u64 {
    scenario_with_moves(run, None).0
}

/// The trace's hash, and how often the second stack has moved, if it is to after so many polls each.
fn scenario_with_moves(run: &Run, every: Option<u64>) -> (u64, u64) {
    let mut random = Random::new(run.seed);
    let network = Network::any(&mut random);
    let tcp = [any_tcp(&mut random), any_tcp(&mut random)];
    let bytes_max = random.pick(&[3_000, 30_000, 120_000]);
    let plans: Vec<FlowPlan> = (0..random.between(1, 6)).map(|_| FlowPlan::any(&mut random, bytes_max)).collect();
    if run.pcap.is_some() {
        println!("{network:#?}\n{tcp:#?}\n{plans:#?}");
    }
    let mut world = world(run, &mut random, &network, tcp, &plans);
    world.b.node.moves = every.map(|every| Moves::every(every, &world.b.pools));
    let outcome = world.run(world.now_plus(LIMIT), |a, b| a.is_finished() && b.is_finished());
    assert!(
        world.a.node.is_finished() && world.b.node.is_finished(),
        "{outcome:?} after {LIMIT:?}:\n{:#?}\n{:#?}",
        unfinished(&world.a.node),
        unfinished(&world.b.node)
    );
    world.drain(DRAIN);
    let hash = world.trace_hash();
    let moves = world.b.node.moves.as_ref().map_or(0, |moves| moves.done);
    // It holds frames' pools.
    world.b.node.moves = None;
    world.check_frames();
    (hash, moves)
}

pub fn unfinished(node: &StackNode<Streams>) -> Vec<String> {
    let flows = node.service.flows.iter().filter(|flow| flow.closed.is_none());
    flows
        .map(|flow| {
            let info = flow.connection().and_then(|connection| node.stack.connection_info(connection));
            format!("{flow:?} {info:?}")
        })
        .collect()
}

#[test]
fn streams_under_faults() {
    seeds::for_each("streams_under_faults", 1_000, |run| {
        scenario(run);
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed| scenario(&Run { seed, pcap: None });
    let hashes: Vec<u64> = (0..8).map(hash).collect();
    let again: Vec<u64> = (0..8).map(hash).collect();
    assert_eq!(hashes, again);
    let mut distinct = hashes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), hashes.len());
}

/// Whatever it is doing, a stack that goes on elsewhere sends what it would have sent, when it would have.
#[test]
fn a_stack_that_moves_cannot_be_told_from_one_that_stays() {
    seeds::for_each("a_stack_that_moves_cannot_be_told_from_one_that_stays", 20, |run| {
        let (stays, _) = scenario_with_moves(run, None);
        for every in [1, 7] {
            let (moves, done) = scenario_with_moves(run, Some(every));
            assert!(done > 0);
            assert_eq!(stays, moves, "moved {done} times, every {every} polls");
        }
    });
}

/// Both sides send FIN in the same instant.
#[test]
fn simultaneous_close() {
    let run = Run { seed: 1, pcap: None };
    let mut random = Random::new(1);
    let mut network = Network::default();
    for link in &mut network.links {
        link.delay = Duration::from_millis(10);
    }
    let plan = FlowPlan { ending: Ending::Close, ..FlowPlan::plain([0, 0]) };
    let mut world = world(&run, &mut random, &network, [TcpConfig::default(), TcpConfig::default()], &[plan; 4]);
    world.run_to_end(Duration::from_secs(5), Duration::from_secs(200));
    for flow in &world.a.node.service.flows {
        assert_eq!(flow.closed, Some(CloseReason::Finished));
    }
    world.check_frames();
}

/// Jumbo packets that vanish beyond 8,000 bytes, without a word by ICMP: the streams get through, those too whose last
/// segment alone is too long.
#[test]
fn jumbo_packets_into_a_black_hole() {
    for last in [0, 100, 1_000, 8_000, 8_900] {
        let mut network = Network { mtu: 9_000, ..Network::default() };
        for link in &mut network.links {
            link.delay = Duration::from_millis(1);
            (link.rate_bits, link.queue_bytes_max) = (1_000_000_000, 8_000);
        }
        let run = Run { seed: last, pcap: None };
        let plans = [FlowPlan { piece_bytes_max: 9_000, ..FlowPlan::plain([8_928 * 3 + last, last]) }];
        let mut random = Random::new(last);
        let mut world = world(&run, &mut random, &network, [TcpConfig::default(), TcpConfig::default()], &plans);
        world.run_to_end(Duration::from_secs(60), DRAIN);
        let found = world.a.node.stack.tcp_counters().black_holes_detected;
        assert!((1..=4).contains(&found), "{found} black holes");
        world.check_frames();
    }
}
