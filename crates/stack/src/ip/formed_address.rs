//! Addresses formed from routers' prefixes, and how long they last.

use crate::config::Autoconfiguration;
use qanat_nic::Time;
use qanat_wire::neighbor_discovery::Prefix;
use std::net::Ipv6Addr;
use std::time::Duration;

/// An infinite lifetime.
const FOREVER: Time = Time::from_nanos(u64::MAX);

/// An address formed from a prefix.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Formed {
    pub(super) prefix: Prefix,
    pub(super) address: Ipv6Addr,
    pub(super) attempt: u8,
    pub(super) valid_until: Time,
    pub(super) preferred_until: Time,
    pub(super) deprecated: bool,
}

/// Addresses formed.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Autoconfigured {
    pub(super) settings: Option<Autoconfiguration>,
    pub(super) formed: Vec<Formed>,
    /// The link-local address is still to be formed, for which a device is needed.
    pub(super) begins: bool,
    /// Addresses that are gone, for the transports to be told.
    pub(crate) lost: Vec<Ipv6Addr>,
}

impl Autoconfigured {
    pub(crate) fn new(settings: Option<Autoconfiguration>) -> Autoconfigured {
        Autoconfigured { settings, begins: settings.is_some(), ..Autoconfigured::default() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if self.begins {
            return Some(Time::ZERO);
        }
        let due = |formed: &Formed| if formed.deprecated { formed.valid_until } else { formed.preferred_until };
        self.formed.iter().map(due).min().filter(|due| *due < FOREVER)
    }
}

/// When a lifetime is over.
pub(super) fn until(now: Time, lifetime_s: u32) -> Time {
    if lifetime_s == u32::MAX { FOREVER } else { now + Duration::from_secs(lifetime_s.into()) }
}
