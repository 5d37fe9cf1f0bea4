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
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::size::size;
use crate::harness::statistics::Summary;
use crate::harness::svg::{Chart, Panel, short};
use crate::harness::table::{Column, Row, Table};
use crate::harness::{HarnessError, cpu};
use crate::split::aside;
use prediction::{Cost, Model};
use sample::{Link, Reading, Sample, call_ns, sample, step_ns};
use std::path::Path;
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
    for link in [Link::Memif, Link::Veth, Link::Disk] {
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

/// The model of each link that is asked for.
fn feed(
    cases: &[Case],
    (disk, call_ns, duration, repetitions): (Option<&Path>, f64, Duration, usize),
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Fed>, HarnessError> {
    let mut fed: Vec<Fed> = Vec::new();
    for Case { link, .. } in cases {
        if fed.iter().any(|known| known.link == *link) {
            continue;
        }
        let mut end = |bytes: usize, sleeps: bool| {
            progress(&format!("costs of {}, {}", link.name(), size(bytes)));
            let reading = Case { link: *link, bytes, works: false, sleeps }.reading(false, 1.0);
            let runs: Result<Vec<Sample>, _> =
                (0..repetitions).map(|_| aside(|| sample(&reading, disk, duration))).collect();
            let runs = runs?;
            let median = |value: fn(&Sample) -> f64| Summary::of(runs.iter().map(value)).map_or(0.0, |s| s.median);
            Ok::<_, HarnessError>((median(|s| s.host_ns), median(|s| s.gap_ns), median(|s| s.calls)))
        };
        let (small_bytes, large_bytes) = link.ends();
        let (small, large) = (end(small_bytes, false)?, end(large_bytes, false)?);
        let (small_worst, large_worst) = (end(small_bytes, true)?, end(large_bytes, true)?);
        let (few, many) = (small_bytes as f64, large_bytes as f64);
        let model = Model {
            best: Cost::through((few, small.0), (many, large.0)),
            worst: Cost::through((few, small_worst.0), (many, large_worst.0)),
            gap: Cost::through((few, small.1), (many, large.1)),
            calls: Cost::through((few, small.2), (many, large.2)),
            call_ns,
        };
        fed.push(Fed { link: *link, model });
    }
    Ok(fed)
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
    let (call_ns, step_ns) = (aside(|| Ok(call_ns()))?, aside(|| Ok(step_ns()))?);
    let fed = feed(&cases, (disk, call_ns, duration, options.repetitions()), progress)?;
    let (mut rows, mut turns) = (Vec::new(), Turns::new((0, 1), options.repetitions(), progress));
    for case in &cases {
        let run = |(_, crosses): &(&str, bool)| aside(|| sample(&case.reading(*crosses, step_ns), disk, duration));
        let runs = turns.play(case.name(), &PEERS, |(name, _)| *name, run)?;
        if let Some(fed) = fed.iter().find(|fed| fed.link == case.link) {
            rows.extend(case_rows(case, &fed.model, &runs));
        }
    }
    environment.placement = turns.placement();
    rows.extend(fed.iter().flat_map(elsewhere));
    Ok(Table {
        title: "A model of crossing: predicted from small benchmarks, and measured".to_owned(),
        command: options.repeat("sudo qanat bench model"),
        environment,
        columns: COLUMNS.map(|(name, heading, digits)| Column::new(name, heading, digits)).to_vec(),
        rows,
        remarks: remarks(&fed, call_ns),
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
    // One at a time the processor is never full: what counts is what a record takes of it.
    let rate = |number: usize| match case.sleeps {
        true => of(number, |sample| 1e9 / sample.host_ns),
        false => of(number, |sample| sample.records_per_s),
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
        let measured = rate(number);
        let error = measured.map(|measured| 100.0 * (predicted / measured.median - 1.0));
        let degradation =
            measured.zip(rate(0)).filter(|_| *crosses).map(|(own, user)| 100.0 * (1.0 - own.median / user.median));
        let one = |value: Option<f64>| Summary::of(value);
        Row {
            case: case.name(),
            peer: (*peer).to_owned(),
            values: vec![
                measured,
                one(Some(predicted)),
                one(error),
                one(degradation),
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

fn remarks(fed: &[Fed], call_ns: f64) -> Vec<String> {
    let mut remarks = vec![
        "throughput(b) = min(1 / (g + G·b), 1 / (a + o(b))); PD = δ / (a + o(b)), δ = calls × one null call. All of it is measured first, at \
         the smallest and the largest size and without crossing; what is between, and all that crosses, is predicted."
            .to_owned(),
        format!("one null call: {call_ns:.0} ns"),
    ];
    remarks.extend(fed.iter().map(|Fed { link, model }| {
        let Model { gap, best, worst, calls, .. } = model;
        format!(
            "{}: o(b) = {:.0} ns + {:.3} ns × b, at worst {:.0} ns + {:.3} ns × b; g + G·b = {:.0} ns + {:.3} ns × b; calls = {:.2} + \
             {:.2} × b / KiB",
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
    let mut panels: Vec<Panel> = [Link::Memif, Link::Veth, Link::Disk].map(rates).into_iter().collect();
    panels.push(lost("What crossing takes of the throughput, %", here.clone()));
    panels.push(lost("The same where it can't be measured here, %", elsewhere));
    let environment = &table.environment;
    Chart {
        title: table.title.clone(),
        subtitle: format!("{}; {}; {}", environment.processors, environment.kernel, environment.link),
        series: series.iter().map(|(what, peer)| format!("{peer}, {what}")).collect(),
        panels: panels.into_iter().filter(|panel| panel.bars.iter().flatten().any(Option::is_some)).collect(),
        footer: std::iter::once(format!("{} · {} · {}", table.command, environment.commit, environment.date))
            .chain(environment.warnings.iter().map(|warning| format!("Warning: {warning}")))
            .collect(),
    }
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
            result: Sample { records_per_s, host_ns: 1e9 / records_per_s, ..Sample::default() },
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
