//! A disk by our driver and by fio's engines, in turn: random reads and overwrites of the same file or device.
//!
//! ```text
//!   linked:  Vsic::submit … wait ── io_uring, registered file and buffers ──────┐
//!   core:    Vsic::submit … wait ── shared memory ── disk core ── its io_uring ─┤
//!   fio:     io_uring (the same options), libaio, psync ────────────────────────┴─ the same file, past the page cache
//! ```

mod core;
mod fio;
pub(crate) mod ground;
pub mod ours;
mod point;
pub mod tenants;

use core::Core;
use ground::Ground;
pub use point::{Outcome, Point};

use crate::harness::HarnessError;
use crate::harness::bars::{self, Quantity};
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use qanat_disk::{DiskOptions, Uring};
use qanat_nic::{Region, SpinPolicy};
use std::fmt;
use std::path::Path;
use std::time::Duration;

const COLUMNS: [(&str, &str, usize); 6] = [
    ("requests_per_s", "requests/s", 0),
    ("ratio", "÷ fio's best", 3),
    ("mb_per_s", "MB/s", 0),
    ("cpu_us", "CPU µs/req", 2),
    ("p50_us", "p50 µs", 1),
    ("p99_us", "p99 µs", 1),
];
const SIZES: [u32; 5] = [512, 4_096, 16_384, 65_536, 131_072];
const DEPTHS: [u32; 4] = [1, 8, 32, 128];

/// The points of a table: reads at every size and depth, overwrites at some; a few of each if it should be quick.
pub fn points(quick: bool) -> Vec<Point> {
    let all = [false, true].into_iter().flat_map(|is_write| {
        SIZES.into_iter().flat_map(move |bytes| DEPTHS.into_iter().map(move |depth| Point { is_write, bytes, depth }))
    });
    all.filter(|point| !quick || ([4_096, 65_536].contains(&point.bytes) && [1, 32].contains(&point.depth))).collect()
}

/// Measures what `peer` can do; `program` has the disk core.
fn measure(
    program: &Path,
    ground: &Ground,
    peer: Peer,
    point: Point,
    duration: Duration,
) -> Result<Outcome, HarnessError> {
    match peer {
        Peer::Linked | Peer::LinkedPolling => {}
        Peer::Core | Peer::CorePolling => {
            let spin = if peer == Peer::CorePolling { "always" } else { "adaptive" };
            let mut core = Core::start(program, &ground.path, spin)?;
            let (mut area, pool) = core.area(1, (point.bytes, point.depth))?.open()?;
            return ours::measure(&mut area, &pool, point, duration, peer.spin());
        }
        Peer::FioUring | Peer::FioAio | Peer::FioPsync => {
            return fio::measure(peer.engine(), &ground.path, ground.bytes, point, duration);
        }
    }
    let refused = |error: &dyn fmt::Display| HarnessError::Option(error.to_string());
    let region = Region::new(point.depth.next_power_of_two(), point.bytes.next_power_of_two().max(4_096));
    let region = region.map_err(|error| HarnessError::system("map the buffers", error))?;
    let pool = region.pool(point.depth).ok_or_else(|| refused(&"no buffers"))?;
    let options = DiskOptions { depth: point.depth, ..DiskOptions::default() };
    let mut disk = Uring::open(&ground.path, options, &[region]).map_err(|error| refused(&error))?;
    ours::measure(&mut disk, &pool, point, duration, peer.spin())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    Linked,
    LinkedPolling,
    Core,
    CorePolling,
    FioUring,
    FioAio,
    FioPsync,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Linked => "qanat",
            Peer::LinkedPolling => "qanat, polling",
            Peer::Core => "qanat, disk core",
            Peer::CorePolling => "qanat, disk core, polling",
            Peer::FioUring => "fio io_uring",
            Peer::FioAio => "fio libaio",
            Peer::FioPsync => "fio psync",
        }
    }

    /// When it sleeps. Two processes that wake each other for every request would measure the kernel's wake-ups: there both look for a
    /// while first, as services do by default.
    fn spin(self) -> SpinPolicy {
        match self {
            Peer::LinkedPolling | Peer::CorePolling => SpinPolicy::Always,
            Peer::Core => SpinPolicy::Adaptive,
            Peer::Linked | Peer::FioUring | Peer::FioAio | Peer::FioPsync => SpinPolicy::Never,
        }
    }

    fn engine(self) -> &'static [&'static str] {
        match self {
            Peer::Linked | Peer::LinkedPolling | Peer::Core | Peer::CorePolling => &[],
            Peer::FioUring => &["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1", "--nonvectored=1"],
            Peer::FioAio => &["--ioengine=libaio"],
            Peer::FioPsync => &["--ioengine=psync"],
        }
    }
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let points = options.chosen(points(options.quick), Point::to_string)?;
    fio::look()?;
    let ground = Ground::new(options, points.iter().any(|point| point.is_write), progress)?;
    let mut environment = ground.environment(options, progress);
    environment.peers = vec![fio::version()?];
    let duration = options.duration(Duration::from_secs(3), Duration::from_secs(1));
    let mut rows = Vec::new();
    for point in points {
        let mut peers = vec![Peer::FioUring, Peer::FioAio];
        // One request at a time is all that it can do.
        peers.extend((point.depth == 1).then_some(Peer::FioPsync));
        peers.extend([Peer::Linked, Peer::Core]);
        // Where a wake-up is told apart from the rest.
        peers.extend((point.depth == 1).then_some([Peer::LinkedPolling, Peer::CorePolling]).into_iter().flatten());
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); peers.len()];
        for _ in 0..options.repetitions() {
            for (peer, outcomes) in peers.iter().zip(&mut outcomes) {
                progress(&format!("{point}: {}", peer.name()));
                outcomes.push(measure(&options.program, &ground, *peer, point, duration)?);
            }
        }
        rows.extend(point_rows(point, &peers, &outcomes));
    }
    Ok(Table {
        title: "random requests to a disk: qanat's driver and fio's engines".to_owned(),
        command: options.repeat("sudo qanat bench disk"),
        environment,
        columns: Column::with_spreads(&COLUMNS),
        rows,
        remarks: vec![
            "÷ fio's best: of each round, to the engine of most requests in it; median".to_owned(),
            "CPU µs/req: busy time of all processors, interrupts and kernel threads included; fio's has its start and its report in it, \
             which weighs less in longer runs (--duration)"
                .to_owned(),
            "our buffers are in large pages where the kernel has them; fio's are not".to_owned(),
            "fio and qanat sleep until something completes. The disk core, a process of its own, and its application look for up to 200 µs \
             before they do, as services do by default. Those that poll never sleep"
                .to_owned(),
        ],
    })
}

fn point_rows(point: Point, peers: &[Peer], outcomes: &[Vec<Outcome>]) -> Vec<Row> {
    let rounds = outcomes.first().map_or(0, Vec::len);
    let best: Vec<f64> = (0..rounds)
        .map(|round| {
            let theirs = peers.iter().zip(outcomes).filter(|(peer, _)| !peer.engine().is_empty());
            theirs.filter_map(|(_, outcomes)| Some(outcomes.get(round)?.requests_per_s)).fold(0.0, f64::max)
        })
        .collect();
    let row = |(peer, outcomes): (&Peer, &Vec<Outcome>)| {
        let of = |value: fn(&Outcome) -> f64| Summary::of(outcomes.iter().map(value));
        let bytes = f64::from(point.bytes);
        Row {
            case: point.to_string(),
            peer: peer.name().to_owned(),
            values: vec![
                of(|outcome| outcome.requests_per_s),
                Summary::of(outcomes.iter().zip(&best).map(|(outcome, best)| outcome.requests_per_s / best)),
                Summary::of(outcomes.iter().map(|outcome| outcome.requests_per_s * bytes / 1e6)),
                of(|outcome| outcome.cpu_us),
                of(|outcome| outcome.p50_us),
                of(|outcome| outcome.p99_us),
            ],
            note: String::new(),
        }
    };
    peers.iter().zip(outcomes).map(row).collect()
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        // As in the figure of the thesis: its driver, aio and pread, one request after the other.
        Quantity {
            title: "Random reads one after the other, MB/s",
            column: "mb_per_s",
            cases: "random reads*, depth 1",
        },
        Quantity {
            title: "Random overwrites one after the other, MB/s",
            column: "mb_per_s",
            cases: "random overwrites*, depth 1",
        },
        Quantity {
            title: "Processor time of one read after the other, µs",
            column: "cpu_us",
            cases: "random reads*, depth 1",
        },
        Quantity { title: "Requests a second, 4 KiB", column: "requests_per_s", cases: ", 4 KiB" },
        Quantity { title: "Bytes a second, 128 KiB, MB/s", column: "mb_per_s", cases: "128 KiB" },
        Quantity { title: "Processor time a request, µs", column: "cpu_us", cases: ", 4 KiB" },
    ];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_named_and_a_quick_table_has_some_of_them() {
        assert_eq!((points(false).len(), points(true).len()), (40, 8));
        assert_eq!(points(true)[0].to_string(), "random reads, 4 KiB, depth 1");
        assert_eq!(points(false)[20].to_string(), "random overwrites, 512 B, depth 1");
        assert!(points(true).iter().all(|point| points(false).contains(point)));
    }

    #[test]
    fn ratios_are_to_the_best_of_the_same_round() {
        let point = Point { is_write: false, bytes: 512, depth: 1 };
        let of =
            |rates: [f64; 2]| rates.map(|requests_per_s| Outcome { requests_per_s, ..Outcome::default() }).to_vec();
        let rows = point_rows(
            point,
            &[Peer::FioUring, Peer::FioAio, Peer::Linked],
            &[of([10.0, 8.0]), of([5.0, 20.0]), of([11.0, 10.0])],
        );
        let ratio = rows[2].values[1].unwrap();
        assert_eq!((ratio.min, ratio.max), (0.5, 1.1));
    }
}
