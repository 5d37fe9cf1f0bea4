//! What is known of own addresses: whether they may be used, and how far those on trial have come.

use crate::config::DuplicateAddressDetection;
use qanat_nic::Time;
use qanat_wire::ethernet::MacAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// RFC 5227 section 1.1.
pub(super) const PROBE_NUM: u8 = 3;
const PROBE_MIN_MS: u64 = 1_000;
const PROBE_MAX_MS: u64 = 2_000;
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// PROBE_WAIT, but a tenth of it: whoever starts a service on a taken address wants to know soon.
const FIRST_MAX_MS: u64 = 100;

/// Whether an own address may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum AddressState {
    /// Yes.
    Usable,
    /// Not before it is known that nobody else has it.
    Tentative,
    /// Yes, though that is not known yet (RFC 4429).
    Optimistic,
    /// No: somebody else has it.
    Duplicate,
}

impl AddressState {
    pub(crate) fn is_usable(self) -> bool {
        matches!(self, AddressState::Usable | AddressState::Optimistic)
    }

    /// Detection is under way.
    pub(crate) fn is_undecided(self) -> bool {
        matches!(self, AddressState::Tentative | AddressState::Optimistic)
    }
}

/// How addresses are put on trial.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Trial {
    pub(crate) mode: DuplicateAddressDetection,
    /// Scatters the delays.
    pub(crate) key: u64,
}

/// An address under detection.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Detection {
    pub(super) address: Ipv6Addr,
    /// When to ask, or, if asked, when silence means that it is free.
    pub(super) due: Time,
    pub(super) asked: bool,
}

/// An IPv4 address that is on trial, or is being announced.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Claim {
    pub(super) address: Ipv4Addr,
    /// When the next message is due.
    pub(super) due: Time,
    /// Probes and announcements that have left.
    pub(super) sent: u8,
}

impl Claim {
    pub(super) fn is_on_trial(&self) -> bool {
        self.sent <= PROBE_NUM
    }

    /// From one message to the next, or from the last probe to the first announcement.
    pub(super) fn interval(&self, key: u64) -> Duration {
        match self.sent {
            0 => Duration::from_millis(key % FIRST_MAX_MS),
            PROBE_NUM => ANNOUNCE_WAIT,
            sent if sent > PROBE_NUM => ANNOUNCE_INTERVAL,
            sent => Duration::from_millis(PROBE_MIN_MS + (key >> (8 * sent)) % (PROBE_MAX_MS - PROBE_MIN_MS)),
        }
    }
}

/// An own address was found to be another's: those above end what was done from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostAddress {
    pub(crate) address: IpAddr,
    /// The host that has it.
    pub(crate) holder: MacAddress,
    /// It had been formed here (RFC 7217), and another takes its place.
    pub(crate) is_replaced: bool,
}
