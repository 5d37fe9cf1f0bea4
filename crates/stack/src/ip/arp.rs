//! ARP (RFC 826): requests answered and sent, announcements (RFC 5227).

use crate::ip::network::Network;
use crate::ip::own_address::LostAddress;
use crate::ip::packet::prepend_ethernet;
use qanat_nic::{Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::arp;
use qanat_wire::ethernet::{EtherType, MacAddress};
use std::net::{IpAddr, Ipv4Addr};

impl Network {
    /// RFC 826, and RFC 5227 for probes (sender address zero).
    /// Gives the address of ours that is lost by it.
    pub(crate) fn input_arp(&mut self, now: Time, vnic: &mut dyn Vnic, packet: arp::Header) -> Option<LostAddress> {
        if self.shared_address {
            return None;
        }
        if let Some(lost) = self.input_address_conflict(now, vnic, &packet) {
            return lost;
        }
        let sender = IpAddr::V4(packet.sender_protocol);
        let for_us = self.routes.is_usable(packet.target_protocol.into());
        match packet.operation {
            arp::Operation::REQUEST if for_us => {
                self.learn(now, vnic, sender, packet.sender_hardware, false, true);
                let reply = packet.reply(self.link.mac);
                if packet.sender_hardware.is_unicast() && self.send_arp(vnic, reply, packet.sender_hardware).is_some() {
                    self.counters.arp_answered += 1;
                }
            }
            arp::Operation::REPLY => {
                self.learn(now, vnic, sender, packet.sender_hardware, for_us, false);
            }
            arp::Operation::REQUEST => {
                // A gratuitous announcement refreshes what is known already, never adds.
                if packet.sender_protocol == packet.target_protocol {
                    self.learn(now, vnic, sender, packet.sender_hardware, false, false);
                }
            }
            _ => self.counters.arp_invalid += 1,
        }
        None
    }

    /// Announces every IPv4 address (RFC 5227 section 2.3): whoever asked in vain before we were there asks no more.
    pub(crate) fn announce(&mut self, vnic: &mut dyn Vnic) {
        let own: Vec<IpAddr> = self.routes.addresses().map(|(address, ..)| address).collect();
        for address in own {
            if let IpAddr::V4(own) = address {
                // Without room to send it: it is asked for again, as it would be without.
                let _ = self.send_arp_request(vnic, own, own, None);
            }
        }
    }

    pub(super) fn send_arp_request(
        &mut self,
        vnic: &mut dyn Vnic,
        source: Ipv4Addr,
        target: Ipv4Addr,
        mac: Option<MacAddress>,
    ) -> Option<()> {
        let request = arp::Header {
            operation: arp::Operation::REQUEST,
            sender_hardware: self.link.mac,
            sender_protocol: source,
            target_hardware: MacAddress::default(),
            target_protocol: target,
        };
        self.send_arp(vnic, request, mac.unwrap_or(MacAddress::BROADCAST))
    }

    /// Sends an ARP packet to `destination`.
    pub(super) fn send_arp(&mut self, vnic: &mut dyn Vnic, packet: arp::Header, destination: MacAddress) -> Option<()> {
        let mut frame = self.frame(vnic)?;
        packet.emit(frame.append(arp::PACKET_LENGTH)?).ok()?;
        prepend_ethernet(&mut frame, &self.link, destination, EtherType::ARP)?;
        self.transmit(vnic, TransmitBuffer::Owned(frame), TransmitOptions::default()).then_some(())
    }
}
