//! Where a connection is in loss recovery, and what an ACK told of it.

use std::time::Duration;

/// Where a connection is in loss recovery (Linux calls them Open, CWR, Recovery, Loss).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Phase {
    /// None.
    Open,
    /// Reducing because of ECN, nothing lost.
    Reduced,
    /// Fast recovery.
    Recovery,
    /// After a retransmission time-out.
    Loss,
}

/// What an ACK told, for recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct AckNews {
    /// Octets between SND.UNA and SND.NXT before it.
    pub flight: u32,
    /// Octets newly acknowledged or sacked.
    pub delivered: u32,
    /// SND.UNA advanced.
    pub advanced: bool,
    /// Octets newly sacked.
    pub sacked: u32,
    /// It repeated the last ACK while data is outstanding (RFC 5681 §2).
    pub duplicate: bool,
    /// It carried a D-SACK.
    pub duplicate_report: bool,
    /// It carried ECE.
    pub congestion_echo: bool,
    /// Latest RTT sample, zero for none.
    pub rtt: Duration,
    /// TSecr.
    pub echo: Option<u32>,
}
