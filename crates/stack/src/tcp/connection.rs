//! One connection: its variables (the transmission control block of RFC 9293 §3.3.1) and the service's calls.

use crate::event::{CloseReason, ConnectionId, Event};
use crate::payload::Source;
use crate::stack::CommandError;
use crate::tcp::challenge::Challenges;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::control::{Congestion, Window, initial_window};
use crate::tcp::congestion::hystart::HyStart;
use crate::tcp::extras::Extras;
use crate::tcp::handshake::half_open::HalfOpen;
use crate::tcp::receive::delayed_ack::{FULL_SEGMENTS, QUICK_ACKS};
use crate::tcp::receive::reassembly::{Block, Reassembly};
use crate::tcp::receive::right_sizing::RightSizing;
use crate::tcp::recovery::episode::{Phase, Recovery};
use crate::tcp::recovery::rack::Rack;
use crate::tcp::recovery::rtt::RttEstimator;
use crate::tcp::recovery::scoreboard::Scoreboard;
use crate::tcp::send::path_mtu::PathMtu;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::state::State;
use crate::tcp::timers::Timers;
use crate::tcp::{Disposition, Env, timestamp};
use bytes::Bytes;
use qanat_nic::Time;
use qanat_wire::tcp_options::TIMESTAMPS_LENGTH;
use std::rc::Rc;
use std::time::Duration;

/// The segment size assumed when the peer names none (RFC 9293 §3.7.1).
pub const MSS_DEFAULT: u16 = 536;
/// The smallest believed of a peer, and of a service: a tiny one would multiply our work per byte. (What the device takes is
/// believed, however little it is.)
pub const MSS_MIN: u16 = 64;

/// What a connection is opened with.
#[derive(Clone, Copy, Debug)]
pub struct OpenParameters {
    /// Its handle.
    pub id: ConnectionId,
    /// Own port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// Initial sequence number (RFC 6528).
    pub initial_sequence: SequenceNumber,
    /// Added to the timestamp clock (RFC 7323 §7.1).
    pub timestamp_offset: u32,
    /// Largest TCP segment the path to the peer takes, headers excluded: MTU − IP header − 20.
    pub maximum_segment: u16,
    /// Largest receive window, bytes.
    pub receive_window: u32,
}

impl OpenParameters {
    /// Neither announces nor sends longer segments than the service wishes.
    pub(crate) fn limit_segment(&mut self, most: Option<u16>) {
        self.maximum_segment = most.map_or(self.maximum_segment, |most| self.maximum_segment.min(most.max(MSS_MIN)));
    }
}

/// What is to become of bytes that do not fill a segment (Linux' `MSG_MORE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) enum Follow {
    /// They go, and are pushed.
    #[default]
    Nothing,
    /// More is said to follow soon: they wait for it, or for an acknowledgement.
    More,
    /// That has come: they go, but are not pushed.
    Unpushed,
}

impl Follow {
    /// Whoever was to wait need not any longer.
    pub(super) fn release(&mut self) {
        if *self == Follow::More {
            *self = Follow::Unpushed;
        }
    }
}

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
    /// And the SYN-ACK must go out.
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
    /// An ACK must go out with the next `output`.
    pub ack_now: bool,
    /// And it is owed alone: later segments are not to share it.
    pub ack_apart: bool,
    /// Sent a FIN (it is in `board` or acknowledged).
    pub fin_sent: bool,
    /// A FIN follows the queue.
    pub fin_queued: bool,
    /// The service closed: it takes no more data.
    pub orphaned: bool,
    /// Echo congestion until CWR arrives (RFC 3168 §6.1.3).
    pub ecn_echo: bool,
    /// Put CWR on the next new data segment.
    pub ecn_reduced: bool,
    /// The congestion window held back data since it was last checked.
    pub window_limited: bool,
    /// Send one segment regardless of silly-window rules (the override timer fired).
    pub force: bool,
    /// Send a zero-window or keepalive probe.
    pub probe: bool,
    /// Send a tail loss probe.
    pub tail_probe: bool,
    /// Nagle's algorithm is off.
    pub no_delay: bool,
    /// Bytes up to an urgent one are not all acknowledged.
    pub urgent: bool,
    /// Whether more is said to follow what was given last.
    pub follow: Follow,
    /// Corked: only full segments.
    pub cork: bool,
    /// Segments are paced.
    pub paced: bool,
    /// The service set the user timeout: the peer's option changes nothing.
    pub user_timeout_fixed: bool,
    /// The user timeout option goes on the next segment.
    pub user_timeout_owed: bool,
    /// `Closed` was reported.
    pub closed_reported: bool,
    /// A reset must go out.
    pub reset_wanted: bool,
    /// What is still due of the handshake.
    pub handshake: Handshake,
    /// What is sent has records: their ends are looked for from the first one on.
    pub recorded: bool,
}

/// A TCP connection. See the module's figure; the fields used for every segment come first.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Connection {
    // The send side.
    pub(super) state: State,
    pub(super) is: Conditions,
    pub(super) phase: Phase,
    pub(super) send_scale: u8,
    pub(super) receive_scale: u8,
    /// Payload bytes a segment may carry beside the options always present.
    pub(super) maximum_segment: u16,
    /// SND.NXT.
    pub(super) send_next: SequenceNumber,
    /// SND.WND.
    pub(super) send_window: u32,
    /// SND.WL1.
    pub(super) window_sequence: SequenceNumber,
    /// RCV.NXT.
    pub(super) receive_next: SequenceNumber,
    /// RCV.NXT + RCV.WND as last advertised: never moves left.
    pub(super) receive_edge: SequenceNumber,
    /// RCV.NXT of the last ACK sent (RFC 7323's Last.ACK.sent).
    pub(super) last_ack_sent: SequenceNumber,
    /// TS.Recent.
    pub(super) timestamp_recent: u32,
    pub(super) timestamp_offset: u32,
    /// Bytes given to the service and not consumed.
    pub(super) unconsumed: u32,
    /// Frames given to the service and not consumed.
    pub(super) frames_lent: u32,
    pub(super) window: Window,
    /// Most octets in flight in the round trip that ends when `flight_end` is acknowledged.
    pub(super) flight_max: u32,
    pub(super) flight_end: SequenceNumber,
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
    /// Full segments received since the last ACK.
    pub(super) segments_unacknowledged: u8,
    /// Full segments of one batch that one ACK may acknowledge.
    pub(super) segments_per_ack: u8,
    /// ACKs still sent at once (quick-ACK at the start).
    pub(super) quick_acks: u8,
    /// Consecutive time-outs without progress.
    pub(super) retransmissions: u8,
    /// Window or keepalive probes without an answer.
    pub(super) probes_unanswered: u8,
    /// Duplicate ACKs to send for a peer without SACK.
    pub(super) duplicate_acks_wanted: u8,
    /// Largest window the peer ever offered.
    pub(super) send_window_max: u32,
    pub(super) congestion: Congestion,
    pub(super) hystart: HyStart,
    pub(super) rack: Rack,
    pub(super) recovery: Recovery,
    pub(super) path_mtu: PathMtu,
    // The receive side's rarer part.
    pub(super) reassembly: Option<Box<Reassembly>>,
    pub(super) right_sizing: RightSizing,
    pub(super) fin_at: Option<SequenceNumber>,
    /// The D-SACK block the next ACK reports (RFC 2883).
    pub(super) duplicate: Option<Block>,
    pub(super) timestamp_recent_at: Time,
    pub(super) receive_segment_max: u16,
    /// Moving average of the bytes in a received frame.
    pub(super) receive_length_mean: u16,
    /// Where the last segment ended that was sent and not full.
    pub(super) small_end: SequenceNumber,
    // Cold.
    pub(super) initial_send: SequenceNumber,
    pub(super) initial_receive: SequenceNumber,
    pub(super) progress_at: Time,
    pub(super) challenges: Challenges,
    pub(super) user_timeout: Option<Duration>,
    pub(super) extras: Option<Box<Extras>>,
    /// When pacing lets the next segment go.
    pub(super) pacing_next: Time,
    pub(super) statistics: Statistics,
    pub(super) close_reason: Option<CloseReason>,
    /// What the network said of segments not acknowledged since.
    pub(super) soft_error: Option<CloseReason>,
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
    #[inline(always)] // large: built where it stays
    fn new(open: &OpenParameters, state: State, config: &TcpConfig, now: Time) -> Connection {
        let start = open.initial_sequence;
        let maximum_segment = open.maximum_segment.max(1);
        Connection {
            state,
            is: Conditions { no_delay: config.no_delay, paced: config.pacing, ..Conditions::default() },
            phase: Phase::Open,
            send_scale: 0,
            receive_scale: 0,
            maximum_segment: maximum_segment.min(MSS_DEFAULT),
            send_next: start,
            send_window: 0,
            window_sequence: SequenceNumber(0),
            receive_next: SequenceNumber(0),
            receive_edge: SequenceNumber(0),
            last_ack_sent: SequenceNumber(0),
            timestamp_recent: 0,
            timestamp_offset: open.timestamp_offset,
            unconsumed: 0,
            frames_lent: 0,
            window: Window { congestion_window: 0, slow_start_threshold: u32::MAX },
            flight_max: 0,
            flight_end: start,
            board: Scoreboard::new(start),
            queue: SendQueue::new(),
            timers: Timers::new(),
            rtt: RttEstimator::new(),
            last_received: now,
            last_sent: now,
            id: open.id,
            local_port: open.local_port,
            peer_port: open.peer_port,
            segments_unacknowledged: 0,
            segments_per_ack: FULL_SEGMENTS,
            quick_acks: QUICK_ACKS,
            retransmissions: 0,
            probes_unanswered: 0,
            duplicate_acks_wanted: 0,
            send_window_max: 0,
            congestion: Congestion::new(config.congestion),
            hystart: HyStart::new(start),
            rack: Rack::new(start),
            recovery: Recovery::new(start),
            path_mtu: PathMtu::new(maximum_segment),
            reassembly: None,
            right_sizing: RightSizing::new(config, open.receive_window),
            fin_at: None,
            duplicate: None,
            timestamp_recent_at: now,
            receive_segment_max: MSS_DEFAULT,
            receive_length_mean: MSS_DEFAULT,
            small_end: start,
            initial_send: start,
            initial_receive: SequenceNumber(0),
            progress_at: now,
            challenges: Challenges::default(),
            user_timeout: config.user_timeout,
            extras: None,
            pacing_next: Time::ZERO,
            statistics: Statistics::default(),
            close_reason: None,
            soft_error: None,
        }
    }

    /// An active open: the SYN goes out with the next `output`.
    pub fn open_active(open: &OpenParameters, config: &TcpConfig, now: Time) -> Connection {
        let mut connection = Connection::new(open, State::SynSent, config, now);
        connection.is.handshake.want_syn(true);
        connection.is.output_wanted = true;
        connection.is.timestamps = config.timestamps;
        connection.is.sack = config.sack;
        connection.is.ecn = config.ecn && config.ecn_requested;
        connection
    }

    /// A passive open whose handshake `acknowledgment` completes. Give that segment to [`input`](Connection::input)
    /// next: it may carry data.
    #[inline(always)] // one caller; large: built where it stays
    pub fn from_half_open(
        open: &OpenParameters,
        half: &HalfOpen,
        segment: &crate::tcp::SegmentIn<'_>,
        env: &mut Env<'_>,
    ) -> Connection {
        let mut connection = Connection::new(open, State::Established, env.config, env.now);
        connection.is.timestamps = half.timestamps;
        connection.is.sack = half.sack;
        connection.is.ecn = half.ecn;
        connection.send_scale = half.send_scale;
        connection.receive_scale = half.receive_scale;
        connection.timestamp_recent = half.timestamp_recent;
        connection.set_receive_start(half.peer_initial);
        connection.receive_edge = connection.receive_next + env.config.initial_window(open.receive_window);
        connection.board = Scoreboard::new(open.initial_sequence + 1);
        connection.send_next = open.initial_sequence + 1;
        connection.window_sequence = segment.sequence;
        connection.send_window = u32::from(segment.window) << half.send_scale;
        connection.send_window_max = connection.send_window;
        connection.recovery = Recovery::new(connection.send_next);
        connection.set_peer_segment(half.peer_segment);
        connection.start_congestion(half.transmissions > 1);
        if half.transmissions == 1 {
            connection.rtt.sample(env.now.since(half.sent_at), env.now);
        }
        connection.statistics.delivered = 1;
        connection.start_right_sizing(env.now);
        connection.arm_keepalive(env.config, env.now);
        env.counters.passive_opens += 1;
        connection
    }

    /// Notes the peer's ISN.
    pub(super) fn set_receive_start(&mut self, initial: SequenceNumber) {
        self.initial_receive = initial;
        self.receive_next = initial + 1;
        self.receive_edge = self.receive_next;
        self.last_ack_sent = self.receive_next;
    }

    /// Applies the peer's MSS option (RFC 9293 §3.7.1, RFC 6691: options count against it).
    pub(super) fn set_peer_segment(&mut self, peer: u16) {
        self.path_mtu.limit_peer(peer.max(MSS_MIN));
        self.apply_segment_size();
    }

    /// Recomputes the payload size after the path's or the peer's limit changed.
    pub(super) fn apply_segment_size(&mut self) {
        let options = if self.is.timestamps { TIMESTAMPS_LENGTH as u16 } else { 0 };
        self.maximum_segment = self.path_mtu.segment().saturating_sub(options).max(1);
    }

    /// Sets the initial window. RFC 6298 §5.7, RFC 5681 §3.1: one segment if the SYN or SYN-ACK was lost... as Linux, a
    /// single lost SYN does not shrink it; only the threshold stays.
    pub(super) fn start_congestion(&mut self, _handshake_lost: bool) {
        self.window.congestion_window = initial_window(u32::from(self.maximum_segment));
    }

    /// Its handle.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
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
        self.receive_next
    }

    /// Bytes queued and not yet acknowledged.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.byte_count()
    }

    fn may_send(&self, config: &TcpConfig) -> Result<(), CommandError> {
        if !self.state.sends() || self.is.fin_queued {
            return Err(CommandError::NotSending);
        }
        if self.queue.len() >= config.send_pieces_max {
            return Err(CommandError::Full);
        }
        Ok(())
    }

    /// Queues lent bytes.
    ///
    /// # Errors
    /// [`CommandError::NotSending`] after a shutdown or close; [`CommandError::Full`].
    pub fn send(&mut self, bytes: Bytes, config: &TcpConfig) -> Result<(), CommandError> {
        self.may_send(config)?;
        self.queue.push_bytes(bytes);
        self.is.output_wanted = true;
        Ok(())
    }

    /// Queues bytes, which are the connection's from now on.
    ///
    /// # Errors
    /// As [`send`](Connection::send).
    pub fn send_owned(&mut self, bytes: Box<[u8]>, config: &TcpConfig) -> Result<(), CommandError> {
        self.may_send(config)?;
        self.queue.push_owned(bytes);
        self.is.output_wanted = true;
        Ok(())
    }

    /// Queues a range of a source.
    ///
    /// # Errors
    /// As [`send`](Connection::send).
    pub fn send_source(
        &mut self,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
        config: &TcpConfig,
    ) -> Result<(), CommandError> {
        self.may_send(config)?;
        self.queue.push_source(source, stamp, offset, length);
        self.is.output_wanted = true;
        Ok(())
    }

    /// FIN after everything queued; receiving goes on.
    ///
    /// # Errors
    /// [`CommandError::NotSending`] if it was shut down before.
    pub fn shutdown(&mut self) -> Result<(), CommandError> {
        if self.is.fin_queued || !self.state.sends() {
            return Err(CommandError::NotSending);
        }
        self.is.fin_queued = true;
        self.is.output_wanted = true;
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            // The FIN waits for the handshake: RFC 9293 §3.10.4 "queue the request".
            other => other,
        };
        Ok(())
    }

    /// As [`shutdown`](Connection::shutdown), and the service takes no more data. In SYN-SENT the connection is simply
    /// deleted (RFC 9293 §3.10.4).
    pub fn close(&mut self, env: &mut Env<'_>) -> Disposition {
        match self.state {
            State::Closed => return Disposition::Keep,
            State::SynSent => return self.finish(CloseReason::Aborted, env),
            _ => {}
        }
        let _ = self.shutdown();
        self.is.orphaned = true;
        if self.state == State::FinWait2 {
            self.timers.set_idle(env.now + env.config.fin_wait_2);
        }
        Disposition::Keep
    }

    /// Resets the connection. The RST goes out with the next `output`, which then reports the end; in SYN-SENT there is
    /// nobody to reset.
    pub fn abort(&mut self, env: &mut Env<'_>) -> Disposition {
        self.fail(CloseReason::Aborted, env)
    }

    /// Ends the connection with a RST for the peer.
    pub(super) fn fail(&mut self, why: CloseReason, env: &mut Env<'_>) -> Disposition {
        match self.state {
            State::Closed => Disposition::Keep,
            State::SynSent => self.finish(why, env),
            _ => {
                self.state = State::Closed;
                self.close_reason = Some(why);
                self.queue.clear();
                self.drop_reassembly(env);
                self.timers = Timers::new();
                self.is.reset_wanted = true;
                self.is.output_wanted = true;
                Disposition::Keep
            }
        }
    }

    /// Ends the connection at once: reports `Closed`, exactly once.
    pub(super) fn finish(&mut self, why: CloseReason, env: &mut Env<'_>) -> Disposition {
        self.report_closed(why, env);
        Disposition::Remove
    }

    pub(super) fn report_closed(&mut self, why: CloseReason, env: &mut Env<'_>) {
        if self.state == State::SynSent && !matches!(why, CloseReason::Aborted | CloseReason::Refused) {
            self.fail_fast_open(env);
        }
        self.state = State::Closed;
        self.queue.clear();
        self.release_receive_memory(env);
        self.timers = Timers::new();
        self.is.output_wanted = false;
        if !self.is.closed_reported {
            self.is.closed_reported = true;
            env.counters.established_closed += 1;
            env.events.push_back(Event::Closed { connection: self.id, why });
        }
    }

    /// Our timestamp now.
    #[inline]
    pub(super) fn timestamp_now(&self, now: Time) -> u32 {
        timestamp(now, self.timestamp_offset)
    }

    /// Octets outstanding that are data (SYN and FIN not counted).
    #[inline]
    pub(super) fn data_outstanding(&self) -> u64 {
        let outstanding = u64::from(self.send_next.distance_from(self.board.start()));
        let fin = u64::from(self.is.fin_sent && outstanding > 0);
        outstanding.saturating_sub(fin)
    }

    /// Bytes queued and never sent.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.queue.byte_count().saturating_sub(self.data_outstanding())
    }

    /// Heap memory held beside the structure itself, bytes (frames not counted).
    pub fn heap_bytes(&self) -> usize {
        let reassembly = self.reassembly.as_ref().map_or(0, |queue| queue.memory());
        let extras = if self.extras.is_some() { size_of::<Extras>() } else { 0 };
        self.board.memory() + self.queue.memory() + reassembly + extras
    }
}
