//! What an operator asks a running service for: connections as `ss -i` shows them, counters as `nstat` does.

use qanat::Runtime;
use std::fmt::Write;

/// Connections listed at most: a terminal is no place for ten thousand.
const CONNECTIONS_MAX: usize = 200;

/// Connections (the first 200), neighbours, what the stack holds, and every counter that is not zero.
pub fn stack_report(runtime: &Runtime) -> String {
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
            "{:<12} {local} {remote}\n    {} {:?} rtt:{:.3}/{:.3}ms rto:{}ms mss:{} cwnd:{} ssthresh:{} in_flight:{} \
             unsent:{} send_window:{} receive_window:{} bytes_acked:{} bytes_received:{} bytes_retransmitted:{} \
             segments_out:{} segments_in:{} retransmitted:{} timeouts:{} sacked:{} lost:{}{}{}{} memory:{}",
            info.state.to_string(),
            info.congestion,
            info.phase,
            info.smoothed_rtt.as_secs_f64() * 1e3,
            info.rtt_variance.as_secs_f64() * 1e3,
            info.retransmission_timeout.as_millis(),
            info.maximum_segment,
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
            if info.timestamps { " ts" } else { "" },
            if info.sack { " sack" } else { "" },
            if info.ecn { " ecn" } else { "" },
            info.memory,
        );
    }
    if usage.connections > CONNECTIONS_MAX {
        let _ = writeln!(text, "… and {} more", usage.connections - CONNECTIONS_MAX);
    }
    for (address, mac) in stack.neighbours() {
        let mac = mac.map_or_else(|| "asking".to_owned(), |mac| mac.to_string());
        let _ = writeln!(text, "neighbour {address} {mac}");
    }
    let counters = stack.counters().iter().chain(stack.tcp_counters().iter());
    for (name, count) in counters.filter(|(_, count)| *count > 0) {
        let _ = writeln!(text, "{name:<36} {count}");
    }
    text
}
