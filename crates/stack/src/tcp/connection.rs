//! One connection: its variables (the transmission control block of RFC 9293 §3.3.1), and what can be read of it.

use crate::tcp::challenge::Challenges;
use crate::tcp::congestion::state::CongestionState;
use crate::tcp::extras::Extras;
use crate::tcp::lifetime::lifecycle::Lifecycle;
use crate::tcp::lifetime::outcome::Outcome;
use crate::tcp::lifetime::patience::Patience;
use crate::tcp::receive::held::HeldData;
use crate::tcp::receive::owed_acks::OwedAcks;
use crate::tcp::receive::sizing::RightSizing;
use crate::tcp::receive::window::ReceiveWindow;
use crate::tcp::recovery::rack::Rack;
use crate::tcp::recovery::rtt::RttEstimator;
use crate::tcp::recovery::scoreboard::Scoreboard;
use crate::tcp::recovery::variables::Recovery;
use crate::tcp::send::bunching::Bunching;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::send::segment_size::PathMtu;
use crate::tcp::send::window::SendWindow;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::state::State;
use crate::tcp::timers::Timers;
use crate::tcp::timestamps::TimestampClock;
use qanat_api::ConnectionId;
use qanat_nic::Time;

/// What is still due of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) enum Handshake {
    /// Nothing that is not sent with the data.
    #[default]
    Nothing,
    /// SYN or SYN-ACK must go out.
    Wanted,
    /// A passive open believed by its cookie (RFC 7413): the peer's ACK.
    Unproved,
    /// As `Unproved`, and the SYN-ACK must go out.
    UnprovedWanted,
}

impl Handshake {
    #[inline]
    pub(super) fn is_unproved(self) -> bool {
        matches!(self, Handshake::Unproved | Handshake::UnprovedWanted)
    }

    pub(super) fn wants_syn(self) -> bool {
        matches!(self, Handshake::Wanted | Handshake::UnprovedWanted)
    }

    pub(super) fn want_syn(&mut self, wanted: bool) {
        *self = match (self.is_unproved(), wanted) {
            (true, true) => Handshake::UnprovedWanted,
            (true, false) => Handshake::Unproved,
            (false, true) => Handshake::Wanted,
            (false, false) => Handshake::Nothing,
        };
    }
}

/// Conditions kept as one byte each.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Conditions {
    /// Timestamps were negotiated.
    pub timestamps: bool,
    /// Nothing is received for its service, which holds too much already.
    pub starved: bool,
    /// SACK was negotiated.
    pub sack: bool,
    /// ECN was negotiated.
    pub ecn: bool,
    /// Something may be sent: call `output`.
    pub output_wanted: bool,
    /// Echo congestion until CWR arrives (RFC 3168 §6.1.3).
    pub ecn_echo: bool,
    /// Put CWR on the next new data segment.
    pub ecn_reduced: bool,
    /// Send a zero-window or keepalive probe.
    pub probe: bool,
    /// Send a tail loss probe.
    pub tail_probe: bool,
    /// Bytes up to an urgent one are not all acknowledged.
    pub urgent: bool,
    /// Segments are paced.
    pub paced: bool,
    /// What is still due of the handshake.
    pub handshake: Handshake,
    /// What is sent has records: their ends are looked for from the first one on.
    pub recorded: bool,
}

/// A TCP connection. See the module's figure; the fields used for every segment come first.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Connection {
    // The send side.
    pub(super) lifecycle: Lifecycle,
    pub(super) is: Conditions,
    pub(super) send_scale: u8,
    /// Payload bytes a segment may carry beside the options always present.
    pub(super) maximum_segment: u16,
    /// SND.NXT.
    pub(super) send_next: SequenceNumber,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    pub(super) acks: OwedAcks,
    pub(super) timestamps: TimestampClock,
    pub(super) congestion: CongestionState,
    /// SND.UNA, and what is between it and SND.NXT.
    pub(super) board: Scoreboard,
    pub(super) queue: SendQueue,
    pub(super) timers: Timers,
    pub(super) rtt: RttEstimator,
    pub(super) last_received: Time,
    pub(super) last_sent: Time,
    pub(super) id: ConnectionId,
    pub(super) local_port: u16,
    pub(super) peer_port: u16,
    pub(super) rack: Rack,
    pub(super) recovery: Recovery,
    pub(super) path_mtu: PathMtu,
    // The receive side's rarer part.
    pub(super) held: HeldData,
    pub(super) right_sizing: RightSizing,
    pub(super) bunching: Bunching,
    // Cold.
    pub(super) initial_send: SequenceNumber,
    pub(super) patience: Patience,
    pub(super) challenges: Challenges,
    pub(super) extras: Option<Box<Extras>>,
    /// When pacing lets the next segment go.
    pub(super) pacing_next: Time,
    pub(super) statistics: Statistics,
    pub(super) outcome: Outcome,
}

/// Per-connection counts for `info`.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Statistics {
    pub bytes_acknowledged: u64,
    pub bytes_received: u64,
    pub bytes_retransmitted: u64,
    pub segments_sent: u32,
    pub segments_received: u32,
    pub segments_retransmitted: u32,
    pub delivered_ecn: u32,
    /// Segments that the peer has, SYN and FIN among them.
    pub delivered: u32,
    pub timeouts: u16,
    pub duplicate_sacks: u16,
}

impl Connection {
    /// Its handle.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> State {
        self.lifecycle.state()
    }

    /// Own port and the peer's.
    pub fn ports(&self) -> (u16, u16) {
        (self.local_port, self.peer_port)
    }

    /// Receives nothing more, or again as usual.
    pub fn set_starved(&mut self, starved: bool) {
        self.is.starved = starved;
    }

    /// Whether [`output`](Connection::output) has something to do.
    #[inline]
    pub fn needs_output(&self) -> bool {
        self.is.output_wanted
    }

    /// Whether what was sent last has not been acknowledged within the retransmission time-out, or several.
    pub fn has_timed_out(&self) -> bool {
        self.rtt.backoff() > 0
    }

    /// An ACK goes out with the next `output`.
    #[inline]
    pub(super) fn acknowledge_now(&mut self) {
        self.acks.owe();
        self.is.output_wanted = true;
    }

    /// When [`on_timer`](Connection::on_timer) must be called at the latest.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// SND.UNA.
    #[inline]
    pub fn send_unacknowledged(&self) -> SequenceNumber {
        self.board.start()
    }

    /// SND.NXT.
    pub fn send_next(&self) -> SequenceNumber {
        self.send_next
    }

    /// RCV.NXT.
    pub fn receive_next(&self) -> SequenceNumber {
        self.receive_window.next()
    }

    /// Bytes queued and not yet acknowledged.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.byte_count()
    }

    /// Our timestamp now.
    #[inline]
    pub(super) fn timestamp_now(&self, now: Time) -> u32 {
        self.timestamps.at(now)
    }

    /// Octets outstanding that are data (SYN and FIN not counted).
    #[inline]
    pub(super) fn data_outstanding(&self) -> u64 {
        let outstanding = u64::from(self.send_next.distance_from(self.board.start()));
        let fin = u64::from(self.lifecycle.is_fin_sent() && outstanding > 0);
        outstanding.saturating_sub(fin)
    }

    /// Bytes queued and never sent.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.queue.byte_count().saturating_sub(self.data_outstanding())
    }

    /// Octets that congestion window and peer's window leave for what was not sent yet: the usable window (RFC 9293, 3.8.6.2.1).
    pub fn usable_window(&self) -> u32 {
        let peer_room = self.send_window.size().saturating_sub(self.send_next.distance_from(self.board.start()));
        self.congestion.room(self.in_flight()).min(peer_room)
    }

    /// Heap memory held beside the structure itself, bytes (frames not counted).
    pub fn heap_bytes(&self) -> usize {
        let extras = if self.extras.is_some() { size_of::<Extras>() } else { 0 };
        self.board.memory() + self.queue.memory() + self.held.heap_bytes() + extras
    }
}
