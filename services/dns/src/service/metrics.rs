//! Figures in Prometheus' text format (exposition format 0.0.4).

use super::figures::Figures;
use crate::counted::{RCODES, TYPES};
use crate::image::{Catalog, ZoneImage};
use crate::name::Name;
use crate::transfer::{Standing, TransferFigures};
use qanat::control::prometheus::Exposition;
use qanat::control::prometheus::Kind::{Counter, Gauge};
use std::collections::BTreeMap;

/// What there is to tell.
pub struct Report<'a> {
    /// The service's figures.
    pub figures: &'a Figures,
    /// Figures of transfers.
    pub transfers: &'a TransferFigures,
    /// What is served.
    pub catalog: &'a Catalog,
    /// How zones from elsewhere stand.
    pub standings: &'a BTreeMap<Name, Standing>,
    /// Zones whose file cannot be used: an older version of them may be served.
    pub broken: &'a [Name],
}

/// The figures as text.
pub fn text(report: &Report<'_>) -> String {
    let Report { figures, transfers, catalog, standings, broken } = report;
    let mut text = Exposition::default();
    write_answers(&mut text, figures);
    write_connections(&mut text, figures);
    write_zones(&mut text, catalog, broken);
    write_transfers(&mut text, transfers);
    write_standings(&mut text, standings);
    text.into_text()
}

fn write_answers(text: &mut Exposition, figures: &Figures) {
    let types = TYPES.iter().map(|(_, name)| *name).zip(figures.types);
    text.family("qanat_dns_queries_total", Counter, "Queries answered, by type.").by("type", types);
    let rcodes = RCODES.iter().map(|(_, name)| *name).zip(figures.rcodes);
    text.family("qanat_dns_answers_total", Counter, "Answers, by response code.").by("rcode", rcodes);
    let bytes = [("in", figures.request_bytes), ("out", figures.answer_bytes)];
    text.family("qanat_dns_bytes_total", Counter, "Bytes of messages.").by("direction", bytes);
    let fates = [
        ("silence", figures.silent),
        ("limited", figures.limited),
        ("not_sent", figures.not_sent),
        ("log", figures.log_drops),
    ];
    text.family("qanat_dns_dropped_total", Counter, "Not answered, by cause; log: lines lost.").by("cause", fates);
    text.family("qanat_dns_truncated_total", Counter, "Answers with TC set.").value(figures.truncated);
    text.family("qanat_dns_slipped_total", Counter, "Of those, by rate limit.").value(figures.slipped);
    text.family("qanat_dns_cookies_valid_total", Counter, "Queries with a valid cookie.").value(figures.cookies_valid);
}

fn write_connections(text: &mut Exposition, figures: &Figures) {
    let connections = [
        ("accepted", figures.connections),
        ("refused", figures.connections_refused.saturating_sub(figures.connections_refused_peer)),
        ("timed_out", figures.connections_timed_out),
        ("too_slow", figures.connections_too_slow),
        ("refused_peer", figures.connections_refused_peer),
        ("broken", figures.connections_broken),
    ];
    let help = "TCP connections, by what became of them.";
    text.family("qanat_dns_connections_total", Counter, help).by("fate", connections);
    text.family("qanat_dns_connections_open", Gauge, "TCP connections open.").value(figures.connections_open);
}

fn write_zones(text: &mut Exposition, catalog: &Catalog, broken: &[Name]) {
    let zones = |value: fn(&ZoneImage) -> u64| catalog.zones().iter().map(move |zone| (zone.apex(), value(zone)));
    let serials = zones(|zone| u64::from(zone.serial()));
    text.family("qanat_dns_zone_serial", Gauge, "Serial number.").by("zone", serials);
    text.family("qanat_dns_zone_names", Gauge, "Names.").by("zone", zones(|zone| zone.name_count() as u64));
    let bytes = zones(|zone| zone.memory_bytes() as u64);
    text.family("qanat_dns_zone_bytes", Gauge, "Memory of the image.").by("zone", bytes);
    let missing = catalog.missing().map(|apex| (apex, 1));
    text.family("qanat_dns_zone_missing", Gauge, "Zones that are answered with SERVFAIL.").by("zone", missing);
    let broken = broken.iter().map(|apex| (apex, 1));
    text.family("qanat_dns_zone_broken", Gauge, "Zones whose file cannot be used.").by("zone", broken);
}

fn write_transfers(text: &mut Exposition, transfers: &TransferFigures) {
    let ways = [
        ("out", "whole", transfers.whole_out),
        ("out", "differences", transfers.steps_out),
        ("out", "current", transfers.current_out),
        ("out", "refused", transfers.refused),
        ("out", "bad_signature", transfers.bad_signatures),
        ("in", "received", transfers.received),
        ("in", "unusable", transfers.unusable),
        ("in", "failed", transfers.failed),
    ];
    let mut family = text.family("qanat_dns_transfers_total", Counter, "Transfers, by what became of them.");
    for (way, fate, count) in ways {
        family.labelled(&[("direction", &way), ("result", &fate)], count);
    }
    let notified = [("taken", transfers.notified), ("refused", transfers.notify_refused)];
    text.family("qanat_dns_notify_total", Counter, "NOTIFY messages received.").by("result", notified);
    text.family("qanat_dns_expired_total", Counter, "Zones that expired.").value(transfers.expired);
}

fn write_standings(text: &mut Exposition, standings: &BTreeMap<Name, Standing>) {
    let of = |value: fn(&Standing) -> Option<u64>| {
        standings.iter().filter_map(move |(apex, standing)| Some((apex, value(standing)?)))
    };
    let help = "When a primary last spoke of the zone, since 1970.";
    text.family("qanat_dns_zone_checked_seconds", Gauge, help).by("zone", of(|standing| standing.checked_s));
    let help = "When the zone expires, since 1970.";
    text.family("qanat_dns_zone_expires_seconds", Gauge, help).by("zone", of(|standing| standing.expires_s));
    let received = of(|standing| Some(standing.received));
    text.family("qanat_dns_zone_transfers_total", Counter, "Versions received.").by("zone", received);
    let failures = of(|standing| Some(standing.failures));
    text.family("qanat_dns_zone_transfer_failures_total", Counter, "Transfers that failed.").by("zone", failures);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_heads_and_values() {
        let mut figures = Figures::default();
        figures.types[0] = 7;
        let apex = Name::absolute("b.test").unwrap();
        let dotted = Name::absolute(r#"a\.\"b.test"#).unwrap();
        let standing = Standing { expires_s: Some(9), failures: 3, ..Standing::default() };
        let report = Report {
            figures: &figures,
            transfers: &TransferFigures { failed: 5, expired: 2, ..TransferFigures::default() },
            catalog: &Catalog::default().with_missing([&apex, &dotted]),
            standings: &BTreeMap::from([(apex.clone(), standing)]),
            broken: std::slice::from_ref(&apex),
        };
        let text = text(&report);
        for line in [
            "qanat_dns_transfers_total{direction=\"in\",result=\"failed\"} 5",
            "qanat_dns_expired_total 2",
            "qanat_dns_zone_missing{zone=\"b.test.\"} 1",
            // The name itself is shown with backslashes, and Prometheus wants each of them quoted.
            r#"qanat_dns_zone_missing{zone="a\\.\\\"b.test."} 1"#,
            "qanat_dns_zone_broken{zone=\"b.test.\"} 1",
            "qanat_dns_zone_expires_seconds{zone=\"b.test.\"} 9",
            "qanat_dns_zone_transfer_failures_total{zone=\"b.test.\"} 3",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
        assert!(
            text.contains("# TYPE qanat_dns_queries_total counter\nqanat_dns_queries_total{type=\"A\"} 7\n"),
            "{text}"
        );
        assert!(text.contains("qanat_dns_answers_total{rcode=\"NXDOMAIN\"} 0\n"));
        assert!(text.ends_with('\n'));
    }
}
