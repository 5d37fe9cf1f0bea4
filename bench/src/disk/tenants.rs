//! A tenant of a disk core beside another that floods the disk: what the first one feels, and what the flood gets.
//!
//! ```text
//!   one request at a time ── area 1 ─┐
//!                                    ├─ disk core ── the file
//!   128 at once, always   ── area 2 ─┘
//! ```

use super::core::{Area, Core};
use super::ground::Ground;
use super::ours;
use super::point::{Outcome, Point};
use crate::harness::HarnessError;
use crate::harness::bars::{self, Quantity};
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use qanat_nic::SpinPolicy;
use std::time::Duration;

const COLUMNS: [(&str, &str, usize); 6] = [
    ("requests_per_s", "requests/s", 0),
    ("p50_us", "p50 µs", 1),
    ("p99_us", "p99 µs", 1),
    ("p99_ratio", "p99 ÷ alone", 2),
    ("flood_per_s", "the flood's requests/s", 0),
    ("flood_ratio", "÷ alone", 2),
];
/// What the tenant asks for that is watched.
const WATCHED: Point = Point { is_write: false, bytes: 4_096, depth: 1 };
/// What the other asks for.
const FLOODS: [Point; 3] = [
    Point { is_write: false, bytes: 4_096, depth: 128 },
    Point { is_write: false, bytes: 131_072, depth: 32 },
    Point { is_write: true, bytes: 4_096, depth: 128 },
];
/// As long the flood is there before the other is measured, and after.
const LEAD: Duration = Duration::from_millis(500);

/// A round: the watched one alone, the flood alone, and both at once.
struct Round {
    alone: Outcome,
    flood_alone: Outcome,
    beside: Outcome,
    flood_beside: Outcome,
}

/// Nobody looks in vain: on a machine with few processors, who does has the others wait.
fn measure(area: Area, point: Point, duration: Duration) -> Result<Outcome, HarnessError> {
    let (mut area, pool) = area.open()?;
    ours::measure(&mut area, &pool, point, duration, SpinPolicy::Never)
}

fn round(options: &BenchOptions, ground: &Ground, flood: Point, duration: Duration) -> Result<Round, HarnessError> {
    let areas = || {
        let mut core = Core::start(&options.program, &ground.path, "adaptive")?;
        let of = |point: Point| (point.bytes, point.depth);
        let watched = core.area(2, of(WATCHED))?;
        let flooding = core.area(2, of(flood))?;
        Ok::<_, HarnessError>((core, watched, flooding))
    };
    let (core, watched, _) = areas()?;
    let alone = measure(watched, WATCHED, duration)?;
    drop(core);
    let (core, _, flooding) = areas()?;
    let flood_alone = measure(flooding, flood, duration)?;
    drop(core);
    let (_core, watched, flooding) = areas()?;
    let (beside, flood_beside) = std::thread::scope(|scope| {
        let flooding = scope.spawn(move || measure(flooding, flood, LEAD + duration + LEAD));
        std::thread::sleep(LEAD);
        let beside = measure(watched, WATCHED, duration);
        let flooding = flooding.join().unwrap_or_else(|_| Err(HarnessError::Child("the flood's thread".to_owned())));
        Ok::<_, HarnessError>((beside?, flooding?))
    })?;
    Ok(Round { alone, flood_alone, beside, flood_beside })
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError`], with what is missing or wrong.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let count = if options.quick { 1 } else { FLOODS.len() };
    let floods = options.chosen(FLOODS.into_iter().take(count).collect(), Point::to_string)?;
    let ground = Ground::new(options, floods.iter().any(|flood| flood.is_write), progress)?;
    let environment = ground.environment(options, progress);
    let duration = options.duration(Duration::from_secs(3), Duration::from_secs(1));
    let mut rows = Vec::new();
    for flood in floods {
        let mut rounds = Vec::new();
        for _ in 0..options.repetitions() {
            progress(&format!("{WATCHED} beside {flood}"));
            rounds.push(round(options, &ground, flood, duration)?);
        }
        rows.extend(flood_rows(flood, &rounds));
    }
    Ok(Table {
        title: "a tenant of a disk core beside another that floods the disk".to_owned(),
        command: options.repeat("sudo qanat bench disk --tenants"),
        environment,
        columns: Column::with_spreads(&COLUMNS),
        rows,
        remarks: vec![
            format!("the tenant that is watched: {WATCHED}, without a pause; neither has a rate limit"),
            "both sleep until something completes; the disk core looks for up to 200 µs first".to_owned(),
        ],
    })
}

fn flood_rows(flood: Point, rounds: &[Round]) -> [Row; 2] {
    let of = |value: &dyn Fn(&Round) -> f64| Summary::of(rounds.iter().map(value));
    let row = |peer: &str, values| Row {
        case: format!("beside {flood}"),
        peer: peer.to_owned(),
        values,
        note: String::new(),
    };
    let watched = |which: fn(&Round) -> &Outcome| {
        let values: [fn(&Outcome) -> f64; 3] =
            [|outcome| outcome.requests_per_s, |outcome| outcome.p50_us, |outcome| outcome.p99_us];
        values.map(|value| of(&|round| value(which(round))))
    };
    let [alone_per_s, alone_p50, alone_p99] = watched(|round| &round.alone);
    let [beside_per_s, beside_p50, beside_p99] = watched(|round| &round.beside);
    let flood_alone = of(&|round| round.flood_alone.requests_per_s);
    let flood_beside = of(&|round| round.flood_beside.requests_per_s);
    let p99_ratio = of(&|round| round.beside.p99_us / round.alone.p99_us);
    let flood_ratio = of(&|round| round.flood_beside.requests_per_s / round.flood_alone.requests_per_s);
    [
        row("one after the other", vec![alone_per_s, alone_p50, alone_p99, None, flood_alone, None]),
        row("both at once", vec![beside_per_s, beside_p50, beside_p99, p99_ratio, flood_beside, flood_ratio]),
    ]
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "p99 of the tenant beside it, µs", column: "p99_us", cases: "" },
        Quantity { title: "Requests a second of the flood", column: "flood_per_s", cases: "" },
    ];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_same_round_alone() {
        let round = |alone, beside, flood_alone, flood_beside| {
            let of = |value: f64| Outcome { p99_us: value, requests_per_s: value, ..Outcome::default() };
            Round { alone: of(alone), beside: of(beside), flood_alone: of(flood_alone), flood_beside: of(flood_beside) }
        };
        let [_, both] = flood_rows(FLOODS[0], &[round(100.0, 150.0, 10.0, 5.0), round(200.0, 200.0, 10.0, 9.0)]);
        let [p99, flood] = [3, 5].map(|index: usize| both.values[index].unwrap());
        assert_eq!((p99.min, p99.max), (1.0, 1.5));
        assert_eq!((flood.min, flood.max), (0.5, 0.9));
    }
}
