//! Figures in Prometheus' text format (exposition format 0.0.4).

use super::figures::Figures;
use crate::counted::{RCODES, TYPES};
use crate::image::Catalog;
use crate::name::Name;
use crate::transfer::{Standing, TransferFigures};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What there is to tell.
pub struct Report<'a> {
    /// Of the service.
    pub figures: &'a Figures,
    /// Of transfers.
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
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        // Writing to a String cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let plain = |value: u64| [(String::new(), value)];
    let labelled = |label: &str, names: &mut dyn Iterator<Item = &'static str>, counts: &[u64]| -> Vec<(String, u64)> {
        names.zip(counts).map(|(name, count)| (format!("{{{label}=\"{name}\"}}"), *count)).collect()
    };
    let types = labelled("type", &mut TYPES.iter().map(|(_, name)| *name), &figures.types);
    family("qanat_dns_queries_total", "counter", "Queries answered, by type.", &types);
    let rcodes = labelled("rcode", &mut RCODES.iter().map(|(_, name)| *name), &figures.rcodes);
    family("qanat_dns_answers_total", "counter", "Answers, by response code.", &rcodes);
    let bytes = [("in", figures.request_bytes), ("out", figures.answer_bytes)];
    let bytes = bytes.map(|(way, count)| (format!("{{direction=\"{way}\"}}"), count));
    family("qanat_dns_bytes_total", "counter", "Bytes of messages.", &bytes);
    let fates = [
        ("silence", figures.silent),
        ("limited", figures.limited),
        ("not_sent", figures.not_sent),
        ("log", figures.log_drops),
    ];
    let fates = fates.map(|(cause, count)| (format!("{{cause=\"{cause}\"}}"), count));
    family("qanat_dns_dropped_total", "counter", "Not answered, by cause; log: lines lost.", &fates);
    family("qanat_dns_truncated_total", "counter", "Answers with TC set.", &plain(figures.truncated));
    family("qanat_dns_slipped_total", "counter", "Of those, by rate limit.", &plain(figures.slipped));
    family("qanat_dns_cookies_valid_total", "counter", "Queries with a valid cookie.", &plain(figures.cookies_valid));
    let connections = [
        ("accepted", figures.connections),
        ("refused", figures.connections_refused.saturating_sub(figures.connections_refused_peer)),
        ("timed_out", figures.connections_timed_out),
        ("too_slow", figures.connections_too_slow),
        ("refused_peer", figures.connections_refused_peer),
        ("broken", figures.connections_broken),
    ];
    let connections = connections.map(|(fate, count)| (format!("{{fate=\"{fate}\"}}"), count));
    family("qanat_dns_connections_total", "counter", "TCP connections, by what became of them.", &connections);
    family("qanat_dns_connections_open", "gauge", "TCP connections open.", &plain(figures.connections_open));
    let zones = |value: fn(&crate::image::ZoneImage) -> u64| -> Vec<(String, u64)> {
        catalog.zones().iter().map(|zone| (format!("{{zone=\"{}\"}}", zone.apex()), value(zone))).collect()
    };
    family("qanat_dns_zone_serial", "gauge", "Serial number.", &zones(|zone| u64::from(zone.serial())));
    family("qanat_dns_zone_names", "gauge", "Names.", &zones(|zone| zone.name_count() as u64));
    family("qanat_dns_zone_bytes", "gauge", "Memory of the image.", &zones(|zone| zone.memory_bytes() as u64));
    let named = |apex: &Name| format!("{{zone=\"{apex}\"}}");
    let missing: Vec<(String, u64)> = catalog.missing().map(|apex| (named(&apex), 1)).collect();
    family("qanat_dns_zone_missing", "gauge", "Zones that are answered with SERVFAIL.", &missing);
    let broken: Vec<(String, u64)> = broken.iter().map(|apex| (named(apex), 1)).collect();
    family("qanat_dns_zone_broken", "gauge", "Zones whose file cannot be used.", &broken);
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
    let ways = ways.map(|(way, fate, count)| (format!("{{direction=\"{way}\",result=\"{fate}\"}}"), count));
    family("qanat_dns_transfers_total", "counter", "Transfers, by what became of them.", &ways);
    let notified = [("taken", transfers.notified), ("refused", transfers.notify_refused)];
    let notified = notified.map(|(fate, count)| (format!("{{result=\"{fate}\"}}"), count));
    family("qanat_dns_notify_total", "counter", "NOTIFY messages received.", &notified);
    family("qanat_dns_expired_total", "counter", "Zones that expired.", &plain(transfers.expired));
    let of = |value: fn(&Standing) -> Option<u64>| -> Vec<(String, u64)> {
        standings.iter().filter_map(|(apex, standing)| Some((named(apex), value(standing)?))).collect()
    };
    let checked = of(|standing| standing.checked_s);
    family("qanat_dns_zone_checked_seconds", "gauge", "When a primary last spoke of the zone, since 1970.", &checked);
    let expires = of(|standing| standing.expires_s);
    family("qanat_dns_zone_expires_seconds", "gauge", "When the zone expires, since 1970.", &expires);
    let received = of(|standing| Some(standing.received));
    family("qanat_dns_zone_transfers_total", "counter", "Versions received.", &received);
    let failures = of(|standing| Some(standing.failures));
    family("qanat_dns_zone_transfer_failures_total", "counter", "Transfers that failed.", &failures);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_heads_and_values() {
        let mut figures = Figures::default();
        figures.types[0] = 7;
        let apex = Name::absolute("b.test").unwrap();
        let standing = Standing { expires_s: Some(9), failures: 3, ..Standing::default() };
        let report = Report {
            figures: &figures,
            transfers: &TransferFigures { failed: 5, expired: 2, ..TransferFigures::default() },
            catalog: &Catalog::default().with_missing([&apex]),
            standings: &BTreeMap::from([(apex.clone(), standing)]),
            broken: std::slice::from_ref(&apex),
        };
        let text = text(&report);
        for line in [
            "qanat_dns_transfers_total{direction=\"in\",result=\"failed\"} 5",
            "qanat_dns_expired_total 2",
            "qanat_dns_zone_missing{zone=\"b.test.\"} 1",
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
