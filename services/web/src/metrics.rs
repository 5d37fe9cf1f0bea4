//! Figures in Prometheus' text format (exposition format 0.0.4).

use crate::figures::Figures;
use qanat::control::prometheus::Exposition;
use qanat::control::prometheus::Kind::{Counter, Gauge};
use qanat_http2::Http2Figures;
use qanat_store::ReadCacheFigures;
use qanat_tls::TlsFigures;

/// Families of one service: what their names begin with, and the text.
struct Families {
    service: &'static str,
    text: Exposition,
}

impl Families {
    fn name(&self, what: &str) -> String {
        format!("qanat_{}_{what}", self.service)
    }

    fn counted(&mut self, what: &str, help: &str, value: u64) {
        let name = self.name(what);
        self.text.family(&name, Counter, help).value(value);
    }

    fn held(&mut self, what: &str, help: &str, value: u64) {
        let name = self.name(what);
        self.text.family(&name, Gauge, help).value(value);
    }

    /// One that is told apart by a label.
    fn counted_by<const N: usize>(&mut self, what: &str, help: &str, label: &str, values: [(&str, u64); N]) {
        let name = self.name(what);
        self.text.family(&name, Counter, help).by(label, values);
    }
}

/// The figures of the service of this name as text. Each figure is told once.
pub fn text(service: &'static str, figures: &Figures) -> String {
    let mut families = Families { service, text: Exposition::default() };
    write_requests(&mut families, figures);
    write_connections(&mut families, figures);
    write_content(&mut families, figures);
    write_streams(&mut families, figures);
    write_tls(&mut families, &figures.tls);
    write_http2(&mut families, &figures.http2);
    families.text.into_text()
}

fn write_requests(families: &mut Families, figures: &Figures) {
    let Figures { requests, responses, not_modified, partial, fast_path, redirects, .. } = *figures;
    families.counted("requests_total", "Requests answered.", requests);
    let [information, success, redirection, client, server] = responses;
    let classes = [("1xx", information), ("2xx", success), ("3xx", redirection), ("4xx", client), ("5xx", server)];
    families.counted_by("responses_total", "Responses, by class of their status.", "class", classes);
    families.counted("not_modified_total", "Of these, with status 304.", not_modified);
    families.counted("partial_total", "Of these, with status 206.", partial);
    families.counted("fast_path_total", "Requests whose target was known as it was written.", fast_path);
    families.counted("redirects_to_https_total", "Requests of plain HTTP that were told to ask by HTTPS.", redirects);
    families.counted("requests_limited_total", "Requests of peers that made too many.", figures.requests_limited);
    let Figures { passwords_right, passwords_wrong, guesses_limited, .. } = *figures;
    let outcomes = [("right", passwords_right), ("wrong", passwords_wrong), ("refused", guesses_limited)];
    families.counted_by(
        "passwords_total",
        "Passwords that users gave, by outcome; right ones once.",
        "outcome",
        outcomes,
    );
    let Figures { bytes_sent, bytes_acknowledged, parse_errors, pipeline_waits, log_lines, log_drops, .. } = *figures;
    let bytes = [("sent", bytes_sent), ("acknowledged", bytes_acknowledged)];
    families.counted_by("bytes_total", "Bytes of responses, by how far they came.", "state", bytes);
    families.counted("parse_errors_total", "Requests refused as malformed.", parse_errors);
    families.counted(
        "pipeline_waits_total",
        "Pipelined requests that waited for responses before them.",
        pipeline_waits,
    );
    let lines = [("written", log_lines), ("lost", log_drops)];
    families.counted_by("log_lines_total", "Lines of the access log, by what became of them.", "fate", lines);
}

fn write_connections(families: &mut Families, figures: &Figures) {
    let Figures { connections_open, connections_accepted, connections_refused, connections_refused_peer, .. } =
        *figures;
    let Figures { connections_broken, commands_refused, .. } = *figures;
    families.held("connections_open", "Connections open.", connections_open);
    let fates = [
        ("accepted", connections_accepted),
        ("refused", connections_refused.saturating_sub(connections_refused_peer)),
        ("refused_peer", connections_refused_peer),
        ("broken", connections_broken),
    ];
    families.counted_by("connections_total", "Connections, by what became of them.", "fate", fates);
    let Figures { timeouts_head, timeouts_idle, timeouts_send, timeouts_rate, .. } = *figures;
    let causes = [("head", timeouts_head), ("idle", timeouts_idle), ("send", timeouts_send), ("rate", timeouts_rate)];
    families.counted_by("timeouts_total", "Connections that were ended for their slowness, by cause.", "cause", causes);
    families.counted("commands_refused_total", "Commands the stack refused.", commands_refused);
}

fn write_content(families: &mut Families, figures: &Figures) {
    let Figures { cached_bytes, cached_objects, evictions, reloads, lookups, .. } = *figures;
    families.held("content_bytes", "Bytes of content in memory.", cached_bytes);
    families.held("content_files", "Files in memory.", cached_objects);
    families.counted("content_evictions_total", "Files put out of memory for others.", evictions);
    families.counted("content_reloads_total", "Files read again because they changed.", reloads);
    families.counted("lookups_total", "Look-ups handed to the reader threads.", lookups);
    let Figures { ready_frames, ready_hits, ready_misses, .. } = *figures;
    families.held("ready_frames", "Frames of content ready in device memory.", ready_frames);
    let found = [("hit", ready_hits), ("miss", ready_misses)];
    families.counted_by("ready_frames_total", "Frames wanted, by whether one was ready.", "outcome", found);
}

fn write_streams(families: &mut Families, figures: &Figures) {
    let Figures { windows_read, windows_read_by_kernel_cache, windows_in_use, .. } = *figures;
    let Figures { windows_taken_back, window_share_waits, stream_errors, .. } = *figures;
    families.counted("windows_read_total", "Windows of large files read.", windows_read);
    let help = "Of these, by the kernel's page cache against the wish.";
    families.counted("windows_read_by_kernel_cache_total", help, windows_read_by_kernel_cache);
    families.held("windows_in_use", "Windows in memory.", windows_in_use);
    let help = "Windows taken from peers that were too slow.";
    families.counted("windows_taken_back_total", help, windows_taken_back);
    let help = "Times a connection waited because its peer had its share of the windows.";
    families.counted("window_share_waits_total", help, window_share_waits);
    families.counted("stream_errors_total", "Responses cut short because their file failed.", stream_errors);
    let ReadCacheFigures { hits, misses, inserted, evicted, pieces, pieces_max } = figures.read_cache;
    let found = [("hit", hits), ("miss", misses)];
    families.counted_by("read_cache_lookups_total", "Pieces asked of the read cache.", "outcome", found);
    let moves = [("inserted", inserted), ("evicted", evicted)];
    families.counted_by("read_cache_pieces_total", "Pieces that came and went.", "way", moves);
    families.held("read_cache_pieces", "Pieces in the read cache.", pieces);
    families.held("read_cache_pieces_max", "Pieces there may be in it.", pieces_max);
    let Figures { streams, pieces_read, piece_bytes_read, stalls, .. } = *figures;
    families.held("streams", "Objects of a library that are being sent.", streams);
    families.counted("pieces_read_total", "Pieces of a library's objects read.", pieces_read);
    families.counted("piece_bytes_read_total", "Bytes of these.", piece_bytes_read);
    families.counted("stalls_total", "Times a peer had taken all before the next piece came from the disk.", stalls);
}

fn write_tls(families: &mut Families, figures: &TlsFigures) {
    let TlsFigures { handshakes, handshakes_resumed, handshakes_tls12, handshakes_failed, plain_requests, .. } =
        *figures;
    families.counted("tls_handshakes_total", "Handshakes that ended well.", handshakes);
    families.counted("tls_handshakes_resumed_total", "Of these, resumed ones.", handshakes_resumed);
    families.counted("tls_handshakes_tls12_total", "Of these, those of TLS 1.2.", handshakes_tls12);
    families.counted("tls_handshakes_failed_total", "Handshakes that failed.", handshakes_failed);
    let help = "Of these, by a request of plain HTTP, which was answered.";
    families.counted("tls_plain_requests_total", help, plain_requests);
    let TlsFigures {
        connections_failed,
        alerts_received,
        records_sealed,
        records_opened,
        key_updates,
        receive_waits,
        ..
    } = *figures;
    families.counted("tls_connections_failed_total", "Connections that failed after it.", connections_failed);
    families.counted("tls_alerts_received_total", "Fatal alerts of peers.", alerts_received);
    let records = [("sealed", records_sealed), ("opened", records_opened)];
    families.counted_by("tls_records_total", "Records.", "way", records);
    families.counted("tls_key_updates_total", "New keys, of either side.", key_updates);
    families.counted("tls_receive_waits_total", "Times a connection waited for memory to open into.", receive_waits);
}

fn write_http2(families: &mut Families, figures: &Http2Figures) {
    let Http2Figures { carriers, requests, requests_malformed, requests_answered, requests_refused, .. } = *figures;
    families.counted("http2_connections_total", "Connections of HTTP/2.", carriers);
    let fates = [
        ("served", requests),
        ("malformed", requests_malformed),
        ("answered_by_the_layer", requests_answered),
        ("refused", requests_refused),
    ];
    families.counted_by("http2_requests_total", "Requests of HTTP/2, by what became of them.", "fate", fates);
    let Http2Figures { streams_reset_by_peer, streams_reset, carriers_failed, floods, .. } = *figures;
    let resets = [("peer", streams_reset_by_peer), ("service", streams_reset)];
    families.counted_by("http2_streams_reset_total", "Streams that were reset, by whom.", "by", resets);
    families.counted(
        "http2_connections_failed_total",
        "Connections of HTTP/2 that ended with an error.",
        carriers_failed,
    );
    families.counted("http2_floods_total", "Of these, by a flood.", floods);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn numbers(value: &Value) -> usize {
        match value {
            Value::Number(_) => 1,
            Value::Object(all) => all.values().map(numbers).sum(),
            Value::Array(all) => all.iter().map(numbers).sum(),
            _ => 0,
        }
    }

    #[test]
    fn each_figure_is_told_and_each_family_once() {
        let told = text("web", &Figures { requests: 7, responses: [0, 5, 2, 0, 0], ..Figures::default() });
        assert!(told.contains("# TYPE qanat_web_requests_total counter\nqanat_web_requests_total 7\n"), "{told}");
        assert!(told.contains("qanat_web_responses_total{class=\"2xx\"} 5\n"), "{told}");
        let heads: Vec<&str> = told.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(heads.len(), heads.iter().collect::<BTreeSet<_>>().len(), "{told}");
        // One that is added later is told, too.
        let values = told.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(values, numbers(&serde_json::to_value(Figures::default()).unwrap()), "{told}");
    }
}
