//! `qanat bench model`: this machine's costs, what the model of “The Case Against User-Level Networking” (section V) makes of them, and what
//! is measured then. An application reads records, as it is and with a null call for each of its own.
//!
//! ```text
//!   small benchmarks ─► G, g, o(b), calls, δ ─► prediction ─┐
//!   the application reads records of each size ─────────────┴─► error
//! ```
//! * `prediction`: the model
//! * `records`: the application, and the other host
//! * `sample`: one run, and the small benchmarks

mod prediction;
mod records;
mod sample;

use crate::disk::ground::Ground;
use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars;
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::size::size;
use crate::harness::statistics::Summary;
use crate::harness::svg::{Chart, Panel, short};
use crate::harness::table::{Column, Row, Table};
use crate::harness::{HarnessError, cpu};
use crate::split::aside;
use prediction::{Cost, Model};
use sample::{Link, Reading, Sample, sample, step_ns};
use std::time::Duration;

/// Bytes under way where the processor is to be full: both hosts have something to do while what they said is on its way.
const UNDER_WAY: usize = 2 << 20;
/// Records under way, at least and at most. A disk has the least.
const DEPTHS: (usize, usize) = (32, 1_024);
/// What an application that has something to do needs for a record, ns.
const WORK_NS: f64 = 5_000.0;
const AS_IT_IS: &str = "user level";
const CROSSES: &str = "with crossing";
const PEERS: [(&str, bool); 2] = [(AS_IT_IS, false), (CROSSES, true)];
/// For which nothing is measured: other links, with this machine's processor and the same application.
const LINKS_GBIT: [f64; 3] = [10.0, 100.0, 400.0];
const DEVICE_PER_S: f64 = 1e6;

const COLUMNS: [(&str, &str, usize); 9] = [
    ("records_per_s", "records/s", 0),
    ("predicted_per_s", "predicted", 0),
    ("error_percent", "error %", 1),
    ("degradation_percent", "PD %", 1),
    ("predicted_degradation_percent", "predicted PD %", 1),
    ("host_ns", "ns/record", 0),
    ("predicted_host_ns", "predicted ns", 0),
    ("gap_ns", "gap ns", 0),
    ("calls", "calls/record", 2),
];

const LINKS: [Link; 3] = [Link::Memif, Link::Veth, Link::Disk];

/// One point of the comparison.
#[derive(Clone, Copy, Debug)]
struct Case {
    link: Link,
    bytes: usize,
    /// The application works with each record.
    works: bool,
    /// It reads one record after the other, and sleeps.
    sleeps: bool,
}

impl Link {
    fn name(self) -> &'static str {
        match self {
            Link::Memif => "memif",
            Link::Veth => "veth",
            Link::Disk => "disk",
        }
    }

    /// Sizes that the model is fed with; those between are predicted.
    fn ends(self) -> (usize, usize) {
        match self {
            Link::Memif | Link::Veth => (512, 64 << 10),
            Link::Disk => (4 << 10, 64 << 10),
        }
    }
}

impl Case {
    fn name(&self) -> String {
        let how = match (self.works, self.sleeps) {
            (true, _) => ", with 5 µs of work",
            (_, true) => ", one at a time, sleeping",
            _ => "",
        };
        format!("{}, {}{how}", self.link.name(), size(self.bytes))
    }

    fn reading(&self, crosses: bool, step_ns: f64) -> Reading {
        Reading {
            link: self.link,
            bytes: self.bytes,
            depth: match (self.sleeps, self.link) {
                (true, _) => 1,
                (false, Link::Disk) => DEPTHS.0 as u32,
                (false, _) => (UNDER_WAY / self.bytes).clamp(DEPTHS.0, DEPTHS.1) as u32,
            },
            work_steps: if self.works { (WORK_NS / step_ns) as u64 } else { 0 },
            crosses,
            sleeps: self.sleeps,
        }
    }

    fn application_ns(&self) -> f64 {
        if self.works { WORK_NS } else { 0.0 }
    }
}

fn cases(options: &BenchOptions, is_root: bool) -> Result<Vec<Case>, HarnessError> {
    let mut all = Vec::new();
    for link in LINKS {
        if link == Link::Veth && !is_root {
            continue;
        }
        let (small, large) = link.ends();
        let sizes = (9..=16).map(|power| 1_usize << power).filter(|bytes| (small..=large).contains(bytes));
        let is_meant = |bytes: &usize| !options.quick || [small, 4 << 10, large].contains(bytes);
        let case = |bytes| Case { link, bytes, works: false, sleeps: false };
        all.extend(sizes.filter(is_meant).map(case));
        all.push(Case { works: true, ..case(4 << 10) });
        all.push(Case { sleeps: true, ..case(4 << 10) });
    }
    options.chosen(all, Case::name)
}

/// What the small benchmarks say of one link.
struct Fed {
    link: Link,
    model: Model,
}

/// Everything that is read over one link, in turn, so that what drifts drifts over prediction and measurement alike.
struct Plan<'a> {
    link: Link,
    cases: Vec<&'a Case>,
}

/// The small benchmarks: the ends of a link's sizes, at best and at worst.
const FEEDS: usize = 4;

impl<'a> Plan<'a> {
    fn of(link: Link, cases: &'a [Case]) -> Plan<'a> {
        Plan { link, cases: cases.iter().filter(|case| case.link == link).collect() }
    }

    /// The small benchmarks, then each case as it is and with crossing.
    fn readings(&self, step_ns: f64) -> Vec<(String, Reading)> {
        let (small, large) = self.link.ends();
        let feed = |(bytes, sleeps): (usize, bool)| {
            let case = Case { link: self.link, bytes, works: false, sleeps };
            (format!("costs of {}", case.name()), case.reading(false, step_ns))
        };
        let ends = [(small, false), (large, false), (small, true), (large, true)].map(feed);
        let read = |case: &&Case| {
            PEERS.map(|(peer, crosses)| (format!("{}, {peer}", case.name()), case.reading(crosses, step_ns)))
        };
        ends.into_iter().chain(self.cases.iter().flat_map(read)).collect()
    }

    fn feed(&self, runs: &[Vec<Run<Sample>>]) -> Fed {
        let placement = common_placement(runs);
        let median = |number: usize, value: fn(&Sample) -> f64| {
            let runs = runs.get(number).map(Vec::as_slice).unwrap_or_default();
            summarize(runs, placement, |sample| Some(value(sample))).map_or(0.0, |summary| summary.median)
        };
        let (small, large) = self.link.ends();
        let through = |(small_number, large_number): (usize, usize), value: fn(&Sample) -> f64| {
            Cost::through((small as f64, median(small_number, value)), (large as f64, median(large_number, value)))
        };
        let calls = runs.iter().flatten().map(|run| run.result.call_ns);
        let model = Model {
            best: through((0, 1), |sample| sample.host_ns),
            worst: through((2, 3), |sample| sample.host_ns),
            gap: through((0, 1), |sample| sample.gap_ns),
            calls: through((0, 1), |sample| sample.calls),
            call_ns: Summary::of(calls).map_or(0.0, |summary| summary.median),
        };
        Fed { link: self.link, model }
    }
}

/// Feeds the model, predicts, and measures.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if cpu::count() < 2 {
        return Err(HarnessError::Option("the two sides need a processor each".to_owned()));
    }
    let cases = cases(options, rustix::process::geteuid().is_root())?;
    let duration = options.duration(Duration::from_millis(500), Duration::from_millis(150));
    let ground = cases.iter().any(|case| case.link == Link::Disk).then(|| Ground::new(options, false, progress));
    let ground = ground.transpose()?;
    let disk = ground.as_ref().map(|ground| ground.path.as_path());
    let mut environment = environment(options, ground.as_ref(), progress);
    let step_ns = aside(|| Ok(step_ns()))?;
    let (mut rows, mut fed, mut turns) = (Vec::new(), Vec::new(), Turns::new((0, 1), options.repetitions(), progress));
    for plan in LINKS.map(|link| Plan::of(link, &cases)).into_iter().filter(|plan| !plan.cases.is_empty()) {
        let run = |(_, reading): &(String, Reading)| aside(|| sample(reading, disk, duration));
        let runs = turns.play(plan.link.name(), &plan.readings(step_ns), |(name, _)| name.clone(), run)?;
        let found = plan.feed(&runs);
        for (case, runs) in plan.cases.iter().zip(runs.get(FEEDS..).unwrap_or_default().chunks(PEERS.len())) {
            rows.extend(case_rows(case, &found.model, runs));
        }
        fed.push(found);
    }
    environment.placement = turns.placement();
    rows.extend(fed.iter().flat_map(elsewhere));
    Ok(Table {
        title: "A model of crossing: predicted from small benchmarks, and measured".to_owned(),
        command: options.repeat("sudo qanat bench model"),
        environment,
        columns: COLUMNS.map(|(name, heading, digits)| Column::new(name, heading, digits)).to_vec(),
        rows,
        remarks: remarks(&fed),
    })
}

fn environment(options: &BenchOptions, ground: Option<&Ground>, progress: &mut dyn FnMut(&str)) -> Environment {
    let mut environment = match ground {
        Some(ground) => ground.environment(options, progress),
        None => Environment::here(),
    };
    let disk = environment.link.clone();
    environment.link = "memif and veth, MTU 1500, our stack at both ends".to_owned();
    if ground.is_some() {
        environment.link += &format!("; {disk}");
    }
    environment.pinning =
        "the application on processor 1, the other host on 0; both poll, but where it says sleeping".to_owned();
    environment
}

fn case_rows(case: &Case, model: &Model, runs: &[Vec<Run<Sample>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let of = |number: usize, value: fn(&Sample) -> f64| {
        let runs = runs.get(number).map(Vec::as_slice).unwrap_or_default();
        summarize(runs, placement, |sample| Some(value(sample)))
    };
    let bytes = case.bytes as f64;
    let application_ns = case.application_ns();
    let row = |(number, (peer, crosses)): (usize, &(&str, bool))| {
        let predicted_ns = match case.sleeps {
            true => model.worst_ns(bytes, *crosses),
            false => model.host_ns(bytes, application_ns, *crosses),
        };
        let predicted = match case.sleeps {
            true => 1e9 / predicted_ns,
            false => model.throughput(bytes, application_ns, *crosses),
        };
        let predicted_degradation = match case.sleeps {
            true => model.crossing_ns(bytes) / model.worst_ns(bytes, true),
            false => model.degradation(bytes, application_ns),
        };
        let measured = of(number, Sample::full_per_s);
        let error = measured.map(|measured| 100.0 * (predicted / measured.median - 1.0));
        let one = |value: Option<f64>| Summary::of(value);
        Row {
            case: case.name(),
            peer: (*peer).to_owned(),
            values: vec![
                measured,
                one(Some(predicted)),
                one(error),
                lost(runs).filter(|_| *crosses),
                one(crosses.then_some(100.0 * predicted_degradation)),
                of(number, |sample| sample.host_ns),
                one(Some(predicted_ns)),
                one(Some(model.gap.of(bytes))),
                of(number, |sample| sample.calls),
            ],
            note: limit(model, (bytes, application_ns, *crosses), case.sleeps).to_owned(),
        }
    };
    PEERS.iter().enumerate().map(row).collect()
}

/// What crossing took of the throughput, of each pair of runs, one after the other, %.
fn lost(runs: &[Vec<Run<Sample>>]) -> Option<Summary> {
    let [as_it_is, crossing] = runs else { return None };
    let part = |(user, own): (&Run<Sample>, &Run<Sample>)| 1.0 - own.result.full_per_s() / user.result.full_per_s();
    Summary::of(as_it_is.iter().zip(crossing).map(|pair| 100.0 * part(pair)))
}

/// What the model takes for the limit.
fn limit(model: &Model, (bytes, application_ns, crosses): (f64, f64, bool), sleeps: bool) -> &'static str {
    match model.gap.of(bytes) > model.host_ns(bytes, application_ns, crosses) {
        _ if sleeps => "best rate of a processor that was full",
        true => "the other side",
        false => "the application's processor",
    }
}

/// What the model says of links and devices that are not here.
fn elsewhere(fed: &Fed) -> Vec<Row> {
    let points: Vec<(String, Model, usize)> = match fed.link {
        Link::Memif => LINKS_GBIT
            .iter()
            .flat_map(|gbit| {
                let point = |bytes| (format!("{gbit} Gbit/s, {}", size(bytes)), fed.model.over(gbit * 1e9), bytes);
                [512, 4 << 10, 64 << 10].map(point)
            })
            .collect(),
        Link::Veth => Vec::new(),
        Link::Disk => {
            let point = |bytes| {
                (
                    format!("NVMe of a million requests a second, {}", size(bytes)),
                    fed.model.over_device(DEVICE_PER_S),
                    bytes,
                )
            };
            vec![point(4 << 10)]
        }
    };
    let row = |case: &str, model: &Model, bytes: usize, (peer, crosses): (&str, bool)| {
        let bytes = bytes as f64;
        Row {
            case: format!("said of {case}"),
            peer: peer.to_owned(),
            values: vec![
                None,
                Summary::of([model.throughput(bytes, 0.0, crosses)]),
                None,
                None,
                Summary::of(crosses.then(|| 100.0 * model.degradation(bytes, 0.0))),
                None,
                Summary::of([model.host_ns(bytes, 0.0, crosses)]),
                Summary::of([model.gap.of(bytes)]),
                Summary::of([model.calls.of(bytes)]),
            ],
            note: limit(model, (bytes, 0.0, crosses), false).to_owned(),
        }
    };
    points.iter().flat_map(|(case, model, bytes)| PEERS.map(|peer| row(case, model, *bytes, peer))).collect()
}

fn remarks(fed: &[Fed]) -> Vec<String> {
    let mut remarks = vec![
        "throughput(b) = min(1 / (g + G·b), 1 / (a + o(b))); PD = δ / (a + o(b)), δ = calls × one null call. All of that is measured by \
         itself, at the smallest and the largest size and without crossing; what is between, and all that crosses, is predicted.\
         "
            .to_owned(),
    ];
    remarks.extend(fed.iter().map(|Fed { link, model }| {
        let Model { gap, best, worst, calls, call_ns } = model;
        format!(
            "{}: o(b) = {:.0} ns + {:.3} ns × b, at worst {:.0} ns + {:.3} ns × b; g + G·b = {:.0} ns + {:.3} ns × b; calls = {:.2} + \
             {:.2} × b / KiB, of {call_ns:.0} ns",
            link.name(),
            best.fixed,
            best.per_byte,
            worst.fixed,
            worst.per_byte,
            gap.fixed,
            gap.per_byte,
            calls.fixed,
            calls.per_byte * 1_024.0
        )
    }));
    remarks.push(
        "gap: of a network, what the other host's processor needs for a record, the link in it; of a disk, the time from one record to the \
         next. sleeping: records/s are those of a processor that was full, for it is not."
            .to_owned(),
    );
    remarks.push(
        "said of: no such link or device is here. The other host is taken to be never late, and the application's host to do what it does \
         over memif, whose frames are copied in; a card that places data itself makes o(b) smaller and crossing a larger part of it."
            .to_owned(),
    );
    remarks
}

/// Prediction beside measurement, with the error of each point, and what crossing takes.
pub fn chart(table: &Table) -> Chart {
    let here: Vec<&str> = table.cases().into_iter().filter(|case| !case.starts_with("said of")).collect();
    let series = PEERS.iter().flat_map(|(peer, _)| [("measured", *peer), ("predicted", *peer)]);
    let series: Vec<(&str, &str)> = series.collect();
    let value = |case: &str, peer: &str, column: &str| table.value(case, peer, column).map(|value| value.median);
    let rates = |link: Link| {
        let cases: Vec<&str> = here.iter().copied().filter(|case| case.starts_with(link.name())).collect();
        // Each beside the application as it is: rates differ too much to be one picture.
        let bar = |case: &str, what: &str, peer: &str| {
            let base = value(case, AS_IT_IS, "records_per_s").filter(|base| *base > 0.0)?;
            match what {
                "measured" => value(case, peer, "records_per_s").map(|rate| (rate / base, short(rate))),
                _ => value(case, peer, "predicted_per_s")
                    .zip(value(case, peer, "error_percent"))
                    .map(|(rate, error)| (rate / base, format!("{} ({error:+.0} %)", short(rate)))),
            }
        };
        Panel {
            title: format!("{}: records a second, × user level measured (predictions with their error)", link.name()),
            groups: cases.iter().map(|case| (*case).to_owned()).collect(),
            bars: series.iter().map(|(what, peer)| cases.iter().map(|case| bar(case, what, peer)).collect()).collect(),
            stacked: false,
        }
    };
    let lost = |title: &str, cases: Vec<&str>| {
        let bar = |case: &str, what: &str, peer: &str| {
            let column = if what == "measured" { "degradation_percent" } else { "predicted_degradation_percent" };
            value(case, peer, column).map(|percent| (percent, format!("{percent:.1}")))
        };
        Panel {
            title: title.to_owned(),
            groups: cases.iter().map(|case| case.trim_start_matches("said of ").to_owned()).collect(),
            bars: series.iter().map(|(what, peer)| cases.iter().map(|case| bar(case, what, peer)).collect()).collect(),
            stacked: false,
        }
    };
    let elsewhere = table.cases().into_iter().filter(|case| case.starts_with("said of")).collect();
    let mut panels: Vec<Panel> = LINKS.map(rates).into_iter().collect();
    panels.push(lost("What crossing takes of the throughput, %", here.clone()));
    panels.push(lost("The same where it can't be measured here, %", elsewhere));
    panels.retain(|panel| panel.bars.iter().flatten().any(Option::is_some));
    bars::drawing(table, series.iter().map(|(what, peer)| format!("{peer}, {what}")).collect(), panels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn sizes_are_measured_on_each_link_and_said_of_others() {
        let options = BenchOptions::new(PathBuf::new());
        let names = |is_root| cases(&options, is_root).unwrap().iter().map(Case::name).collect::<Vec<_>>();
        assert_eq!((names(true).len(), names(false).len()), (8 + 2 + 8 + 2 + 5 + 2, 8 + 2 + 5 + 2));
        assert!(names(true).contains(&"veth, 4 KiB, with 5 µs of work".to_owned()));
        let fed = Fed { link: Link::Memif, model: Model { call_ns: 100.0, ..Model::default() } };
        assert_eq!(elsewhere(&fed).len(), 18);
    }

    #[test]
    fn a_picture_shows_each_error() {
        let model = Model {
            best: Cost { fixed: 1_000.0, per_byte: 0.0 },
            calls: Cost { fixed: 4.0, per_byte: 0.0 },
            call_ns: 25.0,
            ..Model::default()
        };
        let run = |records_per_s| Run {
            result: Sample { records_per_s, ..Sample::default() },
            placement: None,
            round_trip_ns: (0.0, 0.0),
            repeats: 0,
        };
        let case = Case { link: Link::Memif, bytes: 4_096, works: false, sleeps: false };
        let rows = case_rows(&case, &model, &[vec![run(1_000_000.0)], vec![run(1_000_000.0 / 1.125)]]);
        let columns = COLUMNS.map(|(name, heading, digits)| Column::new(name, heading, digits)).to_vec();
        let table = Table { columns, rows, ..Table::default() };
        let value = |peer, column| table.value("memif, 4 KiB", peer, column).unwrap().median;
        assert!((value(CROSSES, "predicted_degradation_percent") - 100.0 / 11.0).abs() < 1e-6);
        assert!((value(CROSSES, "degradation_percent") - 100.0 / 9.0).abs() < 1e-6);
        assert!((value(CROSSES, "error_percent") - 2.2727).abs() < 1e-3);
        let svg = chart(&table).to_svg();
        assert!(svg.contains("909k (+2 %)") && svg.contains("memif, 4 KiB"), "{svg}");
    }
}
