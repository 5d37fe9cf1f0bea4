//! Figures in Prometheus' text format (exposition format 0.0.4), over a kernel socket: monitoring is no business of the data
//! path.

use super::figures::Figures;
use crate::counted::{RCODES, TYPES};
use crate::image::Catalog;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A reader that takes longer is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// The figures as text.
pub fn text(figures: &Figures, catalog: &Catalog) -> String {
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
    text
}

/// What the figures were at the last look, for other threads.
pub type SharedFigures = Arc<Mutex<Figures>>;

/// Answers scrapes at `address` on a thread of its own, one after the other, as long as the process lives.
///
/// # Errors
/// The address cannot be had.
pub fn serve(
    address: SocketAddr,
    figures: SharedFigures,
    catalog: impl Fn() -> Arc<Catalog> + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new().name("dns-metrics".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let figures = *figures.lock().unwrap_or_else(PoisonError::into_inner);
            // A reader that goes away is no error of ours.
            let _ = reply(stream, &text(&figures, &catalog()));
        }
    })?;
    Ok(bound)
}

fn reply(mut stream: TcpStream, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Whatever is asked for, there is only this.
    let _ = stream.read(&mut [0; 4_096])?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_heads_and_values() {
        let mut figures = Figures::default();
        figures.types[0] = 7;
        let text = text(&figures, &Catalog::default());
        assert!(
            text.contains("# TYPE qanat_dns_queries_total counter\nqanat_dns_queries_total{type=\"A\"} 7\n"),
            "{text}"
        );
        assert!(text.contains("qanat_dns_answers_total{rcode=\"NXDOMAIN\"} 0\n"));
        assert!(text.ends_with('\n'));
    }
}
