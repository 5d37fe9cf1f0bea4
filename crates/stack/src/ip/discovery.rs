//! Neighbour discovery (RFC 4861): solicitations and advertisements, answered and sent.

use crate::ip::network::Network;
use crate::ip::own_address::{AddressState, LostAddress};
use crate::ip::packet::{IpMeta, prepend_ethernet};
use qanat_nic::{Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::neighbor_discovery::{self, Discovery, solicited_node};
use std::net::{IpAddr, Ipv6Addr};

impl Network {
    /// A message that has crossed no router. Gives the address of ours that is lost by it.
    pub(super) fn input_discovery(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        source_mac: MacAddress,
        header: &neighbor_discovery::Header,
    ) -> Option<LostAddress> {
        let IpAddr::V6(source) = meta.source else { return None };
        if self.shared_address {
            return None;
        }
        match header.discovery {
            Discovery::NeighborSolicitation { target } if self.routes.is_own(target.into()) => {
                let lost = self.input_conflict(now, vnic, target, source_mac, source.is_unspecified());
                if lost.is_some() || !self.routes.is_usable(target.into()) {
                    return lost;
                }
                let mac = header.options.source_link_layer.unwrap_or(source_mac);
                if !source.is_unspecified() {
                    self.learn(now, vnic, source.into(), mac, false, true);
                }
                self.advertise(vnic, target, (!source.is_unspecified()).then_some((source, mac)));
            }
            Discovery::NeighborAdvertisement { solicited, target, .. } => {
                let lost = self.input_conflict(now, vnic, target, source_mac, true);
                if lost.is_some() {
                    return lost;
                }
                let mac = header.options.target_link_layer.unwrap_or(source_mac);
                self.learn(now, vnic, target.into(), mac, solicited, false);
            }
            Discovery::RouterAdvertisement { lifetime_s, .. } => {
                self.learn_router(now, vnic, source, lifetime_s, &header.options);
            }
            _ => {}
        }
        None
    }

    /// Answers a neighbour solicitation of `to`. `None` means that duplicate address detection asked, so all are told.
    fn advertise(&mut self, vnic: &mut dyn Vnic, target: Ipv6Addr, to: Option<(Ipv6Addr, MacAddress)>) {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let options = neighbor_discovery::Options {
            target_link_layer: Some(self.link.mac),
            ..neighbor_discovery::Options::default()
        };
        // RFC 4429 section 3.3: with an optimistic address nobody's entry is replaced.
        let replaces = self.routes.state(target.into()) == Some(AddressState::Usable);
        let discovery = Discovery::NeighborAdvertisement { router: false, solicited: to.is_some(), replaces, target };
        let message = neighbor_discovery::Header { discovery, options };
        let (destination, mac) = to.unwrap_or((ALL_NODES, MacAddress::for_ipv6_multicast(ALL_NODES)));
        if self.send_discovery(vnic, target, destination, mac, &message).is_some() {
            self.counters.arp_answered += 1;
        }
    }

    /// Sends an ARP request or neighbour solicitation, to `mac` if known, else to all.
    pub(super) fn ask(&mut self, now: Time, vnic: &mut dyn Vnic, address: IpAddr, mac: Option<MacAddress>) {
        if !self.request_limit.allow(now) {
            self.counters.neighbour_rate_limited += 1;
            return;
        }
        let sent = match (address, self.routes.source_for(address)) {
            (IpAddr::V4(target), Some(IpAddr::V4(source))) => self.send_arp_request(vnic, source, target, mac),
            (IpAddr::V6(target), Some(IpAddr::V6(source))) => {
                self.send_neighbour_solicitation(vnic, source, target, mac)
            }
            _ => None,
        };
        self.counters.neighbour_requests += u64::from(sent.is_some());
    }

    fn send_neighbour_solicitation(
        &mut self,
        vnic: &mut dyn Vnic,
        source: Ipv6Addr,
        target: Ipv6Addr,
        mac: Option<MacAddress>,
    ) -> Option<()> {
        let destination = if mac.is_some() { target } else { solicited_node(target) };
        // RFC 4429 section 3.2: an optimistic address must not replace what neighbours know.
        let optimistic = self.routes.state(source.into()) == Some(AddressState::Optimistic);
        let options = neighbor_discovery::Options {
            source_link_layer: (!optimistic).then_some(self.link.mac),
            ..neighbor_discovery::Options::default()
        };
        let message = neighbor_discovery::Header { discovery: Discovery::NeighborSolicitation { target }, options };
        let mac = mac.unwrap_or_else(|| MacAddress::for_ipv6_multicast(destination));
        self.send_discovery(vnic, source, destination, mac, &message)
    }

    /// Sends a neighbour discovery message (RFC 4861) straight to an Ethernet address.
    pub(super) fn send_discovery(
        &mut self,
        vnic: &mut dyn Vnic,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        mac: MacAddress,
        message: &neighbor_discovery::Header,
    ) -> Option<()> {
        let mut frame = self.frame(vnic)?;
        let length = message.encoded_length();
        let mut meta = IpMeta::new(source.into(), destination.into(), Protocol::ICMPV6);
        meta.hop_limit = neighbor_discovery::HOP_LIMIT;
        message.emit(frame.append(length)?, meta.pseudo_header_sum(length)).ok()?;
        let ethertype = meta.prepend(&mut frame, length)?;
        prepend_ethernet(&mut frame, &self.link, mac, ethertype)?;
        self.transmit(vnic, TransmitBuffer::Owned(frame), TransmitOptions::default()).then_some(())
    }
}
