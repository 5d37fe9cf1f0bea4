//! The web service under faults: every byte of every response, in both copy modes.

use super::web_clients::{Page, WebClients};
use qanat::{Config, Service};
use qanat_nic::{MemoryPlan, Time};
use qanat_stack::tcp::TcpConfig;
use qanat_tests::random::Random;
use qanat_tests::sim::pattern;
use qanat_tests::sim::streams::own_address;
use qanat_tests::sim::{Network, Node, Run, StackNode, World, seeds};
use qanat_web::{CopyMode, Limits, WallClock, WebConfig, WebService};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(7_200);
const DRAIN: Duration = Duration::from_secs(1_800);
/// Files longer than this come from disk, by way of the reader threads.
const OBJECT_BYTES_MAX: u64 = 200_000;

struct Site {
    directory: tempfile::TempDir,
    pages: Vec<Page>,
}

/// Files of the sizes where things change: empty, one byte, a frame less and more, several windows.
fn site(with_streamed: bool) -> Site {
    let directory = tempfile::tempdir().unwrap();
    let mut sizes = vec![0, 1, 100, 1_448, 1_449, 5_000, 24 * 1_024, 70_001];
    if with_streamed {
        sizes.extend([128 * 1_024, 300_000]);
    }
    let pages = sizes.into_iter().map(|size| {
        let mut bytes = vec![0; size];
        pattern::fill(size as u64, 0, &mut bytes);
        let path = format!("/file-{size}.bin");
        std::fs::write(directory.path().join(&path[1..]), &bytes).unwrap();
        Page { path, bytes: bytes.into() }
    });
    Site { pages: pages.collect(), directory }
}

fn web_config(site: &Site, copy_mode: CopyMode, random: &mut Random) -> WebConfig {
    let patient = Duration::from_secs(10_000);
    WebConfig {
        copy_mode,
        packet_overhead: random.pick(&[52, 72]),
        copies_max: random.between(1, 8) as usize,
        object_bytes_max: OBJECT_BYTES_MAX,
        window_bytes: 64 * 1_024,
        preload: true,
        check_files: false,
        limits: Limits {
            head_timeout: patient,
            idle_timeout: patient,
            send_timeout: patient,
            linger_timeout: patient,
            pipeline_bytes_max: random.pick(&[1_000, 128 * 1_024]),
            ..Limits::default()
        },
        wall_clock: WallClock::FromZero(1_700_000_000),
        ..WebConfig::new(site.directory.path())
    }
}

fn config(address: IpAddr, random: &mut Random) -> Config {
    let mut config = Config::new(address, if address.is_ipv4() { 24 } else { 64 });
    config.connections_max = 128;
    config.half_open_max = 128;
    config.time_wait_max = 4_096;
    config.timers_max = 512;
    config.tcp = TcpConfig {
        receive_window: random.pick(&[2_000, 16_384, 65_536, 262_144]),
        sack: !random.one_in(5),
        timestamps: !random.one_in(4),
        syn_retransmissions_max: 12,
        keepalive: Some(Duration::from_secs(30)),
        time_wait: Duration::from_secs(600),
        fin_wait_2: Duration::from_secs(600),
        ..TcpConfig::default()
    };
    config
}

fn scenario(run: &Run, copy_mode: CopyMode, site: &Site) {
    let mut random = Random::new(run.seed ^ 0x77_65_62);
    let mut network = Network::any(&mut random);
    network.memory[1] = MemoryPlan { prepared_frames: random.pick(&[300, 2_048]), ..network.memory[1] };
    let server: IpAddr = random.pick(&["10.0.0.2", "fd00::2"]).parse().unwrap();
    let configs = [config(own_address(server), &mut random), config(server, &mut random)];
    let web_config = WebConfig { address: server, ..web_config(site, copy_mode, &mut random) };
    let clients = random.between(1, 12) as usize;
    // What the reader threads do depends on the real time: not in every run.
    let rare = random.one_in(4);
    let pages = if rare { &site.pages[..] } else { &site.pages[..8] };
    let clients = WebClients::new(SocketAddr::new(server, 80), pages, &mut random, clients, 8, rare);
    if run.pcap.is_some() {
        println!("{network:#?}\n{configs:#?}\n{web_config:#?}");
    }
    let [client_config, server_config] = configs;
    let (entropy_a, entropy_b) = (random.entropy(), random.entropy());
    let mut world = World::new(
        run,
        Time::from_millis(1_000),
        &network,
        |device, now| StackNode::new(client_config, entropy_a, clients, device, now),
        |device, now| {
            let web = WebService::new(web_config).expect("a right configuration");
            StackNode::new(server_config, entropy_b, web, device, now)
        },
    );
    world.pause = rare.then_some(Duration::from_micros(100));
    let outcome = world.run(world.now_plus(LIMIT), |clients, _| clients.is_finished());
    let clients = &world.a.node.service;
    assert!(clients.is_finished(), "{outcome:?} after {LIMIT:?}: {:#?}", clients.unfinished());
    // The tick is the service's for as long as it runs.
    world.drain_but(DRAIN, |_, server| {
        let usage = server.stack.usage();
        usage.connections + usage.half_open + usage.time_wait + usage.pending_frames == 0
    });
    let now = world.now_plus(Duration::ZERO);
    world.b.node.command(now, &mut world.b.device, Service::stop);
    world.drain(DRAIN);
    let prepared = world.b.pools.prepared.clone();
    drop(world.check_frames());
    assert_eq!(prepared.in_use_count(), 0, "prepared frames outlive the service");
}

#[test]
fn web_prepared_under_faults() {
    let site = site(true);
    seeds::for_each("web_prepared_under_faults", 100, |run| scenario(run, CopyMode::Pre, &site));
}

#[test]
fn web_copied_under_faults() {
    let site = site(true);
    seeds::for_each("web_copied_under_faults", 100, |run| scenario(run, CopyMode::PerSend, &site));
}
