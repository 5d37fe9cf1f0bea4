//! Our TCP and Linux' over emulated paths, in turn in the same run: goodput, fairness, many downloads.
//!
//! ```text
//!  namespace A: the kernel (10.78.0.1) or our stack (10.78.0.3) ── `qanat delay` ── namespace B: the kernel (10.78.0.2)
//! ```
//! The kernel's side sends with CUBIC. Bytes are counted where they arrive, from the first one on.
//!
//! * `case`: the paths, and what is measured on them
//! * `ends`: the addresses, and how a side fails
//! * `run`: one measurement
//! * `kernel`, `ours`: the two sides

mod case;
mod ends;
mod kernel;
mod ours;
mod run;
mod watch;

use crate::harness::alternate::{PlacementTally, Run, alternate};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::table::{Column, Row, Table};
use crate::harness::{HarnessError, cpu};
use case::{Kind, PathCase};
use run::{Measured, SETTLING};
use std::time::Duration;

/// The bar of goodput, of that of Linux to Linux.
const RATIO_MIN: f64 = 0.95;
/// The bar of each flow's share.
const SHARE_MIN_PERCENT: f64 = 35.0;
/// Measures all paths.
///
/// # Errors
/// No privileges, a refusal of the system, or a connection that never delivers.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let all = [Kind::Goodput, Kind::Downloads, Kind::Fairness];
    let all = all.into_iter().flat_map(|kind| kind.cases().iter().map(move |case| (kind, case)));
    let all = all.filter(|(_, case)| case.is_quick || !options.quick);
    let cases: Vec<(Kind, &PathCase)> = options.chosen(all.collect(), |(kind, case)| kind.name(case))?;
    let mut table = table();
    table.environment.wait_for_quiet(Duration::from_secs(if options.quick { 1 } else { 20 }));
    let mut tally = PlacementTally::default();
    for (kind, case) in cases {
        let peers = kind.peers();
        // Side by side, once with each of the two first: their runs are long.
        let whole = if kind == Kind::Fairness { 2 } else { 3 };
        let repetitions = options.repetitions.unwrap_or(if options.quick { 1 } else { whole }).max(1);
        let quick = Duration::from_secs(if kind == Kind::Fairness { 6 } else { 2 });
        let whole = Duration::from_secs(case.seconds);
        let duration = options.duration(whole, quick);
        let mut probe = || if cpu::count() > 1 { cpu::round_trip_ns(0, 1) } else { Ok(0.0) };
        let mut measure = |peer: usize, repetition: usize| {
            let name = peers.get(peer).copied().unwrap_or_default();
            progress(&format!("{}: {name} ({} of {repetitions})", kind.name(case), repetition + 1));
            run::measure(kind, case, peer, repetition as u64 + 1, duration)
                .map_err(|error| HarnessError::Child(format!("{}, {name}: {error}", kind.name(case))))
        };
        let measured = alternate(peers.len(), repetitions, &mut probe, &mut measure)?;
        tally.add(&measured);
        table.rows.extend(rows(kind, case, &measured));
    }
    table.environment.placement = tally.to_string();
    Ok(table)
}

fn table() -> Table {
    let mut table = Table {
        title: "Linux' and our TCP over emulated paths".to_owned(),
        command: "sudo qanat bench paths".to_owned(),
        environment: Environment::here(),
        columns: vec![
            Column::new("goodput_mbit", "Mbit/s", 1).with_spread(),
            Column::new("ratio", "× Linux → Linux", 2),
            Column::new("share_percent", "its share, %", 0).with_spread(),
        ],
        rows: Vec::new(),
        remarks: vec![
            "Goodput is of all connections together, medians of runs in turn. Loss, lateness and copies are by seed and \
             hold for both directions; each repetition has its own seed, the same for all peers, whichever way their bytes go."
                .to_owned(),
            format!("The bar of goodput is a ratio of at least {RATIO_MIN}; of downloads, 1 for Qanat → Linux."),
            format!(
                "Side by side: one flow each over one bottleneck, begun a second apart, by turns one and the other first; \
                 the share is the named flow's of what both got in the last {:.0} % of the run. The bar is {} to {} %.",
                (1.0 - SETTLING) * 100.0,
                SHARE_MIN_PERCENT,
                100.0 - SHARE_MIN_PERCENT
            ),
            "Both receivers tune their windows themselves, up to 6 MiB.".to_owned(),
        ],
    };
    table.environment.link = "two veth devices (MTU 1500), `qanat delay` between them".to_owned();
    table.environment.peers = vec!["Linux TCP with CUBIC".to_owned(), "Qanat's stack over AF_XDP".to_owned()];
    table.environment.pinning = "none: sender, emulator and receiver share the processors".to_owned();
    table
}

fn rows(kind: Kind, case: &PathCase, measured: &[Vec<Run<Measured>>]) -> Vec<Row> {
    // Of any placement: the path, not the processors, is to be the limit.
    let goodput = |runs: &[Run<Measured>]| Summary::of(runs.iter().map(|run| run.result.goodput));
    let linux = measured.first().and_then(|runs| goodput(runs)).map_or(f64::NAN, |summary| summary.median);
    let row = |(peer, (name, runs)): (usize, (&&str, &Vec<Run<Measured>>))| {
        let goodput = goodput(runs);
        let ratio = goodput.and_then(|summary| Summary::of([summary.median / linux]));
        let share = Summary::of(runs.iter().filter_map(|run| run.result.share_percent));
        let bar = if kind == Kind::Downloads && peer == 1 { 1.0 } else { RATIO_MIN };
        let mut notes = Vec::new();
        if kind != Kind::Fairness && peer > 0 && ratio.is_some_and(|ratio| ratio.median < bar) {
            notes.push("below the bar".to_owned());
        }
        if peer > 0 && share.is_some_and(|share| (share.median - 50.0).abs() > 50.0 - SHARE_MIN_PERCENT) {
            notes.push("unfair".to_owned());
        }
        let troubles: u64 = runs.iter().map(|run| run.result.emulator_lost).sum();
        if troubles > 0 {
            notes.push(format!("the emulator lost {troubles} packets that it should not"));
        }
        let values = vec![goodput, ratio, share];
        Row { case: kind.name(case), peer: (*name).to_owned(), values, note: notes.join("; ") }
    };
    kind.peers().iter().zip(measured).enumerate().map(row).collect()
}
