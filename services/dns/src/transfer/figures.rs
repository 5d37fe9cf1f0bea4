//! What transfers have done, counted.

use serde::Serialize;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TransferFigures {
    /// Zones sent whole.
    pub whole_out: u64,
    /// Differences sent.
    pub steps_out: u64,
    /// Clients that had the newest version.
    pub current_out: u64,
    /// Transfers not allowed.
    pub refused: u64,
    /// Requests whose signature did not hold.
    pub bad_signatures: u64,
    /// NOTIFY taken.
    pub notified: u64,
    /// NOTIFY from somebody who is no primary.
    pub notify_refused: u64,
    /// Zones received.
    pub received: u64,
    /// Zones received that could not be served.
    pub unusable: u64,
    /// Attempts to fetch a zone that failed.
    pub failed: u64,
    /// Zones that expired.
    pub expired: u64,
}

impl TransferFigures {
    /// Adds those of another instance.
    pub fn add(&mut self, other: &TransferFigures) {
        let pairs = [
            (&mut self.whole_out, other.whole_out),
            (&mut self.steps_out, other.steps_out),
            (&mut self.current_out, other.current_out),
            (&mut self.refused, other.refused),
            (&mut self.bad_signatures, other.bad_signatures),
            (&mut self.notified, other.notified),
            (&mut self.notify_refused, other.notify_refused),
            (&mut self.received, other.received),
            (&mut self.unusable, other.unusable),
            (&mut self.failed, other.failed),
            (&mut self.expired, other.expired),
        ];
        pairs.into_iter().for_each(|(sum, count)| *sum += count);
    }
}
