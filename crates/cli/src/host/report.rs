//! What an operator asks a running service for: connections as `ss -i` shows them, counters as `nstat` does.

use qanat::{Attachment, Runtime};
use qanat_nic::af_xdp::Verdicts;
use std::fmt::Write;

/// Connections listed at most: a terminal is no place for ten thousand.
const CONNECTIONS_MAX: usize = 200;

/// Connections (the first 200), own addresses, neighbours, what the stack holds, and every counter that is not zero: of the
/// stack, the device, and the XDP program.
pub fn stack_report(runtime: &Runtime, attachment: Option<&Attachment>) -> String {
    let stack = runtime.stack();
    let mut text = String::new();
    let usage = stack.usage();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} connections, {} half-open, {} in TIME-WAIT, {} timers, {} neighbours",
        usage.connections, usage.half_open, usage.time_wait, usage.timers, usage.neighbours
    );
    for connection in stack.connections().take(CONNECTIONS_MAX) {
        let Some((local, remote, info)) = stack.connection_info(connection) else { continue };
        let _ = writeln!(
            text,
            "{:<12} {local} {remote}\n    {} {:?} rtt:{:.3}/{:.3}ms minrtt:{:.3}ms rto:{}ms backoff:{} mss:{} \
             wscale:{},{} cwnd:{} ssthresh:{} in_flight:{} unsent:{} send_window:{} receive_window:{} bytes_acked:{} \
             bytes_received:{} bytes_retransmitted:{} segments_out:{} segments_in:{} retransmitted:{} timeouts:{} \
             sacked:{} lost:{} dsacks:{} ecn_marks:{} unread:{}{}{}{}{}{} memory:{}",
            info.state.to_string(),
            info.congestion,
            info.phase,
            info.smoothed_rtt.as_secs_f64() * 1e3,
            info.rtt_variance.as_secs_f64() * 1e3,
            info.minimum_rtt.unwrap_or_default().as_secs_f64() * 1e3,
            info.retransmission_timeout.as_millis(),
            info.backoff,
            info.maximum_segment,
            info.window_scales.1,
            info.window_scales.0,
            info.congestion_window,
            info.slow_start_threshold.map_or_else(|| "-".to_owned(), |threshold| threshold.to_string()),
            info.in_flight,
            info.unsent,
            info.send_window,
            info.receive_window,
            info.bytes_acknowledged,
            info.bytes_received,
            info.bytes_retransmitted,
            info.segments_sent,
            info.segments_received,
            info.segments_retransmitted,
            info.timeouts,
            info.sacked,
            info.lost,
            info.duplicate_sacks,
            info.ecn_marks,
            info.unconsumed,
            if info.timestamps { " ts" } else { "" },
            if info.sack { " sack" } else { "" },
            if info.ecn { " ecn" } else { "" },
            if info.reordering_seen { " reordering" } else { "" },
            info.soft_error.map_or_else(String::new, |error| format!(" last_error:{error:?}")),
            info.memory,
        );
    }
    if usage.connections > CONNECTIONS_MAX {
        let _ = writeln!(text, "… and {} more", usage.connections - CONNECTIONS_MAX);
    }
    for (address, length, state) in stack.addresses() {
        let _ = writeln!(text, "address {address}/{length} {}", format!("{state:?}").to_lowercase());
    }
    for (address, mac) in stack.neighbours() {
        let mac = mac.map_or_else(|| "asking".to_owned(), |mac| mac.to_string());
        let _ = writeln!(text, "neighbour {address} {mac}");
    }
    let verdicts = attachment.and_then(Attachment::verdicts).unwrap_or_default();
    let counters = stack.counters().iter().chain(stack.tcp_counters().iter());
    let device = runtime.vnic().statistics();
    for (name, count) in counters.chain(device.iter()).chain(steering(verdicts)).filter(|(_, count)| *count > 0) {
        let _ = writeln!(text, "{name:<36} {count}");
    }
    text
}

/// What the XDP program did to what arrived at the interface.
fn steering(verdicts: Verdicts) -> impl Iterator<Item = (&'static str, u64)> {
    [
        ("steering_left_to_kernel", verdicts.passed),
        ("steering_taken_arp", verdicts.taken_arp),
        ("steering_taken_nd", verdicts.taken_nd),
        ("steering_taken_address", verdicts.taken_address),
        ("steering_taken_service", verdicts.taken_service),
        ("steering_taken_error", verdicts.taken_error),
        ("steering_copied", verdicts.copied),
        ("steering_copy_lost", verdicts.copy_lost),
        ("steering_no_socket", verdicts.no_socket),
        ("steering_malformed", verdicts.malformed),
    ]
    .into_iter()
}
