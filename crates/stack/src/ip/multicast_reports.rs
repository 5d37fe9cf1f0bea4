//! Multicast listener queries taken and reports sent (RFC 3810, RFC 2710).

use crate::ip::network::Network;
use crate::ip::packet::{IpMeta, prepend_ethernet};
use qanat_nic::{Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::multicast_listener::{
    self, DONE_DESTINATION, HOP_LIMIT, Query, REPORT_DESTINATION, ROUTER_ALERT, Record, RecordKind,
};
use qanat_wire::neighbor_discovery::solicited_node;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Records of one report: what an MTU of 1,280 bytes holds.
const RECORDS_MAX: usize = 60;
/// Between attempts to send while the device has no room.
const AGAIN: Duration = Duration::from_millis(50);

impl Network {
    /// Whether `message` is a query for listeners; if so it has been dealt with.
    pub(super) fn input_query(&mut self, now: Time, meta: IpMeta, message: &qanat_wire::icmpv6::Message<'_>) -> bool {
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
    pub(super) fn poll_listener(&mut self, now: Time, vnic: &mut dyn Vnic) {
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
