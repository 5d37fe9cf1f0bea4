//! Multicast listener reports (RFC 3810; RFC 2710 towards older routers): switches that snoop them deliver neighbour
//! solicitations only to hosts that listen to the group they are sent to.
//!
//! The groups are the solicited-node groups of our addresses, so there are never more than addresses. What is to be said
//! is a list of changes and one answer, each with a time; queries only bring the answer forward, so that their number
//! doesn't matter.

use qanat_nic::{Random, Time};
use qanat_wire::multicast_listener::Query;
use qanat_wire::neighbor_discovery::solicited_node;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Times a change is told (Robustness Variable, section 9.1).
const ROBUSTNESS: u8 = 2;
/// Unsolicited Report Interval (section 9.11).
const UNSOLICITED_INTERVAL_MS: u64 = 1_000;
/// Older Version Querier Present Timeout (section 9.12) with the default query interval of 125 s.
const OLDER_QUERIER: Duration = Duration::from_secs(2 * 125 + 10);
/// Between two answers at least, whatever queries ask for.
const ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// A change still to be told.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Change {
    pub(super) group: Ipv6Addr,
    pub(super) listening: bool,
    left: u8,
}

/// What has to be reported, and when.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct MulticastListener {
    pub(super) enabled: bool,
    random: u64,
    pub(super) changes: Vec<Change>,
    pub(super) changes_due: Time,
    /// An answer due: about one group, or (`None`) all.
    pub(super) answer: Option<(Time, Option<Ipv6Addr>)>,
    pub(super) answered: Option<Time>,
    /// A version 1 querier was heard: until when to speak that version.
    pub(super) older_until: Option<Time>,
}

impl MulticastListener {
    pub(crate) fn new(enabled: bool, key: u64) -> MulticastListener {
        MulticastListener { enabled, random: key, ..MulticastListener::default() }
    }

    /// A time below `limit_ms`, so that hosts answer out of step.
    fn random_below(&mut self, limit_ms: u64) -> Duration {
        self.random = self.random.wrapping_add(1);
        Duration::from_millis(Random::new(self.random).below(limit_ms))
    }

    /// The group of an address of ours begins or ends to matter; told at once, and once again.
    pub(crate) fn change(&mut self, address: Ipv6Addr, listening: bool, now: Time) {
        if !self.enabled {
            return;
        }
        let group = solicited_node(address);
        self.changes.retain(|change| change.group != group);
        self.changes.push(Change { group, listening, left: ROBUSTNESS });
        self.changes_due = now;
    }

    /// RFC 3590 section 4: with a link-local address to speak from, everything is told again.
    pub(crate) fn tell_all(&mut self, now: Time) {
        if self.enabled {
            self.answer = Some((now, None));
        }
    }

    /// A query that came from a router on the link (section 6.2).
    pub(super) fn asked(&mut self, query: &Query, now: Time) {
        if query.version == 1 {
            self.older_until = Some(now + OLDER_QUERIER);
        }
        let limit_ms = query.response_max.as_millis().min(u128::from(u64::MAX)) as u64;
        let earliest = self.answered.map_or(now, |answered| now.max(answered + ANSWER_INTERVAL));
        let due = earliest + self.random_below(limit_ms);
        self.answer = Some(match self.answer {
            // An answer about more, or about something else: all of it, at the earlier time.
            Some((before, group)) => (before.min(due), if group == query.group { group } else { None }),
            None => (due, query.group),
        });
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let change = (!self.changes.is_empty()).then_some(self.changes_due);
        [change, self.answer.map(|(due, _)| due)].into_iter().flatten().min()
    }

    /// Notes that the changes were told.
    pub(super) fn told_changes(&mut self, now: Time) {
        for change in &mut self.changes {
            change.left -= 1;
        }
        self.changes.retain(|change| change.left > 0);
        self.changes_due = now + self.random_below(UNSOLICITED_INTERVAL_MS);
    }
}
