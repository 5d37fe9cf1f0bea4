//! What the fence around virtual cards costs, and what it is good for: the gate's time for a packet with one filter and
//! with 1,024, and the latency of a neighbour while another card floods it, policed and not.
//!
//! * `control`: a daemon on a thread of its own
//! * `cost`: the gate's time for a packet
//! * `error`: why it can't be measured
//! * `frames`: the datagrams
//! * `neighbour`: latency beside a flood

pub(crate) mod control;
mod cost;
mod error;
mod frames;
mod neighbour;

use crate::harness::HarnessError;
use crate::harness::alternate::{PlacementTally, Run, alternate};
use crate::harness::bars::{self, Quantity};
use crate::harness::cpu::{self, Placement};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use cost::gate_costs;
use error::FenceError;
use neighbour::{Flood, Found, Load, Stage};
use qanat_nic::link::Namespace;
use std::time::Duration;

const COST: &str = "the gate, for a packet";
const NEIGHBOUR: &str = "a neighbour at half load";
const PEAK: &str = "a neighbour at half of its peak";
/// Rounds through all floods in a repetition: many short ones, so that what the host does meets all alike.
const ROUNDS: usize = 2;
const COLUMNS: [(&str, &str, usize); 10] = [
    ("gate_ns", "gate ns", 1),
    ("answers_per_s", "answers/s", 0),
    ("busy_percent", "its processor busy %", 0),
    ("p50_us", "p50 µs", 1),
    ("p90_us", "p90 µs", 1),
    ("p99_us", "p99 µs", 1),
    ("lost_percent", "lost %", 2),
    ("offered_mbit", "flood offers Mbit/s", 1),
    ("passed_mbit", "flood passes Mbit/s", 2),
    ("p99_ratio", "p99 / quiet", 2),
];

/// In [`Found::latency_us`].
const P99: usize = 2;

type Values = [Option<f64>; COLUMNS.len()];

const FLOODS: [(&str, Flood); 6] = [
    ("quiet", Flood::Quiet),
    ("no flood, processor 1 busy", Flood::Busy),
    ("flood, policed to 40 Mbit/s", Flood::Sends { policed: true, gigabit: false }),
    ("1 Gbit/s, policed to 40 Mbit/s", Flood::Sends { policed: true, gigabit: true }),
    ("flood, not policed", Flood::Sends { policed: false, gigabit: false }),
    ("1 Gbit/s, not policed", Flood::Sends { policed: false, gigabit: true }),
];

fn failed(what: &str) -> impl Fn(std::io::Error) -> HarnessError + '_ {
    move |error| HarnessError::system(what, error)
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("the flood and its neighbour need a processor each".to_owned()));
    }
    let cases = options.chosen(vec![COST, NEIGHBOUR, PEAK], |case| (*case).to_owned())?;
    let namespace = Namespace::anonymous().map_err(failed("make a network namespace (it needs root: sudo)"))?;
    let mut environment = Environment::here();
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    environment.link = "cards of the daemon's, in a namespace of their own; MTU 1500".to_owned();
    environment.pinning = "the neighbour, both its ends, on processor 0; the flood on 1".to_owned();
    let repetitions = options.repetitions();
    let duration = options.duration(Duration::from_millis(250), Duration::from_millis(100));
    let mut rows = Vec::new();
    if cases.contains(&COST) {
        progress(COST);
        let runs: Result<Vec<[f64; 2]>, HarnessError> =
            (0..repetitions).map(|_| within(&namespace, gate_costs)).collect();
        let runs = runs?;
        for (number, peer) in ["1 filter", "1,024 filters"].into_iter().enumerate() {
            let mut values = [None; COLUMNS.len()];
            values[0] = Summary::of(runs.iter().filter_map(|costs| costs.get(number).copied()));
            rows.push(Row {
                case: COST.to_owned(),
                peer: peer.to_owned(),
                values: values.to_vec(),
                note: String::new(),
            });
        }
    }
    let mut tally = PlacementTally::default();
    for (case, load) in [(NEIGHBOUR, Load::HalfAlone), (PEAK, Load::HalfPeak)] {
        if cases.contains(&case) {
            let rounds = repetitions * ROUNDS;
            rows.extend(neighbour_rows(&namespace, (case, load), rounds, duration, &mut tally, progress)?);
            environment.placement = tally.to_string();
        }
    }
    Ok(Table {
        title: "The fence around virtual cards: its cost, and what it is good for".to_owned(),
        command: format!("sudo qanat bench fence{}", if options.quick { " --quick" } else { "" }),
        environment,
        columns: Column::with_spreads(&COLUMNS),
        rows,
        remarks: vec![
            "gate ns: the kernel's test run of the program on one TCP frame; of 1,024 filters only the last covers it"
                .to_owned(),
            "neighbour: 64-byte datagrams to a card and back by a schedule; latency from the time a datagram was due. Half \
             load: half as many as it can one after the other. Half of its peak: half as many as it can with 32 always \
             waiting, which go many at a time and cost half: singly, as a schedule sends them, they take nearly all of its \
             processor (its processor busy), and a stall takes long to make good"
                .to_owned(),
            "p99 / quiet: by the run just before or after it, in turn, in which nothing else runs; median of pairs, 2 in a \
             repetition. That of quiet itself is what the method is worth, and that of a busy processor 1, which sends \
             nothing, the machine's: all else that runs on it, and on its host, then takes its time from the neighbour"
                .to_owned(),
            "flood: another card, 1,000-byte frames to the neighbour's server as fast as can be; its rate counts 24 \
             bytes of overhead a frame, and is taken after the burst; 1 Gbit/s: in bursts of 64, asleep between them, so that \
             processor 1 is not busy, and what is left is the fence's"
                .to_owned(),
        ],
    })
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "The gate's time for a packet, ns", column: "gate_ns", cases: "gate" },
        Quantity { title: "A neighbour's latency, 99th percentile, µs", column: "p99_us", cases: "neighbour" },
    ];
    bars::chart(table, &quantities)
}

/// The neighbour's rows: quiet, policed, free, in turn.
fn neighbour_rows(
    namespace: &Namespace,
    (case, load): (&str, Load),
    rounds: usize,
    duration: Duration,
    tally: &mut PlacementTally,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, HarnessError> {
    progress(&format!("{case}: how much it can"));
    let stage = within(namespace, Stage::set_up)?;
    let mut per_s = 0.0;
    let mut probe = || cpu::round_trip_ns(0, 1);
    let mut measure = |peer: usize, round: usize| {
        let (name, flood) = FLOODS.get(peer).copied().unwrap_or(FLOODS[0]);
        if peer == 0 {
            per_s = stage.load(load).map_err(unmeasured)?;
        }
        progress(&format!("{case}: {name}"));
        // A quiet one beside it, after it or before it in turn.
        let is_after = round.is_multiple_of(2);
        let (first, second) = if is_after { (Flood::Quiet, flood) } else { (flood, Flood::Quiet) };
        let run = |flood| stage.run(duration, flood, per_s).map_err(unmeasured);
        // Not counted: the first after both processors were busy, with the probe or a flood, is the worse for it.
        run(Flood::Quiet)?;
        let (first, second) = (run(first)?, run(second)?);
        Ok(if is_after { [second, first] } else { [first, second] })
    };
    let runs = alternate(FLOODS.len(), rounds, &mut probe, &mut measure)?;
    tally.add(&runs);
    let row = |((peer, _), runs): (&(&str, Flood), &Vec<Run<[Found; 2]>>)| {
        let value = |column: usize| {
            Summary::of(runs.iter().filter_map(|run| values(&run.result).get(column).copied().flatten()))
        };
        let far = runs.iter().filter(|run| run.placement == Some(Placement::Far)).count();
        Row {
            case: case.to_owned(),
            peer: (*peer).to_owned(),
            values: (0..COLUMNS.len()).map(value).collect(),
            note: format!("{} runs near, {far} far", runs.len() - far),
        }
    };
    Ok(FLOODS.iter().zip(&runs).map(row).collect())
}

/// By column, of a run and the quiet one beside it.
fn values([found, quiet]: &[Found; 2]) -> Values {
    let [p50, p90, p99] = found.latency_us.map(Some);
    let (offered, passed) = (found.flood_mbit.map(|mbit| mbit[0]), found.flood_mbit.map(|mbit| mbit[1]));
    let (busy, lost) = (Some(found.busy_percent), Some(found.lost_percent));
    let ratio = found.latency_us[P99] / quiet.latency_us[P99];
    [None, Some(found.answers), busy, p50, p90, p99, lost, offered, passed, Some(ratio)]
}

fn within<T: Send>(
    namespace: &Namespace,
    work: impl FnOnce() -> Result<T, FenceError> + Send,
) -> Result<T, HarnessError> {
    let outcome = namespace.within(work).map_err(failed("enter a namespace"))?;
    outcome.map_err(unmeasured)
}

fn unmeasured(error: FenceError) -> HarnessError {
    HarnessError::system("measure the fence", std::io::Error::other(error))
}
