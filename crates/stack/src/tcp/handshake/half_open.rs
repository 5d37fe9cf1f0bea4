//! A passive open between SYN and ACK (SYN-RECEIVED): small, because anyone can cause one.

use crate::tcp::challenge::Challenges;
use crate::tcp::config::TcpConfig;
use crate::tcp::env::Env;
use crate::tcp::handshake::parameters::OpenParameters;
use crate::tcp::recovery::rtt::RTO_INITIAL;
use crate::tcp::segment::{MSS_DEFAULT, SegmentIn, timestamp};
use crate::tcp::sequence::{SequenceNumber, timestamp_before};
use qanat_nic::Time;
use qanat_wire::tcp::{Flags, Header};
use qanat_wire::tcp_options::{Options, Timestamps};

/// What is remembered of a SYN.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct HalfOpen {
    /// IRS.
    pub peer_initial: SequenceNumber,
    /// ISS.
    pub initial: SequenceNumber,
    /// TS.Recent.
    pub timestamp_recent: u32,
    /// Offset of our timestamp clock.
    pub timestamp_offset: u32,
    /// The peer's MSS option.
    pub peer_segment: u16,
    /// Our MSS option.
    pub local_segment: u16,
    /// Our largest window, bytes.
    pub receive_window: u32,
    /// Both ports, own first.
    pub ports: (u16, u16),
    /// Shift of the peer's windows.
    pub send_scale: u8,
    /// Shift of ours.
    pub receive_scale: u8,
    /// Window scaling was offered.
    pub scaling: bool,
    /// SACK was offered.
    pub sack: bool,
    /// Timestamps were offered.
    pub timestamps: bool,
    /// ECN was offered.
    pub ecn: bool,
    /// Bytes of the SYN's data that were taken (RFC 7413).
    pub data: u16,
    /// SYN-ACKs sent.
    pub transmissions: u8,
    /// First SYN-ACK.
    pub sent_at: Time,
    /// When to send the next.
    pub deadline: Time,
    /// Its ration of challenge ACKs.
    pub challenges: Challenges,
}

/// What to do after a segment for a half-open connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HalfOpenVerdict {
    /// The handshake is complete: make a `Connection::from_half_open`, give it the segment.
    Establish,
    /// Nothing.
    Ignore,
    /// Send the SYN-ACK again ([`HalfOpen::syn_ack`]).
    Repeat,
    /// Send an ACK ([`HalfOpen::acknowledgment`]): a challenge, or an answer to an unacceptable segment.
    Acknowledge,
    /// Answer with `reset_for`, keep it.
    Reset,
    /// The peer gave up: forget it.
    Remove,
}

/// What to do when the deadline has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HalfOpenTimer {
    /// Send the SYN-ACK again.
    Repeat,
    /// Forget it.
    GiveUp,
}

impl HalfOpen {
    /// From a SYN.
    pub fn new(open: &OpenParameters, segment: &SegmentIn<'_>, config: &TcpConfig, now: Time) -> HalfOpen {
        let options = segment.options;
        let scaling = config.window_scaling && options.window_scale.is_some();
        HalfOpen {
            peer_initial: segment.sequence,
            initial: open.initial_sequence,
            timestamp_recent: options.timestamps.map_or(0, |timestamps| timestamps.value),
            timestamp_offset: open.timestamp_offset,
            peer_segment: options.mss.unwrap_or(MSS_DEFAULT),
            local_segment: open.maximum_segment,
            receive_window: open.receive_window,
            ports: (open.local_port, open.peer_port),
            send_scale: if scaling { options.window_scale.unwrap_or(0).min(14) } else { 0 },
            receive_scale: if scaling { config.window_scale(open.receive_window) } else { 0 },
            scaling,
            sack: config.sack && options.sack_permitted,
            timestamps: config.timestamps && options.timestamps.is_some(),
            // RFC 3168 §6.1.1: "an ECN-setup SYN packet" has both ECE and CWR.
            ecn: config.ecn && segment.flags.contains(Flags::ECE | Flags::CWR),
            data: 0,
            transmissions: 0,
            sent_at: now,
            deadline: now + RTO_INITIAL,
            challenges: Challenges::default(),
        }
    }

    /// The SYN-ACK to send now; counts it and moves the deadline.
    pub fn syn_ack(&mut self, env: &mut Env<'_>) -> Header {
        self.transmissions = self.transmissions.saturating_add(1);
        if self.transmissions == 1 {
            self.sent_at = env.now;
        } else {
            env.counters.syn_ack_retransmissions += 1;
        }
        env.counters.segments_sent += 1;
        let backoff = u32::from(self.transmissions - 1).min(6);
        self.deadline = env.now + RTO_INITIAL * (1 << backoff);
        // RFC 3168 §6.1.1.1: not ECN-setup when it was lost.
        let ecn = self.ecn && self.transmissions <= 2;
        self.header(if ecn { Flags::SYN | Flags::ACK | Flags::ECE } else { Flags::SYN | Flags::ACK }, env)
    }

    /// The SYN-ACK's header, without counting.
    fn header(&self, flags: Flags, env: &Env<'_>) -> Header {
        Header {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            sequence: self.initial,
            acknowledgment: self.peer_initial + 1 + u32::from(self.data),
            flags,
            window: env.config.initial_window(self.receive_window) as u16,
            urgent: 0,
            options: Options {
                mss: Some(self.local_segment),
                window_scale: self.scaling.then_some(self.receive_scale),
                sack_permitted: self.sack,
                timestamps: self.timestamps.then(|| self.timestamps_now(env.now)),
                ..Options::NONE
            },
        }
    }

    /// A challenge ACK: `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`.
    pub fn acknowledgment(&self, env: &mut Env<'_>) -> Header {
        env.counters.segments_sent += 1;
        let mut header = self.header(Flags::ACK, env);
        header.sequence = self.initial + 1;
        header.options = Options { timestamps: self.timestamps.then(|| self.timestamps_now(env.now)), ..Options::NONE };
        header
    }

    fn timestamps_now(&self, now: Time) -> Timestamps {
        Timestamps { value: timestamp(now, self.timestamp_offset), echo: self.timestamp_recent }
    }

    /// Judges a segment (RFC 9293 §3.10.7.4 in SYN-RECEIVED).
    pub fn input(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> HalfOpenVerdict {
        env.counters.segments_received += 1;
        let next = self.peer_initial + 1;
        let window = env.config.initial_window(self.receive_window);
        if segment.flags.contains(Flags::SYN)
            && !segment.flags.intersects(Flags::RST | Flags::ACK)
            && segment.sequence == self.peer_initial
        {
            // The SYN again: our SYN-ACK was lost or is late. Within the normal rate only.
            let recently = env.now.since(self.sent_at) < RTO_INITIAL / 2 && self.transmissions > 2;
            return if recently { HalfOpenVerdict::Ignore } else { HalfOpenVerdict::Repeat };
        }
        if let (true, Some(timestamps)) = (self.timestamps, segment.options.timestamps)
            && timestamp_before(timestamps.value, self.timestamp_recent)
            && !segment.flags.contains(Flags::RST)
        {
            env.counters.paws_rejected += 1;
            return self.challenge(env);
        }
        if segment.flags.contains(Flags::RST) {
            env.counters.resets_received += 1;
            // RFC 5961 §3.2.
            return match segment.sequence == next {
                true => HalfOpenVerdict::Remove,
                false if segment.sequence.is_within(next, window) => self.challenge(env),
                false => HalfOpenVerdict::Ignore,
            };
        }
        let acceptable = segment.sequence.is_within(next, window + 1);
        if segment.flags.contains(Flags::SYN) || !acceptable {
            env.counters.out_of_window += 1;
            return self.challenge(env);
        }
        if !segment.flags.contains(Flags::ACK) {
            env.counters.acknowledgement_missing += 1;
            return HalfOpenVerdict::Ignore;
        }
        if segment.acknowledgment != self.initial + 1 {
            // "If the segment acknowledgment is not acceptable, form a reset segment <SEQ=SEG.ACK><CTL=RST>".
            return HalfOpenVerdict::Reset;
        }
        if let (true, Some(timestamps)) = (self.timestamps, segment.options.timestamps)
            && segment.sequence == next
        {
            self.timestamp_recent = timestamps.value;
        }
        HalfOpenVerdict::Establish
    }

    fn challenge(&mut self, env: &mut Env<'_>) -> HalfOpenVerdict {
        if self.challenges.allow(env.now) {
            env.counters.challenge_acks_sent += 1;
            HalfOpenVerdict::Acknowledge
        } else {
            env.counters.challenge_acks_suppressed += 1;
            HalfOpenVerdict::Ignore
        }
    }

    /// The deadline has passed.
    pub fn on_timer(&self, env: &mut Env<'_>) -> HalfOpenTimer {
        if self.transmissions > env.config.syn_ack_retransmissions_max {
            env.counters.syn_acks_expired += 1;
            return HalfOpenTimer::GiveUp;
        }
        HalfOpenTimer::Repeat
    }
}
