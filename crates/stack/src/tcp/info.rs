//! What an operator sees of a connection, as `ss -i`.

use crate::tcp::connection::Connection;
use crate::tcp::handshake::fast_open_state::FastOpenFailure;
use crate::tcp::recovery::phase::Phase;
use crate::tcp::state::State;
use qanat_api::CloseReason;
use qanat_nic::Time;
use std::time::Duration;

/// A snapshot of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Its state.
    pub state: State,
    /// Loss recovery's phase.
    pub phase: Phase,
    /// Congestion control algorithm.
    pub congestion: &'static str,
    /// SRTT; zero before the first sample.
    pub smoothed_rtt: Duration,
    /// RTTVAR.
    pub rtt_variance: Duration,
    /// Smallest RTT of the last minutes.
    pub minimum_rtt: Option<Duration>,
    /// RTO with backoff.
    pub retransmission_timeout: Duration,
    /// Doublings in it.
    pub backoff: u8,
    /// cwnd, bytes.
    pub congestion_window: u32,
    /// ssthresh, bytes; `None`: not yet set.
    pub slow_start_threshold: Option<u32>,
    /// Payload bytes per segment.
    pub maximum_segment: u16,
    /// Payload bytes per segment that we told the peer to send at most.
    pub offered_segment: u16,
    /// Payload bytes of the longest segment received, or 536.
    pub receive_segment: u16,
    /// Window or keepalive probes without an answer.
    pub probes_unanswered: u8,
    /// When data was sent last.
    pub last_sent: Time,
    /// When a segment was received last.
    pub last_received: Time,
    /// Octets thought in flight.
    pub in_flight: u32,
    /// Octets between SND.UNA and SND.NXT.
    pub outstanding: u32,
    /// Octets queued and not sent.
    pub unsent: u64,
    /// Octets sacked.
    pub sacked: u32,
    /// Octets marked lost.
    pub lost: u32,
    /// Octets retransmitted and in flight.
    pub retransmitted_in_flight: u32,
    /// The peer's window, bytes.
    pub send_window: u32,
    /// The window last advertised, bytes.
    pub receive_window: u32,
    /// Our and the peer's window scale.
    pub window_scales: (u8, u8),
    /// Whether timestamps, SACK, ECN are in use.
    pub timestamps: bool,
    /// See `timestamps`.
    pub sack: bool,
    /// See `timestamps`.
    pub ecn: bool,
    /// Data on the SYN was acknowledged with it (RFC 7413).
    pub syn_data: bool,
    /// Why it was not, of an active open that wanted it.
    pub fast_open_failure: FastOpenFailure,
    /// Whether the path was seen to reorder.
    pub reordering_seen: bool,
    /// Bytes acknowledged by the peer.
    pub bytes_acknowledged: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Bytes sent again.
    pub bytes_retransmitted: u64,
    /// Segments sent.
    pub segments_sent: u32,
    /// Segments received.
    pub segments_received: u32,
    /// Segments sent again.
    pub segments_retransmitted: u32,
    /// Segments that the peer has said to have, SYN and FIN among them.
    pub segments_delivered: u32,
    /// Retransmission time-outs.
    pub timeouts: u32,
    /// D-SACKs received.
    pub duplicate_sacks: u32,
    /// Segments received with Congestion Experienced.
    pub ecn_marks: u32,
    /// Bytes given to the service and not consumed.
    pub unconsumed: u32,
    /// What the network last said of segments not acknowledged since (an ICMP error).
    pub soft_error: Option<CloseReason>,
    /// Memory beside frames, bytes.
    pub memory: usize,
}

impl Connection {
    /// A snapshot.
    pub fn info(&self) -> ConnectionInfo {
        let threshold = self.congestion.slow_start_threshold();
        let (syn_data, fast_open_failure) = self.fast_open_outcome();
        ConnectionInfo {
            state: if self.is.handshake.is_unproved() { State::SynReceived } else { self.lifecycle.state() },
            phase: self.recovery.phase(),
            congestion: self.congestion.name(),
            smoothed_rtt: self.rtt.smoothed(),
            rtt_variance: self.rtt.variance(),
            minimum_rtt: self.rtt.minimum(),
            retransmission_timeout: self.rtt.timeout(),
            backoff: self.rtt.backoff(),
            congestion_window: self.congestion.window(),
            slow_start_threshold: (threshold != u32::MAX).then_some(threshold),
            maximum_segment: self.maximum_segment,
            offered_segment: self.path_mtu.local_segment(),
            receive_segment: self.receive_window.segment_max(),
            probes_unanswered: self.patience.probes_unanswered(),
            last_sent: self.last_sent,
            last_received: self.last_received,
            in_flight: self.in_flight(),
            outstanding: self.board.outstanding(),
            unsent: self.unsent(),
            sacked: self.board.sacked(),
            lost: self.board.lost(),
            retransmitted_in_flight: self.board.retransmitted(),
            send_window: self.send_window.size(),
            receive_window: self.receive_window.offered(),
            window_scales: (self.receive_window.scale(), self.send_scale),
            timestamps: self.is.timestamps,
            sack: self.is.sack,
            ecn: self.is.ecn,
            syn_data,
            fast_open_failure,
            reordering_seen: self.rack.has_seen_reordering(),
            bytes_acknowledged: self.statistics.bytes_acknowledged,
            bytes_received: self.statistics.bytes_received,
            bytes_retransmitted: self.statistics.bytes_retransmitted,
            segments_sent: self.statistics.segments_sent,
            segments_received: self.statistics.segments_received,
            segments_retransmitted: self.statistics.segments_retransmitted,
            timeouts: self.statistics.timeouts.into(),
            duplicate_sacks: self.statistics.duplicate_sacks.into(),
            segments_delivered: self.statistics.delivered,
            ecn_marks: self.statistics.delivered_ecn,
            unconsumed: self.held.unconsumed(),
            soft_error: self.outcome.soft_error(),
            memory: size_of::<Connection>() + self.heap_bytes(),
        }
    }
}
