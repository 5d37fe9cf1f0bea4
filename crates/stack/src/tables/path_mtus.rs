//! What paths take, as connections have learnt it: for others to the same host (RFC 8201 section 5.2, RFC 1191 section 3).
//!
//! Only what a connection has believed comes in here, so a forged message must quote what is in flight (RFC 5927). There are few
//! entries and each ends after ten minutes; a peer that makes up many of its own addresses' puts out others' and costs them a
//! segment each.

use qanat_nic::Time;
use std::net::IpAddr;
use std::time::Duration;

/// Hosts remembered.
const HOSTS_MAX: usize = 256;
/// RFC 8201 section 4: what was learnt is forgotten after ten minutes.
const AGE: Duration = Duration::from_secs(600);

#[derive(serde::Serialize, serde::Deserialize)]
struct Entry {
    host: IpAddr,
    /// Largest TCP segment, headers excluded.
    segment: u16,
    until: Time,
}

/// What the paths to some hosts take, the oldest first.
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct PathMtus {
    entries: Vec<Entry>,
    version: u32,
}

impl PathMtus {
    /// Changes with each entry. A connection that has seen this version need not look again.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// A connection has believed that the path to `host` takes segments of so many bytes.
    pub(crate) fn learn(&mut self, now: Time, host: IpAddr, segment: u16) {
        self.entries.retain(|entry| entry.until > now && entry.host != host);
        if self.entries.len() >= HOSTS_MAX {
            self.entries.remove(0);
        }
        self.entries.push(Entry { host, segment, until: now + AGE });
        self.version = self.version.wrapping_add(1);
    }

    /// What is known of the path to `host`. A walk over few entries, once for each connection and version.
    #[cold]
    pub(crate) fn segment(&self, now: Time, host: IpAddr) -> Option<u16> {
        self.entries.iter().find(|entry| entry.host == host && entry.until > now).map(|entry| entry.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_forgotten() {
        let host = |number: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number));
        let mut known = PathMtus::default();
        for number in 0..1_000 {
            known.learn(Time::ZERO, host(number), 1_000);
        }
        assert_eq!(known.entries.len(), HOSTS_MAX);
        assert_eq!((known.segment(Time::ZERO, host(999)), known.segment(Time::ZERO, host(0))), (Some(1_000), None));
        known.learn(Time::ZERO, host(999), 900);
        assert_eq!(known.segment(Time::ZERO, host(999)), Some(900));
        assert_eq!((known.segment(Time::ZERO + AGE, host(999)), known.version()), (None, 1_001));
    }
}
