//! `qanat bench breakdown`: where the time of an echoed packet goes (Arrakis' Table 1). Ours by cycle counters in the echo
//! itself, built in by a feature; Linux' by samples of the whole machine, sorted by the functions they fell into.

use super::options::{BenchLink, EchoBenchOptions};
use super::peers::{Bench, Peer};
use super::phases;
use crate::harness::HarnessError;
use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::environment::Environment;
use crate::harness::sampling::{self, Samples};
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use serde::Deserialize;
use std::collections::HashMap;
use std::time::Duration;

const MTU: u32 = 1_500;
/// What to do.
pub const NOT_BUILT: &str = "this program was built without cycle counters: `make bench-breakdown` builds one with them \
                             and makes this table";
/// As the paper's.
const LENGTH: usize = 1_024;
/// The columns between a packet's coming and its going, ns.
pub const PHASES: [(&str, &str); 9] = [
    ("driver_in", "driver in"),
    ("stack_in", "stack in"),
    ("scheduling", "scheduling"),
    ("crossing", "crossing"),
    ("copy_out", "copy out"),
    ("service", "service"),
    ("copy_in", "copy in"),
    ("stack_out", "stack out"),
    ("driver_out", "driver out"),
];

/// One row.
struct Subject {
    name: &'static str,
    peer: Peer,
    window: usize,
}

const fn subject(name: &'static str, peer: Peer, window: usize) -> Subject {
    Subject { name, peer, window }
}

const OVER_VETH: [Subject; 8] = [
    subject("Linux, server running", Peer::LinuxAsleep, 64),
    subject("Linux, server asleep", Peer::LinuxAsleep, 1),
    subject("ours, sockets under qanat run", Peer::Sockets, 64),
    subject("ours, sockets, 64 a call", Peer::SocketsBatch, 64),
    subject("ours, UDP with copies", Peer::Copies, 64),
    subject("ours, native UDP", Peer::Native, 64),
    subject("ours, native UDP, one at a time", Peer::Native, 1),
    subject("ours, raw (driver)", Peer::Raw, 64),
];

const OVER_MEMIF: [Subject; 4] = [
    subject("ours, UDP with copies", Peer::Copies, 64),
    subject("ours, native UDP", Peer::Native, 64),
    subject("ours, native UDP, one at a time", Peer::Native, 1),
    subject("ours, raw (driver)", Peer::Raw, 64),
];

/// Nanoseconds per packet, by phase.
type PerPacket = HashMap<String, f64>;

/// Measures; `progress` is told what is being done. The link in `options` does not matter: both are measured.
///
/// # Errors
/// [`HarnessError::Missing`] without the feature `breakdown`, and without root.
pub fn run(options: &EchoBenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    super::check(options)?;
    if !cfg!(feature = "breakdown") {
        return Err(HarnessError::Missing(NOT_BUILT.to_owned()));
    }
    let all = vec![(BenchLink::Veth, &OVER_VETH[..]), (BenchLink::Memif, &OVER_MEMIF[..])];
    let cases = options.common.chosen(all, |(link, _)| case_name(*link))?;
    let topology = Topology::new(MTU)?;
    let has_perf = sampling::has_perf();
    let mut environment = environment(options, has_perf);
    environment.wait_for_quiet(Duration::from_secs(if options.common.quick { 2 } else { 20 }));
    let (mut rows, mut turns) =
        (Vec::new(), Turns::new((options.server_cpu, options.client_cpu), options.common.repetitions(), progress));
    for (link, subjects) in cases {
        let case = case_name(link);
        let mut own = EchoBenchOptions { link, ..options.clone() };
        own.common.duration = Some(options.duration().max(DURATION_MIN));
        let bench = Bench { options: &own, topology: Some(&topology), keeps_output: true };
        let subjects: Vec<&Subject> =
            subjects.iter().filter(|subject| has_perf || subject.peer != Peer::LinuxAsleep).collect();
        let runs = turns.play(&case, &subjects, |subject| subject.name, |subject| one(&bench, subject))?;
        rows.extend(case_rows(&case, &subjects, &runs));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Where the time of an echoed packet goes".to_owned(),
        command: format!(
            "make bench-breakdown, or: qanat bench breakdown{}",
            if options.common.quick { " --quick" } else { "" }
        ),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

fn case_name(link: BenchLink) -> String {
    format!("{LENGTH} bytes over {}, ns a packet", link.name())
}

fn environment(options: &EchoBenchOptions, has_perf: bool) -> Environment {
    let mut environment = Environment::here();
    environment.peers = vec!["qanat echo, polling, built with cycle counters".to_owned()];
    environment.peers.push(match has_perf {
        true => {
            "Linux: UDP socket behind epoll, recvfrom and sendto; sampled by perf, 10,000 times a second".to_owned()
        }
        false => "no perf here (apt-get install linux-perf): Linux is left out".to_owned(),
    });
    environment.link = format!("veth, MTU {MTU}, AF_XDP copy mode; memif, 1,024 descriptors, the echo its master");
    environment.pinning =
        format!("echo on processor {}, load on {}: frames from a template", options.server_cpu, options.client_cpu);
    environment
}

fn columns() -> Vec<Column> {
    let phases = PHASES.iter().map(|(name, heading)| Column::new(name, heading, 0));
    let mut columns: Vec<Column> = phases.collect();
    columns.push(Column::new("total", "total", 0).with_spread());
    columns
}

/// Sampling begins when both ends run evenly: shorter runs would be over by then.
const DURATION_MIN: Duration = Duration::from_secs(2);

/// What `qanat echo` says at its end, and the library of `qanat run`, if it is there, in a line of its own.
#[derive(Deserialize)]
struct Stopped {
    echo: Option<qanat_echo::Figures>,
    breakdown: Option<Counted>,
}

#[derive(Deserialize)]
struct Counted {
    phases_ns: PerPacket,
}

fn one(bench: &Bench<'_>, subject: &Subject) -> Result<PerPacket, HarnessError> {
    if subject.peer == Peer::LinuxAsleep {
        let duration = bench.options.duration();
        let namespaces: Vec<_> =
            bench.topology.iter().flat_map(|topology| [topology.server(), topology.client()]).collect();
        let (outcome, samples) =
            sampling::during(duration, &namespaces, || bench.measure(subject.peer, LENGTH, subject.window, false));
        let rate = outcome?.packets_per_s;
        let packet = samples.map(|samples| per_packet(&samples, rate, bench.options))?;
        if packet.is_empty() {
            return Err(HarnessError::Child("perf took no samples of the echo: give it longer, by -d".to_owned()));
        }
        return Ok(packet);
    }
    let (_, echo) = bench.measure_kept(subject.peer, LENGTH, subject.window, false)?;
    let output = echo.stop()?;
    let said = || output.lines().rev().filter_map(|line| serde_json::from_str::<Stopped>(line).ok());
    let (figures, counted) = (said().find_map(|stopped| stopped.echo), said().find_map(|stopped| stopped.breakdown));
    let (Some(figures), Some(counted)) = (figures, counted) else {
        return Err(HarnessError::Child(format!("the echo counted nothing: {output:?}")));
    };
    let packets = figures.echoed.max(1) as f64;
    Ok(counted.phases_ns.into_iter().map(|(name, ns)| (name, ns / packets)).collect())
}

/// Samples to nanoseconds: each stands for the time between two.
fn per_packet(samples: &Samples, packets_per_s: f64, options: &EchoBenchOptions) -> PerPacket {
    let packets = (packets_per_s * samples.duration_s).max(1.0);
    let counts = phases::by_phase(&samples.samples, options.server_cpu, options.client_cpu);
    counts.into_iter().map(|(phase, count)| (phase.to_owned(), count as f64 * samples.period_ns / packets)).collect()
}

fn case_rows(case: &str, subjects: &[&Subject], runs: &[Vec<Run<PerPacket>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let row = |(subject, runs): (&&Subject, &Vec<Run<PerPacket>>)| {
        let mut values: Vec<_> = PHASES
            .iter()
            .map(|(name, _)| summarize(runs, placement, |result: &PerPacket| result.get(*name).copied()))
            .collect();
        values.push(summarize(runs, placement, |result: &PerPacket| Some(result.values().sum())));
        Row {
            case: case.to_owned(),
            peer: subject.name.to_owned(),
            values,
            note: placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string()),
        }
    };
    subjects.iter().zip(runs).map(row).collect()
}

fn remarks() -> Vec<String> {
    [
        "Ours: cycle counters around each phase, only in turns in which something came, their own cost (measured \
         beforehand with empty phases) taken off. 64 at once unless said otherwise: the doorbell is shared by what came \
         together.",
        "Over AF_XDP 'driver out' has the system call and the kernel's way to the other end of the veth in it, the \
         latter's interrupt included; over memif nothing is crossed, and 'driver in' and 'driver out' are the master's \
         two copies.",
        "Linux: samples of both processors that belong to the echo, its receive work in the load's interrupts included \
         and the load's own receive work in the echo's left out, by the innermost function that tells. 'Asleep' has one \
         packet at a time and counts what the processors do, not the time they take to wake up: the table echo-veth has \
         that, in its round trips.",
    ]
    .map(str::to_owned)
    .to_vec()
}
