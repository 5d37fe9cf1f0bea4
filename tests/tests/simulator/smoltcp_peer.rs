//! Our stack against smoltcp, as client and as server, under faults.

use super::smoltcp_node::{SmoltcpNode, SmoltcpOptions};
use super::streams::{any_tcp, config};
use qanat_nic::Time;
use qanat_tests::random::Random;
use qanat_tests::sim::streams::{Drain, Ending, FlowPlan, Streams, own_address};
use qanat_tests::sim::{Network, Node, Run, StackNode, World, seeds};
use std::net::IpAddr;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(7_200);
const DRAIN: Duration = Duration::from_secs(1_800);

struct Scenario {
    random: Random,
    network: Network,
    plans: Vec<FlowPlan>,
    options: SmoltcpOptions,
    client: IpAddr,
    server: IpAddr,
}

fn scenario(run: &Run, salt: u64) -> Scenario {
    let mut random = Random::new(run.seed ^ salt);
    let mut network = Network::any(&mut random);
    // smoltcp's frames here are whole.
    network.mtu = network.mtu.min(1_500);
    let plans = (0..random.between(1, 4)).map(|_| {
        // smoltcp's application here ends its streams in order, and so must its peer.
        let plan = FlowPlan::any(&mut random, 40_000);
        FlowPlan { ending: if random.one_in(2) { Ending::Shutdown } else { Ending::Close }, ..plan }
    });
    let plans: Vec<FlowPlan> = plans.collect();
    let options = SmoltcpOptions {
        receive_bytes: random.pick(&[2_000, 16_384, 65_535, 200_000]),
        send_bytes: random.pick(&[2_000, 65_535]),
        timestamps: random.one_in(2),
        cubic: random.one_in(2),
        nagle: random.one_in(2),
        seed: random.draw(),
        read_every: Duration::from_millis(random.pick(&[0, 0, 7, 300])),
    };
    let server: IpAddr = random.pick(&["10.0.0.2", "fd00::2"]).parse().unwrap();
    if run.pcap.is_some() {
        println!("{network:#?}\n{plans:#?}\n{options:#?}");
    }
    Scenario { random, network, plans, options, client: own_address(server), server }
}

fn start(random: &mut Random) -> Time {
    Time::from_millis(random.between(1_000, 1 << 33))
}

#[test]
fn smoltcp_server_under_faults() {
    seeds::for_each("smoltcp_server_under_faults", 250, |run| {
        let Scenario { mut random, network, plans, options, client, server } = scenario(run, 0x736d_6f6c);
        let ours = config(client, any_tcp(&mut random));
        let (entropy, time) = (random.entropy(), start(&mut random));
        let streams = Streams::new(0, server, &plans).with_forgetful_peer();
        let mut world = World::new(
            run,
            time,
            &network,
            |device, now| StackNode::new(ours, entropy, streams, device, now),
            |device, now| SmoltcpNode::new(1, server, &plans, options, device, now),
        );
        let outcome = world.run(world.now_plus(LIMIT), |a, b| a.is_finished() && b.is_finished());
        let (a, b) = (&world.a.node, &world.b.node);
        if !(a.is_finished() && b.is_finished()) && b.is_stuck(world.now_plus(Duration::ZERO)) {
            return;
        }
        let done = a.is_finished() && b.is_finished();
        assert!(done, "{outcome:?}: {:#?}\n{:#?}", super::streams::unfinished(a), b.unfinished());
        world.drain(DRAIN);
        world.check_frames();
    });
}

#[test]
fn smoltcp_client_under_faults() {
    seeds::for_each("smoltcp_client_under_faults", 250, |run| {
        let Scenario { mut random, network, plans, options, server, .. } = scenario(run, 0x7463_7020);
        let ours = config(server, any_tcp(&mut random));
        let (entropy, time) = (random.entropy(), start(&mut random));
        let streams = Streams::new(1, server, &plans).with_forgetful_peer();
        let mut world = World::new(
            run,
            time,
            &network,
            |device, now| SmoltcpNode::new(0, server, &plans, options, device, now),
            |device, now| StackNode::new(ours, entropy, streams, device, now),
        );
        let outcome = world.run(world.now_plus(LIMIT), |a, b| a.is_finished() && b.is_finished());
        let (a, b) = (&world.a.node, &world.b.node);
        if !(a.is_finished() && b.is_finished()) && a.is_stuck(world.now_plus(Duration::ZERO)) {
            return;
        }
        let done = a.is_finished() && b.is_finished();
        assert!(done, "{outcome:?}: {:#?}\n{:#?}", super::streams::unfinished(b), a.unfinished());
        world.drain(DRAIN);
        world.check_frames();
    });
}

/// Bytes and an end in both directions on a perfect network: if this fails, the harness is wrong.
#[test]
fn smoltcp_without_faults() {
    let server: IpAddr = "10.0.0.2".parse().unwrap();
    let plans = [FlowPlan { drains: [Drain::Promptly; 2], ..FlowPlan::plain([100_000, 50_000]) }];
    let mut random = Random::new(1);
    let ours = config(own_address(server), any_tcp(&mut random));
    let options = SmoltcpOptions {
        receive_bytes: 65_535,
        send_bytes: 65_535,
        timestamps: true,
        cubic: true,
        nagle: true,
        seed: 1,
        read_every: Duration::ZERO,
    };
    let mut world = World::new(
        &Run { seed: 1, pcap: None },
        Time::from_millis(1_000),
        &Network::default(),
        |device, now| StackNode::new(ours, [1; 32], Streams::new(0, server, &plans), device, now),
        |device, now| SmoltcpNode::new(1, server, &plans, options, device, now),
    );
    world.run_to_end(Duration::from_secs(20), DRAIN);
    world.check_frames();
}
