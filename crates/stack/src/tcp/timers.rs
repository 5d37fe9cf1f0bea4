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
    retransmit: Time,
    delayed_ack: Time,
    /// Keepalive, or the end of FIN-WAIT-2.
    idle: Time,
    pacing: Time,
    kind: RetransmitKind,
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

    /// The retransmission timer fires at `at`, in place of what it was set for.
    #[inline]
    pub(super) fn set(&mut self, kind: RetransmitKind, at: Time) {
        self.kind = kind;
        self.retransmit = at;
    }

    /// The retransmission timer does not fire.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.retransmit = NEVER;
    }

    /// What the retransmission timer is set for; `None`: it does not run.
    #[inline]
    pub(super) fn running(&self) -> Option<RetransmitKind> {
        (self.retransmit != NEVER).then_some(self.kind)
    }

    /// The retransmission timer has fired, and is stopped.
    pub(super) fn take_retransmit(&mut self, now: Time) -> Option<RetransmitKind> {
        let is_due = self.retransmit <= now;
        is_due.then(|| {
            self.stop();
            self.kind
        })
    }

    pub(super) fn is_persisting(&self) -> bool {
        self.running() == Some(RetransmitKind::Persist)
    }

    /// An ACK waits until `at` at most, or for what waits already.
    #[inline]
    pub(super) fn delay_ack(&mut self, at: Time) {
        if self.delayed_ack == NEVER {
            self.delayed_ack = at;
        }
    }

    /// No ACK waits any longer.
    #[inline]
    pub(super) fn cancel_delayed_ack(&mut self) {
        self.delayed_ack = NEVER;
    }

    /// Whether an ACK has waited long enough; it does no longer.
    pub(super) fn take_delayed_ack(&mut self, now: Time) -> bool {
        take(&mut self.delayed_ack, now)
    }

    /// [`NEVER`]: it does not fire.
    pub(super) fn set_idle(&mut self, at: Time) {
        self.idle = at;
    }

    /// Whether the connection has been idle for long enough; the timer is stopped.
    pub(super) fn take_idle(&mut self, now: Time) -> bool {
        take(&mut self.idle, now)
    }

    /// Segments wait until `at`.
    pub(super) fn set_pacing(&mut self, at: Time) {
        self.pacing = at;
    }

    /// Whether segments have waited long enough; they do no longer.
    pub(super) fn take_pacing(&mut self, now: Time) -> bool {
        take(&mut self.pacing, now)
    }
}

/// Whether a deadline has passed; it is then none any more.
fn take(deadline: &mut Time, now: Time) -> bool {
    let is_due = *deadline <= now;
    if is_due {
        *deadline = NEVER;
    }
    is_due
}

impl Default for Timers {
    fn default() -> Self {
        Timers::new()
    }
}
