//! Why a world is over, and what is said of it.

use qanat_wire::ethernet::MacAddress;
use std::time::Duration;

/// How long a program has to end by itself, as its calls fail.
pub(crate) const HEED: Duration = Duration::from_secs(1);

/// How long it has after that to end when it is asked to.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a world is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Somebody died in the middle of a change, or the keeper did.
    Killed,
    /// The card's interface is gone.
    Deleted,
    /// Another host on its link has its address.
    AddressTaken(MacAddress),
}

impl End {
    /// Never 0.
    pub(super) fn to_number(self) -> u64 {
        match self {
            End::Killed => 1,
            End::Deleted => 2,
            End::AddressTaken(mac) => mac.to_bits() << 8 | 3,
        }
    }

    pub(super) fn from_number(number: u64) -> End {
        match (number & 0xff, MacAddress::from_bits(number >> 8)) {
            (2, _) => End::Deleted,
            (3, Some(mac)) => End::AddressTaken(mac),
            _ => End::Killed,
        }
    }
}

/// What is said of it, in one line.
pub(crate) fn words(end: End) -> String {
    let (why, remedy) = match end {
        End::AddressTaken(holder) => (
            format!("the host {holder} on its link has its address"),
            "start it with another (--address), or take it from that host",
        ),
        End::Killed => (
            "one of those who share it was killed in the middle of the stack's work, or its qanat-keeper was"
                .to_owned(),
            "start it again",
        ),
        End::Deleted => (
            "its interface was deleted, by `qanat down`, `qanat vnic delete`, or another tool".to_owned(),
            "start it again, with the daemon (`qanat up`) or the interface there",
        ),
    };
    let (heed, patience) = (HEED.as_secs(), PATIENCE.as_secs());
    format!(
        "the virtual card is gone: {why}. Its sockets fail (ENETDOWN), so this program is ended, by SIGTERM after {heed} s and \
         SIGKILL {patience} s later; {remedy}"
    )
}
