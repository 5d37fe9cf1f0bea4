//! A siege: connections that must go on while something is done to their server, which is watched for what it holds.

use super::raw::{CLIENT, SERVER, Segment};
use super::streams::unfinished;
use qanat::{CloseReason, Config};
use qanat_nic::{MemoryPlan, Time};
use qanat_stack::tcp::TcpConfig;
use qanat_tests::random::Random;
use qanat_tests::sim::streams::{Flow, FlowPlan, PORT, Streams};
use qanat_tests::sim::{Device, Network, Node, Run, StackNode, World};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const FIN: u8 = 1;
/// Connections of most sieges.
pub const LIVE: usize = 100;
pub const MILLISECOND: Duration = Duration::from_millis(1);
/// Bounds of the besieged server, beside those its connections need.
pub const HALF_OPEN_MAX: usize = 128;
const REASSEMBLING_MAX: usize = 16;
/// Virtual time a siege may take.
const MILLISECONDS_MAX: u64 = 20_000;

/// What a siege shows.
pub struct Aftermath {
    /// The besieged, at rest.
    pub server: StackNode<Streams>,
    /// Virtual time until all connections had done what they were to do.
    pub milliseconds: u64,
    /// Connections it had at once.
    pub connections_peak: usize,
}

pub fn config(address: Ipv4Addr, gateway: Option<Ipv4Addr>, tcp: TcpConfig) -> Config {
    let mut config = Config::new(IpAddr::V4(address), 24);
    config.gateways = gateway.into_iter().map(IpAddr::V4).collect();
    config.connections_max = 256;
    config.half_open_max = HALF_OPEN_MAX;
    config.time_wait_max = 256;
    config.timers_max = 512;
    config.tcp = tcp;
    config
}

/// A network of 10 ms each way.
pub fn network() -> Network {
    let mut network = Network::default();
    for link in &mut network.links {
        link.delay = Duration::from_millis(10);
    }
    network.memory = [MemoryPlan { receive_frames: 4_096, transmit_frames: 4_096, ..MemoryPlan::default() }; 2];
    network
}

/// Small windows make the flows last.
fn slow_tcp() -> TcpConfig {
    TcpConfig { receive_window: 8 * 1024, time_wait: Duration::from_secs(5), ..TcpConfig::default() }
}

/// `live` connections, half of them opened while the attack is on, and `attack` called every millisecond with the number
/// of those passed.
pub fn under_attack(live: usize, attack: impl FnMut(&mut Random, &mut Device, u64)) -> Aftermath {
    besiege(live, 100_000, attack)
}

/// The same, with so many bytes in each direction of each connection.
pub fn besiege(live: usize, bytes: u64, mut attack: impl FnMut(&mut Random, &mut Device, u64)) -> Aftermath {
    let plan = |index: usize| {
        let late = 50 + index.saturating_sub(live / 2) as u64 * 4 * LIVE as u64 / live as u64;
        let start = if index < live / 2 { Duration::ZERO } else { Duration::from_millis(late) };
        FlowPlan { start, ..FlowPlan::plain([bytes; 2]) }
    };
    let plans: Vec<FlowPlan> = (0..live).map(plan).collect();
    let server = IpAddr::V4(SERVER);
    let (connections_max, run) = (live + live / 2 + 106, Run { seed: 7, pcap: None });
    let sized = |address, gateway| {
        let mut config = config(address, gateway, slow_tcp());
        (config.connections_max, config.time_wait_max) = (connections_max, connections_max);
        config.addresses.push((v6(address).into(), 64));
        config
    };
    let mut world = World::new(
        &run,
        Time::from_millis(1_000),
        &network(),
        |device, now| {
            let streams = Streams::new(0, server, &plans);
            StackNode::new(sized(CLIENT, None), [1; 32], streams, device, now)
        },
        |device, now| {
            let streams = Streams::new(1, server, &plans);
            StackNode::new(sized(SERVER, Some(CLIENT)), [2; 32], streams, device, now)
        },
    );
    let mut random = Random::new(run.seed);
    let mut milliseconds = 0;
    let (mut half_open, mut reassembling, mut connections, mut connection_bytes) = (0, 0, 0, 0);
    let (mut receive_frames, mut transmit_frames) = (0, 0);
    // The attack ends when the flows have: it must not stop them.
    while !(world.a.node.is_finished() && world.b.node.is_finished()) {
        if milliseconds == MILLISECONDS_MAX {
            let (a, b) = (&world.a.node, &world.b.node);
            println!("{:?}\n{:?}", b.stack.counters(), b.stack.tcp_counters());
            panic!("the connections starve: {:#?}\n{:#?}", unfinished(a), unfinished(b));
        }
        attack(&mut random, &mut world.a.device, milliseconds);
        world.run(world.now_plus(MILLISECOND), |_, _| false);
        milliseconds += 1;
        let stack = &world.b.node.stack;
        let usage = stack.usage();
        assert!(usage.connections <= connections_max && usage.time_wait <= connections_max, "{usage:?}");
        assert!(usage.half_open <= HALF_OPEN_MAX && usage.reassembling <= REASSEMBLING_MAX, "{usage:?}");
        assert!(usage.events == 0 && usage.neighbours <= 1_024 && usage.pending_frames <= 1_024, "{usage:?}");
        half_open = half_open.max(usage.half_open);
        reassembling = reassembling.max(usage.reassembling);
        connections = connections.max(usage.connections);
        if milliseconds.is_multiple_of(16) {
            let bytes = stack.connections().filter_map(|connection| stack.connection_memory(connection)).sum();
            connection_bytes = connection_bytes.max(bytes);
        }
        receive_frames = receive_frames.max(world.b.pools.receive.in_use_count());
        transmit_frames = transmit_frames.max(world.b.pools.transmit.in_use_count());
    }
    println!(
        "{milliseconds} ms; at most {connections} connections in {connection_bytes:?} bytes, {half_open} half open, \
         {reassembling} datagrams in pieces of 64 KiB each, {receive_frames} receive and {transmit_frames} transmit frames"
    );
    let orderly = |flow: &Flow| flow.closed == Some(CloseReason::Finished);
    assert!(world.a.node.service.flows.iter().all(orderly));
    world.drain(Duration::from_secs(600));
    let (_, server) = world.check_frames();
    Aftermath { server, milliseconds, connections_peak: connections }
}

/// The IPv6 address beside an IPv4 address.
pub fn v6(address: Ipv4Addr) -> std::net::Ipv6Addr {
    std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(address.octets()[3]))
}

/// An address and port of anybody out there.
pub fn anyone(random: &mut Random) -> (Ipv4Addr, u16) {
    let [_, b, c, d, e, f, ..] = random.draw().to_be_bytes();
    (Ipv4Addr::new(11 + b % 100, c, d, 1 + e % 250), 1_024 + u16::from(f) * 200)
}

/// An empty segment to the server.
pub fn blank(source: (Ipv4Addr, u16)) -> Segment<'static> {
    Segment {
        source,
        destination: (SERVER, PORT),
        sequence: 0,
        acknowledgment: 0,
        flags: ACK,
        window: 1_000,
        options: &[],
        payload: &[],
    }
}
