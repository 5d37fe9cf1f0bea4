//! Multicast listener reports (RFC 3810; RFC 2710 towards older routers): switches that snoop them deliver neighbour
//! solicitations only to who listens to the group they are sent to.
//!
//! The groups are the solicited-node groups of our addresses, so there are never more than addresses. What is to be said
//! is a list of changes and one answer, each with a time; queries only bring the answer forward, so that their number
//! doesn't matter.

use crate::ip::network::{IpMeta, Network, prepend_ethernet};
use qanat_nic::{Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::multicast_listener::{
    self, DONE_DESTINATION, HOP_LIMIT, Query, REPORT_DESTINATION, ROUTER_ALERT, Record, RecordKind,
};
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
/// Records of one report: what an MTU of 1,280 bytes holds.
const RECORDS_MAX: usize = 60;
/// Between attempts to send while the device has no room.
const AGAIN: Duration = Duration::from_millis(50);

/// A change still to be told.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Change {
    group: Ipv6Addr,
    listening: bool,
    left: u8,
}

/// What has to be reported, and when.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct MulticastListener {
    enabled: bool,
    random: u64,
    changes: Vec<Change>,
    changes_due: Time,
    /// An answer due: about one group, or (`None`) all.
    answer: Option<(Time, Option<Ipv6Addr>)>,
    answered: Option<Time>,
    /// A version 1 querier was heard: until when to speak that version.
    older_until: Option<Time>,
}

impl MulticastListener {
    pub(crate) fn new(enabled: bool, key: u64) -> MulticastListener {
        MulticastListener { enabled, random: key, ..MulticastListener::default() }
    }

    /// SplitMix64: enough to keep hosts out of step.
    fn random_below(&mut self, limit_ms: u64) -> Duration {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis((mixed ^ mixed >> 31) % limit_ms.max(1))
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
    fn asked(&mut self, query: &Query, now: Time) {
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
    fn told_changes(&mut self, now: Time) {
        for change in &mut self.changes {
            change.left -= 1;
        }
        self.changes.retain(|change| change.left > 0);
        self.changes_due = now + self.random_below(UNSOLICITED_INTERVAL_MS);
    }
}

impl Network {
    /// Whether `message` is a query for listeners; if so it has been dealt with.
    pub(crate) fn input_query(&mut self, now: Time, meta: IpMeta, message: &qanat_wire::icmpv6::Message<'_>) -> bool {
        let Some(query) = Query::parse(message) else { return false };
        // Section 6.2: "If any of these checks fail, the packet is dropped."
        let from_link = matches!(meta.source, std::net::IpAddr::V6(source) if source.is_unicast_link_local());
        match query {
            Ok(query) if from_link && meta.hop_limit == HOP_LIMIT && self.listener.enabled => {
                self.counters.multicast_queries += 1;
                self.listener.asked(&query, now);
            }
            Ok(_) => self.counters.multicast_queries_ignored += 1,
            Err(_) => self.counters.icmp_invalid += 1,
        }
        true
    }

    /// Sends the reports that are due.
    pub(crate) fn poll_listener(&mut self, now: Time, vnic: &mut dyn Vnic) {
        if self.listener.older_until.is_some_and(|until| until <= now) {
            self.listener.older_until = None;
        }
        if !self.listener.changes.is_empty() && self.listener.changes_due <= now {
            let kind = |listening| if listening { RecordKind::Joined } else { RecordKind::Left };
            let records: Vec<Record> = self
                .listener
                .changes
                .iter()
                .map(|change| Record { kind: kind(change.listening), group: change.group })
                .collect();
            match self.report(vnic, &records) {
                Some(()) => self.listener.told_changes(now),
                None => self.listener.changes_due = now + AGAIN,
            }
        }
        if let Some((due, group)) = self.listener.answer
            && due <= now
        {
            self.listener.answer = None;
            let mut groups: Vec<Ipv6Addr> = self.routes.own_v6().map(solicited_node).collect();
            groups.sort_unstable();
            groups.dedup();
            groups.retain(|own| group.is_none_or(|group| group == *own));
            let records: Vec<Record> =
                groups.into_iter().map(|group| Record { kind: RecordKind::IsListening, group }).collect();
            if !records.is_empty() {
                self.listener.answered = Some(now);
                if self.report(vnic, &records).is_none() {
                    self.listener.answer = Some((now + AGAIN, group));
                }
            }
        }
    }

    /// Reports in the version that the link's routers speak.
    fn report(&mut self, vnic: &mut dyn Vnic, records: &[Record]) -> Option<()> {
        if self.listener.older_until.is_none() {
            for records in records.chunks(RECORDS_MAX) {
                let length =
                    multicast_listener::REPORT_HEADER_LENGTH + records.len() * multicast_listener::RECORD_LENGTH;
                self.send_report(vnic, REPORT_DESTINATION, length, |bytes, sum| {
                    multicast_listener::emit_report(bytes, records, sum).ok()
                })?;
            }
            return Some(());
        }
        for record in records {
            let listening = record.kind != RecordKind::Left;
            let destination = if listening { record.group } else { DONE_DESTINATION };
            self.send_report(vnic, destination, multicast_listener::VERSION_1_LENGTH, |bytes, sum| {
                multicast_listener::emit_version_1(bytes, record.group, listening, sum).ok()
            })?;
        }
        Some(())
    }

    fn send_report(
        &mut self,
        vnic: &mut dyn Vnic,
        destination: Ipv6Addr,
        length: usize,
        emit: impl FnOnce(&mut [u8], u16) -> Option<usize>,
    ) -> Option<()> {
        // RFC 3590 section 4: from a link-local address, or without one from the unspecified address.
        let source = self
            .routes
            .own_v6()
            .find(|address| address.is_unicast_link_local() && self.routes.is_usable((*address).into()))
            .unwrap_or(Ipv6Addr::UNSPECIFIED);
        let mut frame = self.frame(vnic)?;
        let mut meta = IpMeta::new(source.into(), destination.into(), Protocol::ICMPV6);
        let sum = meta.pseudo_header_sum(length);
        frame.append(ROUTER_ALERT.len())?.copy_from_slice(&ROUTER_ALERT);
        emit(frame.append(length)?, sum)?;
        meta.protocol = Protocol::HOP_BY_HOP;
        meta.hop_limit = HOP_LIMIT;
        let ethertype = meta.prepend(&mut frame, ROUTER_ALERT.len() + length)?;
        prepend_ethernet(&mut frame, &self.link, MacAddress::for_ipv6_multicast(destination), ethertype)?;
        self.transmit(vnic, TransmitBuffer::Owned(frame), TransmitOptions::default()).then_some(())?;
        self.counters.multicast_reports += 1;
        Some(())
    }
}
