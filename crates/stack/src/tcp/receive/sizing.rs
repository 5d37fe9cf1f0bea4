//! The size of a connection's receive window, and what is measured to set it.

use crate::tcp::config::TcpConfig;
use crate::tcp::sequence::SequenceNumber;
use qanat_nic::Time;
use std::time::Duration;

/// Measurement and result.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(in crate::tcp) struct RightSizing {
    /// The window offered when nothing is held, bytes.
    pub limit: u32,
    /// The largest there may be, bytes.
    pub most: u32,
    /// Frames promised by [`ReceiveMemory`](crate::tcp::ReceiveMemory) for the part beyond the first size.
    pub reserved: u32,
    /// The most taken in a round trip so far, bytes.
    pub(super) space: u32,
    /// Taken since the measurement began, bytes.
    pub(super) taken: u32,
    /// When the measurement ends.
    pub(super) until: Time,
    /// The receiver's round-trip time, microseconds; zero: not known.
    pub(super) round_trip_us: u32,
    /// A sample is wanted from the next echo, or when `sequence` is reached.
    pub(super) sampling: bool,
    /// RCV.NXT that a whole window after `since` has.
    pub(super) sequence: SequenceNumber,
    pub(super) since: Time,
}

impl RightSizing {
    pub(in crate::tcp) fn new(config: &TcpConfig, most: u32) -> RightSizing {
        RightSizing {
            limit: most.min(config.receive_window_initial),
            most,
            reserved: 0,
            space: 0,
            taken: 0,
            until: Time::ZERO,
            round_trip_us: 0,
            sampling: false,
            sequence: SequenceNumber(0),
            since: Time::ZERO,
        }
    }

    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_micros(u64::from(self.round_trip_us))
    }
}
