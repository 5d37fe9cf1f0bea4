//! TIME-WAIT (RFC 9293 §3.10.7.4, RFC 1337, RFC 6191): a small record that outlives its connection.

use crate::tcp::challenge::Challenges;
use crate::tcp::env::Env;
use crate::tcp::segment::{SegmentIn, timestamp};
use crate::tcp::sequence::{SequenceNumber, timestamp_before};
use qanat_nic::Time;
use qanat_wire::tcp::{Flags, Header};
use qanat_wire::tcp_options::{Options, Timestamps};

/// What remains of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct TimeWait {
    /// SND.NXT.
    pub send_next: SequenceNumber,
    /// RCV.NXT.
    pub receive_next: SequenceNumber,
    pub(super) timestamp_recent: u32,
    pub(super) timestamp_offset: u32,
    pub(super) ports: (u16, u16),
    pub(super) window: u16,
    /// The same, in bytes.
    pub(super) window_bytes: u32,
    pub(super) timestamps: bool,
    /// The peer's FIN has just arrived and is still to be acknowledged (not so when coming from CLOSING).
    pub acknowledgment_owed: bool,
    /// When it may be forgotten.
    pub deadline: Time,
    pub(super) challenges: Challenges,
}

/// What to do after a segment for a connection in TIME-WAIT.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TimeWaitVerdict {
    /// Nothing.
    Ignore,
    /// Send this.
    Acknowledge(Header),
    /// It is a new incarnation's SYN: forget this and treat the SYN as one for a listener. The new ISN must be later
    /// than [`TimeWait::send_next`] (RFC 9293 §3.6.1: MAY-2), the timestamp clock must go on.
    Reuse,
}

impl TimeWait {
    /// The ACK of this state. A `Disposition::TimeWait` with `acknowledgment_owed` still owes it for the FIN: send it
    /// when the connection becomes this.
    pub fn acknowledgment(&self, env: &mut Env<'_>) -> Header {
        env.counters.segments_sent += 1;
        Header {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            sequence: self.send_next,
            acknowledgment: self.receive_next,
            flags: Flags::ACK,
            window: self.window,
            urgent: 0,
            options: Options {
                timestamps: self.timestamps.then(|| Timestamps {
                    value: timestamp(env.now, self.timestamp_offset),
                    echo: self.timestamp_recent,
                }),
                ..Options::NONE
            },
        }
    }

    /// Judges a segment.
    pub fn input(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> TimeWaitVerdict {
        env.counters.segments_received += 1;
        env.counters.time_wait_segments += 1;
        if segment.flags.contains(Flags::RST) {
            // RFC 1337 §3 (F1): "Ignore RST segments in TIME-WAIT state."
            return TimeWaitVerdict::Ignore;
        }
        let timestamps = segment.options.timestamps.filter(|_| self.timestamps);
        let old = timestamps.is_some_and(|timestamps| timestamp_before(timestamps.value, self.timestamp_recent));
        // A SYN with a FIN opens nothing, as in LISTEN.
        if segment.flags.contains(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::FIN) {
            // RFC 6191 §2: a greater timestamp, or (without timestamps) a greater sequence number.
            let newer = match timestamps {
                Some(timestamps) if timestamps.value != self.timestamp_recent => !old,
                _ => segment.sequence.after(self.receive_next),
            };
            if newer {
                env.counters.time_wait_reused += 1;
                return TimeWaitVerdict::Reuse;
            }
        }
        if segment.sequence_length() == 0 && segment.sequence == self.receive_next && !old {
            return TimeWaitVerdict::Ignore;
        }
        // RFC 9293 §3.10.7.4: an unacceptable segment is answered first. Of the others, "if the ACK bit is off, drop the segment".
        let is_acceptable = segment.sequence.is_within(self.receive_next, self.window_bytes) && !old;
        if is_acceptable && !segment.flags.intersects(Flags::ACK | Flags::SYN) {
            env.counters.acknowledgement_missing += 1;
            return TimeWaitVerdict::Ignore;
        }
        if segment.flags.contains(Flags::FIN) && segment.sequence + segment.sequence_length() == self.receive_next {
            // "The only thing that can arrive in this state is a retransmission of the remote FIN. Acknowledge it, and
            // restart the 2 MSL timeout."
            self.deadline = self.deadline.max(env.now + env.config.time_wait);
        }
        if self.challenges.allow(env.now) {
            TimeWaitVerdict::Acknowledge(self.acknowledgment(env))
        } else {
            env.counters.challenge_acks_suppressed += 1;
            TimeWaitVerdict::Ignore
        }
    }
}
