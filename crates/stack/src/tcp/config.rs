//! What every connection of a stack has in common.

use qanat_api::CongestionAlgorithm;
use std::time::Duration;

/// Settings and limits of TCP.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct TcpConfig {
    /// Largest receive window, bytes: it grows up to this by what the service takes per round trip.
    pub receive_window: u32,
    /// Receive window at the start, bytes (at most `receive_window`).
    pub receive_window_initial: u32,
    /// Receive frames a connection may hold: out of order, or lent to the service and not consumed.
    pub receive_frames_max: usize,
    /// Longest TCP segment announced and sent, without headers, where the device would take longer ones: for a path
    /// through tunnels whose routers don't say what is too big. `None`: what the device takes (RFC 6691).
    pub maximum_segment: Option<u16>,
    /// Pieces a send queue may hold.
    pub send_pieces_max: usize,
    /// Retransmissions of one segment before giving up (RFC 9293 R2).
    pub retransmissions_max: u8,
    /// Retransmissions of a SYN before an attempt to connect is given up: 7 make 247 seconds (RFC 9293 §3.8.3: "at least 3
    /// minutes").
    pub syn_retransmissions_max: u8,
    /// Retransmissions of a SYN-ACK before the half-open connection is forgotten: 5 make 63 seconds. The peer knows of no
    /// connection before it has come, and repeats its SYN.
    pub syn_ack_retransmissions_max: u8,
    /// Idle time before the first keepalive probe; `None`: no keepalive.
    pub keepalive: Option<Duration>,
    /// Time between keepalive probes.
    pub keepalive_interval: Duration,
    /// Unanswered keepalive probes before giving up.
    pub keepalive_probes_max: u8,
    /// Longest time data may stay unacknowledged (RFC 5482); `None`: only the retransmission limit counts.
    pub user_timeout: Option<Duration>,
    /// Let a peer's user timeout option (RFC 5482) set that time, within `user_timeout_bounds`, on connections whose service
    /// has not.
    pub user_timeout_adopted: bool,
    /// What a peer, or telling it, may make of the user timeout.
    pub user_timeout_bounds: UserTimeoutBounds,
    /// Send small segments at once. `false`: Nagle's algorithm (RFC 9293 §3.7.4). On by default: a service hands over
    /// whole responses, and Nagle's wait then only costs latency.
    pub no_delay: bool,
    /// Negotiate and use ECN (RFC 3168).
    pub ecn: bool,
    /// Ask for it in connections that this side opens; else it is used where peers ask.
    pub ecn_requested: bool,
    /// Offer SACK (RFC 2018), and with it RACK-TLP.
    pub sack: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// The congestion control algorithm of new connections.
    pub congestion: CongestionAlgorithm,
    /// Spread segments over the round trip instead of sending them as acknowledgements arrive.
    pub pacing: bool,
    /// Longest an acknowledgement is delayed (RFC 9293 §3.8.6.3: below 500 ms).
    pub delayed_ack: Duration,
    /// Length of TIME-WAIT (2 MSL).
    pub time_wait: Duration,
    /// How long a closed connection waits in FIN-WAIT-2 for the peer's FIN.
    pub fin_wait_2: Duration,
    /// Try larger segments again after the size was reduced (RFC 4821 §7).
    pub path_mtu_probing: bool,
    /// Tell of urgent data (RFC 6093); else what peers send as such is data like any other.
    pub urgent_data: bool,
    /// Reduce the segment size when full segments are lost again and again (RFC 4821's black holes).
    pub black_hole_detection: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            receive_window: 6 << 20,
            receive_window_initial: 64 * 1024,
            receive_frames_max: 8_192,
            maximum_segment: None,
            send_pieces_max: 1_024,
            retransmissions_max: 15,
            syn_retransmissions_max: 7,
            syn_ack_retransmissions_max: 5,
            keepalive: None,
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes_max: 9,
            user_timeout: None,
            user_timeout_adopted: false,
            user_timeout_bounds: UserTimeoutBounds::default(),
            no_delay: true,
            ecn: true,
            ecn_requested: true,
            sack: true,
            timestamps: true,
            window_scaling: true,
            congestion: CongestionAlgorithm::Cubic,
            pacing: false,
            delayed_ack: Duration::from_millis(40),
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
            path_mtu_probing: true,
            urgent_data: false,
            black_hole_detection: true,
        }
    }
}

impl TcpConfig {
    /// The largest receive window of a connection, if its service wishes at most `wish`.
    pub fn receive_window_max(&self, wish: Option<u32>) -> u32 {
        // Less than the least segment would let nothing through.
        wish.map_or(self.receive_window, |wish| {
            self.receive_window.min(wish.max(u32::from(crate::tcp::segment::MSS_DEFAULT)))
        })
    }

    /// The window of a SYN or SYN-ACK, which is never scaled (RFC 7323 §2.2). It is what buffers and frames bear, and at most
    /// `most`, the connection's own limit.
    pub fn initial_window(&self, most: u32) -> u32 {
        let by_frames = self.receive_frames_max.saturating_mul(usize::from(crate::tcp::segment::MSS_DEFAULT));
        most.min(65_535).min(u32::try_from(by_frames).unwrap_or(u32::MAX))
    }

    /// The window scale to offer: the smallest that can express `most`, the whole window (RFC 7323 §2.3: at most 14).
    pub fn window_scale(&self, most: u32) -> u8 {
        let mut scale = 0;
        while scale < 14 && (most >> scale) > 65_535 {
            scale += 1;
        }
        scale
    }
}

/// Which user timeouts a peer may cause (RFC 5482 §3.1's L_LIMIT and U_LIMIT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UserTimeoutBounds {
    /// No shorter: at least 100 s is advised, so that a peer can't make connections end at the first loss.
    pub lower: Duration,
    /// No longer: memory is held for so long.
    pub upper: Duration,
}

impl Default for UserTimeoutBounds {
    fn default() -> UserTimeoutBounds {
        UserTimeoutBounds { lower: Duration::from_secs(100), upper: Duration::from_secs(3_600) }
    }
}
