//! A connection's timers, and what happens when they expire.
//!
//! Retransmission, tail loss probe, reordering wait and persist exclude each other: one deadline with a kind.

use qanat_nic::Time;

/// No deadline.
pub const NEVER: Time = Time::from_nanos(u64::MAX);

/// What the retransmission deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum RetransmitKind {
    /// RFC 6298.
    Timeout,
    /// RFC 8985 §7: tail loss probe.
    TailProbe,
    /// RFC 8985 §6: wait for reordering.
    Reordering,
    /// RFC 9293 §3.8.6.1: zero-window probe, and §3.8.6.2.1's override.
    Persist,
}

/// The deadlines of one connection; [`NEVER`] when idle.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Timers {
    pub(super) retransmit: Time,
    pub(super) delayed_ack: Time,
    /// Keepalive, or the end of FIN-WAIT-2.
    pub(super) idle: Time,
    pub(super) pacing: Time,
    pub(super) kind: RetransmitKind,
}

impl Timers {
    /// None armed.
    pub fn new() -> Timers {
        Timers { retransmit: NEVER, delayed_ack: NEVER, idle: NEVER, pacing: NEVER, kind: RetransmitKind::Timeout }
    }

    /// The earliest.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let earliest = self.retransmit.min(self.delayed_ack).min(self.idle).min(self.pacing);
        (earliest != NEVER).then_some(earliest)
    }

    #[inline]
    pub(super) fn set(&mut self, kind: RetransmitKind, at: Time) {
        self.kind = kind;
        self.retransmit = at;
    }

    #[inline]
    pub(super) fn stop(&mut self) {
        self.retransmit = NEVER;
    }

    pub(super) fn set_idle(&mut self, at: Time) {
        self.idle = at;
    }

    pub(super) fn is_persisting(&self) -> bool {
        self.retransmit != NEVER && self.kind == RetransmitKind::Persist
    }
}

impl Default for Timers {
    fn default() -> Self {
        Timers::new()
    }
}
