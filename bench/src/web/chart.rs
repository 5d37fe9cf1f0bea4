//! The web table as bars.

use super::servers::Peer;
use crate::harness::bars;
use crate::harness::svg::{Chart, Panel, short};
use crate::harness::table::Table;

/// The peers drawn, in the order of their colours.
const SERIES: [Peer; 4] = [Peer::NGINX_NO_OFFLOADS, Peer::NGINX, Peer::QANAT_PER_SEND, Peer::QANAT_PRE];

/// Throughput relative to nginx's (its value above each bar) by size, keep-alive and with a new connection each; then
/// the CPU time of both processors.
pub fn chart(table: &Table) -> Chart {
    let panel = |title: &str, how: &str, column: &str, relative: bool| {
        let cases: Vec<&str> = table.cases().into_iter().filter(|case| case.ends_with(how)).collect();
        let value = |case: &str, peer: Peer| table.value(case, peer.name(), column).map(|summary| summary.median);
        let bar = |case: &str, peer: Peer| {
            let value = value(case, peer)?;
            let base = if relative { value_of(table, case, column)? } else { 1.0 };
            Some((value / base, short(value)))
        };
        Panel {
            title: title.to_owned(),
            groups: cases.iter().map(|case| case.trim_end_matches(how).trim_end_matches(", ").to_owned()).collect(),
            bars: SERIES.iter().map(|peer| cases.iter().map(|case| bar(case, *peer)).collect()).collect(),
            stacked: false,
        }
    };
    let (kept, new) = ("keep-alive", "new connection each");
    let panels = [
        panel("Throughput relative to nginx, keep-alive (numbers: requests/s)", kept, "requests_per_s", true),
        panel(
            "Throughput relative to nginx, new connection per request (numbers: requests/s)",
            new,
            "requests_per_s",
            true,
        ),
        panel("CPU time of both cores per request relative to nginx, keep-alive (numbers: µs)", kept, "both_us", true),
        panel(
            "CPU time of both cores per request relative to nginx, new connection (numbers: µs)",
            new,
            "both_us",
            true,
        ),
    ];
    let panels = panels.into_iter().filter(|panel| !panel.groups.is_empty()).collect();
    bars::drawing(table, SERIES.iter().map(|peer| peer.name().to_owned()).collect(), panels)
}

/// nginx's value: what bars are relative to.
fn value_of(table: &Table, case: &str, column: &str) -> Option<f64> {
    table.value(case, Peer::NGINX.name(), column).map(|summary| summary.median).filter(|value| *value > 0.0)
}
