//! Goodput against loss, round-trip time and receive buffer, kept as text and compared.
//!
//! `QANAT_UPDATE=1` writes the table anew.

use super::streams::config;
use qanat_nic::{FaultRates, LinkConfig, MemoryPlan, Time};
use qanat_stack::tcp::{CongestionAlgorithm, TcpConfig};
use qanat_tests::sim::streams::{FlowPlan, Streams, own_address};
use qanat_tests::sim::{Network, Run, StackNode, World};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

const LOSS_PPM: [u32; 4] = [0, 1_000, 10_000, 50_000];
const ROUND_TRIP_MS: [u64; 4] = [1, 10, 50, 200];
const BUFFER_KIB: [u32; 3] = [16, 256, 2_048];
const RATE_BITS: u64 = 40_000_000;
const DURATION: Duration = Duration::from_secs(6);
/// Losses fall otherwise when a segment more or less is sent: so far a cell may differ from the kept table.
const TOLERANCE: f64 = 0.30;

/// Bits per second that arrived in some seconds of virtual time.
fn goodput(congestion: CongestionAlgorithm, (loss_ppm, round_trip_ms, buffer_kib): (u32, u64, u32), seed: u64) -> f64 {
    let server: IpAddr = "10.0.0.2".parse().unwrap();
    let mut network = Network::default();
    network.faults[1] = FaultRates { loss_ppm, ..FaultRates::default() };
    for link in &mut network.links {
        let delay = Duration::from_micros(round_trip_ms * 500);
        // A queue of one path's worth, at least 64 KiB.
        let queue_bytes_max = (RATE_BITS / 8 * round_trip_ms / 1_000).max(65_536);
        *link = LinkConfig { delay, rate_bits: RATE_BITS, queue_bytes_max, ..LinkConfig::default() };
    }
    network.memory = [MemoryPlan { receive_frames: 4_096, transmit_frames: 4_096, ..MemoryPlan::default() }; 2];
    let tcp = TcpConfig {
        receive_window: buffer_kib * 1_024,
        receive_frames_max: 2 * buffer_kib as usize,
        congestion,
        ..TcpConfig::default()
    };
    let plans = [FlowPlan { prepared: [false, true], ..FlowPlan::plain([0, 1 << 30]) }];
    let streams = |side| {
        let mut streams = Streams::new(side, server, &plans);
        streams.ahead_bytes_max = 8 << 20;
        streams
    };
    let mut world = World::new(
        &Run { seed, pcap: None },
        Time::from_millis(1_000),
        &network,
        |device, now| StackNode::new(config(own_address(server), tcp.clone()), [1; 32], streams(0), device, now),
        |device, now| StackNode::new(config(server, tcp.clone()), [2; 32], streams(1), device, now),
    );
    world.run(world.now_plus(DURATION), |_, _| false);
    let bytes = world.a.node.service.flows[0].received();
    bytes as f64 * 8.0 / DURATION.as_secs_f64()
}

/// Mean of two seeds, Mbit/s; one where nothing is random.
fn cell(loss_ppm: u32, round_trip_ms: u64, buffer_kib: u32) -> f64 {
    let seeds = if loss_ppm == 0 { 1 } else { 2 };
    let sum: f64 =
        (0..seeds).map(|seed| goodput(CongestionAlgorithm::Cubic, (loss_ppm, round_trip_ms, buffer_kib), seed)).sum();
    sum / seeds as f64 / 1e6
}

fn table(cells: &[(u32, u64, u32, f64)]) -> String {
    let mut text = String::from(
        "# Goodput of one connection in Mbit/s: 40 Mbit/s link, 6 s of virtual time, CUBIC, loss of data only.\n\
         # Written by: QANAT_UPDATE=1 cargo test -p qanat-tests --release --test simulator goodput\n\
         # loss_percent round_trip_ms receive_buffer_kib mbit_per_s\n",
    );
    for (loss_ppm, round_trip_ms, buffer_kib, mbits) in cells {
        let loss = f64::from(*loss_ppm) / 10_000.0;
        writeln!(text, "{loss:>4.1} {round_trip_ms:>4} {buffer_kib:>5} {mbits:>7.2}").unwrap();
    }
    text
}

#[test]
fn goodput_table() {
    let mut cells = Vec::new();
    for loss_ppm in LOSS_PPM {
        for round_trip_ms in ROUND_TRIP_MS {
            for buffer_kib in BUFFER_KIB {
                cells.push((loss_ppm, round_trip_ms, buffer_kib, cell(loss_ppm, round_trip_ms, buffer_kib)));
            }
        }
    }
    let text = table(&cells);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/goodput.txt");
    if std::env::var_os("QANAT_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
        println!("{text}");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let kept = kept.lines().filter(|line| !line.starts_with('#'));
    let kept: Vec<f64> = kept.filter_map(|line| line.split_whitespace().nth(3)?.parse().ok()).collect();
    assert_eq!(kept.len(), cells.len(), "{} has other cells: write it anew with QANAT_UPDATE=1", path.display());
    let worse: Vec<String> = cells
        .iter()
        .zip(kept)
        .filter(|((.., now), kept)| (now - kept).abs() > kept * TOLERANCE + 0.05)
        .map(|((loss, round_trip, buffer, now), kept)| {
            format!("loss {loss} ppm, {round_trip} ms, {buffer} KiB: {now:.2} Mbit/s, kept {kept:.2}")
        })
        .collect();
    assert!(
        worse.is_empty(),
        "other than in {} (QANAT_UPDATE=1 writes it anew):\n{}",
        path.display(),
        worse.join("\n")
    );
}

/// Losses that have nothing to do with how much is sent do not slow a model of the path down: it sends what the link takes, less what is
/// lost. CUBIC has a tenth of that at a hundredth lost, and less.
#[test]
fn a_model_of_the_path_is_not_slowed_down_by_losses_at_random() {
    for (loss_ppm, round_trip_ms, least) in
        [(0, 20, 0.90), (1_000, 20, 0.88), (10_000, 20, 0.85), (50_000, 20, 0.3), (0, 200, 0.6), (10_000, 100, 0.6)]
    {
        let path = (loss_ppm, round_trip_ms, 4_096);
        let bits = goodput(CongestionAlgorithm::Bbr, path, 1);
        let share = bits / RATE_BITS as f64;
        println!("{path:?}: {share:.2} cubic {:.2}", goodput(CongestionAlgorithm::Cubic, path, 1) / RATE_BITS as f64);
        assert!(share >= least, "{path:?}: {share:.2} of the link");
    }
}
