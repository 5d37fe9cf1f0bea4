//! `qanat bench echo`: what each way of echoing a packet costs, on one link, under one load (Arrakis' Table 1 and
//! Figure 3): the driver alone, our stack, our stack with copies, Linux, DPDK.

pub mod breakdown;
pub mod options;
mod peers;
mod phases;

use crate::harness::HarnessError;
use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::cpu;
use crate::harness::environment::Environment;
use crate::harness::statistics::Summary;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use crate::load::echo::EchoReport;
use options::{BenchLink, EchoBenchOptions};
use peers::{Bench, Peer, peers_of};
use std::time::Duration;

/// MTU of the veth.
const MTU: u32 = 1_500;

/// One way of loading.
struct Case {
    name: &'static str,
    length: usize,
    window: usize,
    /// Peers that sleep take part.
    latency: bool,
    /// The load waits as its peer does: over a kernel socket against the kernel, asleep against one that sleeps.
    alike: bool,
}

const CASES: [Case; 5] = [
    Case { name: "64 bytes, 256 at once", length: 64, window: 256, latency: false, alike: false },
    Case { name: "1,024 bytes, 256 at once", length: 1_024, window: 256, latency: false, alike: false },
    Case { name: "64 bytes, one at a time", length: 64, window: 1, latency: true, alike: false },
    Case { name: "1,024 bytes, one at a time", length: 1_024, window: 1, latency: true, alike: false },
    Case { name: "64 bytes, one at a time, both ends alike", length: 64, window: 1, latency: true, alike: true },
];

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &EchoBenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    check(options)?;
    let there =
        |case: &&Case| (!options.common.quick || case.length == 64) && (!case.alike || options.link == BenchLink::Veth);
    let cases = options.common.chosen(CASES.iter().filter(there).collect(), |case| case.name.to_owned())?;
    let topology = match options.link {
        BenchLink::Veth => Some(Topology::new(MTU)?),
        _ => None,
    };
    let bench = Bench { options, topology: topology.as_ref(), keeps_output: false };
    progress("waiting for a quiet machine");
    let mut environment = environment(options);
    environment.wait_for_quiet(Duration::from_secs(if options.common.quick { 2 } else { 20 }));
    let (mut rows, mut turns) =
        (Vec::new(), Turns::new((options.server_cpu, options.client_cpu), options.common.repetitions(), progress));
    for case in cases {
        let peers = peers_of(options.link, case.latency, case.alike);
        let run = |peer: &Peer| bench.measure(*peer, case.length, case.window, case.alike);
        let runs = turns.play(case.name, &peers, |peer| peer.name(), run)?;
        rows.extend(case_rows(options, case, &peers, &runs, &mut environment.warnings));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: format!("Echo over {}: driver, stack, kernel", options.link.name()),
        command: options.common.repeat(&format!("qanat bench echo --link {}", options.link.name())),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(options.link),
    })
}

fn check(options: &EchoBenchOptions) -> Result<(), HarnessError> {
    let processors = cpu::count();
    if options.server_cpu == options.client_cpu || options.server_cpu.max(options.client_cpu) >= processors {
        return Err(HarnessError::Option(format!(
            "echo on processor {} and load on {}: this machine has {processors}; two different ones are needed",
            options.server_cpu, options.client_cpu
        )));
    }
    Ok(())
}

fn environment(options: &EchoBenchOptions) -> Environment {
    let mut environment = Environment::here();
    environment.peers = vec!["qanat echo --raw, native, --copies: polling".to_owned()];
    match options.link {
        BenchLink::Veth => {
            let linux = "Linux: UDP socket, a datagram a call or recvmmsg/sendmmsg of 64; io_uring: multishot receive, ring \
                         of buffers";
            environment.peers.push(linux.to_owned());
            environment.peers.push(dpdk("net_af_xdp"));
            environment.link = format!("veth, MTU {MTU}, qdisc noqueue, AF_XDP copy mode at the load's and our ends");
        }
        BenchLink::Memif => {
            environment.peers.push(dpdk("net_memif"));
            environment.link =
                "memif, rings of 1,024 descriptors; the echo is master (copies in and out), the load slave".to_owned();
        }
        BenchLink::Pair => environment.link = "pair: two threads of one process, a copy each way".to_owned(),
    }
    environment.pinning =
        format!("echo on processor {}, load on {}: frames from a template", options.server_cpu, options.client_cpu);
    environment
}

fn dpdk(driver: &str) -> String {
    match peers::has_testpmd() {
        true => format!("DPDK testpmd, {driver}, 5tswap"),
        false => "no dpdk-testpmd here (apt-get install dpdk-dev): DPDK is left out".to_owned(),
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("packets_per_s", "packets/s", 0).with_spread(),
        Column::new("ratio", "× raw", 2),
        Column::new("gbit_per_s", "Gbit/s", 2),
        Column::new("server_us", "µs/packet, echo's core", 2),
        Column::new("both_us", "both cores", 2),
        Column::new("p50_us", "p50 µs", 1),
        Column::new("p99_us", "p99 µs", 1),
        Column::new("lost", "lost", 0),
    ]
}

fn case_rows(
    options: &EchoBenchOptions,
    case: &Case,
    peers: &[Peer],
    runs: &[Vec<Run<EchoReport>>],
    warnings: &mut Vec<String>,
) -> Vec<Row> {
    let placement = common_placement(runs);
    if placement.is_none() {
        warnings.push(format!("{}: the processors moved between peers' runs; their ratios mix placements", case.name));
    }
    let per_packet = |report: &EchoReport, cpus: &[usize]| {
        let busy: f64 = cpus.iter().filter_map(|cpu| report.trips.cpus.get(*cpu)).map(|times| times.busy_s()).sum();
        (report.trips.received > 0).then(|| busy * 1e6 / report.trips.received as f64)
    };
    let raw = runs.first().and_then(|runs| summarize(runs, placement, |report| Some(report.packets_per_s)));
    let both = [options.server_cpu, options.client_cpu];
    peers
        .iter()
        .zip(runs)
        .map(|(peer, runs)| {
            let rate = summarize(runs, placement, |report| Some(report.packets_per_s));
            let ratio = raw.filter(|raw| raw.median > 0.0).zip(rate).map(|(raw, rate)| Summary {
                median: rate.median / raw.median,
                min: rate.min / raw.median,
                max: rate.max / raw.median,
                count: rate.count,
            });
            Row {
                case: case.name.to_owned(),
                peer: peer.name().to_owned(),
                values: vec![
                    rate,
                    ratio,
                    summarize(runs, placement, |report| Some(report.gbit_per_s)),
                    summarize(runs, placement, |report| per_packet(report, &both[..1])),
                    summarize(runs, placement, |report| per_packet(report, &both)),
                    summarize(runs, placement, |report| Some(report.trips.round_trip_us.p50)),
                    summarize(runs, placement, |report| Some(report.trips.round_trip_us.p99)),
                    summarize(runs, placement, |report| Some(report.trips.lost as f64)),
                ],
                note: placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string()),
            }
        })
        .collect()
}

fn remarks(link: BenchLink) -> Vec<String> {
    let mut remarks = vec![
        "The load polls, and so do all echoes that don't say they sleep: their processors are always busy, and µs per \
         packet is what a packet takes only where the echo is the limit."
            .to_owned(),
        "The last column says how far apart the processors were (near ≈ 55 ns, far ≈ 360 ns); a run during which that \
         changed was made again."
            .to_owned(),
    ];
    if link == BenchLink::Veth {
        remarks.push(
            "veth runs receive processing on the sender's processor: Linux' receive work is done by the load's core, \
             and ours by Linux' echo's; compare both cores."
                .to_owned(),
        );
    }
    remarks
}
