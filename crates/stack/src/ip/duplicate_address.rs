//! Duplicate address detection (RFC 4862 section 5.4; optimistic: RFC 4429), for IPv6 addresses.
//!
//! ```text
//!  tentative ── nobody answers within RetransTimer ──▶ usable
//!      │ ↘ (optimistic: used meanwhile)
//!      └── somebody has it, or asks for it too ──▶ duplicate: never used, Event::AddressConflict
//! ```

use crate::config::DuplicateAddressDetection;
use crate::ip::neighbour::RETRANSMIT;
use crate::ip::network::Network;
use crate::ip::own_address::{AddressState, Detection, LostAddress, Trial};
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::neighbor_discovery::{self, Discovery, solicited_node};
use std::net::Ipv6Addr;
use std::time::Duration;

/// RFC 4861's MAX_RTR_SOLICITATION_DELAY: the first message waits a random part of it, so that hosts started together do
/// not ask in step.
const DELAY_MAX_MS: u64 = 1_000;
/// Between attempts to send while the device has no room.
const AGAIN: Duration = Duration::from_millis(50);

impl Network {
    /// Puts the IPv6 addresses on trial.
    pub(super) fn start_detection(&mut self, now: Time) {
        // The kernel's address: it has done this.
        if !self.shared_address {
            for address in self.routes.own_v6() {
                self.start_detection_of(address, now);
            }
        }
    }

    /// Puts an own address on trial, if they are.
    pub(super) fn start_detection_of(&mut self, address: Ipv6Addr, now: Time) {
        let Trial { mode, key } = self.trial;
        let state = match mode {
            DuplicateAddressDetection::Off => {
                self.listener.change(address, true, now);
                return;
            }
            DuplicateAddressDetection::On => AddressState::Tentative,
            DuplicateAddressDetection::Optimistic => AddressState::Optimistic,
        };
        self.routes.set_state(address.into(), state);
        let delay_ms = (key ^ (address.to_bits() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) % DELAY_MAX_MS;
        let detection = Detection { address, due: now + Duration::from_millis(delay_ms), asked: false };
        self.detections.push(detection);
    }

    /// An address that is no longer ours is no longer on trial.
    pub(super) fn end_detection_of(&mut self, address: Ipv6Addr) {
        self.detections.retain(|detection| detection.address != address);
    }

    /// Asks, and takes silence for an answer.
    pub(super) fn poll_detection(&mut self, now: Time, vnic: &mut dyn Vnic) {
        let mut index = 0;
        while let Some(&Detection { address, due, asked }) = self.detections.get(index) {
            if due > now {
                index += 1;
            } else if asked {
                self.detections.swap_remove(index);
                self.routes.set_state(address.into(), AddressState::Usable);
                self.counters.addresses_verified += 1;
                if address.is_unicast_link_local() {
                    self.listener.tell_all(now);
                }
            } else {
                // Section 5.4.2: the group is joined before, or the answer to a solicitation may not get here.
                self.listener.change(address, true, now);
                self.poll_listener(now, vnic);
                let sent = self.ask_for_duplicate(vnic, address).is_some();
                if let Some(detection) = self.detections.get_mut(index) {
                    detection.asked = sent;
                    detection.due = now + if sent { RETRANSMIT } else { AGAIN };
                }
                index += 1;
            }
        }
    }

    pub(super) fn detection_deadline(&self) -> Option<Time> {
        self.detections.iter().map(|detection| detection.due).min()
    }

    /// Section 5.4.2: from the unspecified address to the solicited-node group, without a link-layer address.
    fn ask_for_duplicate(&mut self, vnic: &mut dyn Vnic, target: Ipv6Addr) -> Option<()> {
        let message = neighbor_discovery::Header {
            discovery: Discovery::NeighborSolicitation { target },
            options: neighbor_discovery::Options::default(),
        };
        let group = solicited_node(target);
        let mac = MacAddress::for_ipv6_multicast(group);
        self.send_discovery(vnic, Ipv6Addr::UNSPECIFIED, group, mac, &message)?;
        self.counters.address_probes_sent += 1;
        Some(())
    }

    /// Looks at a neighbour solicitation for, or advertisement of, one of our addresses. Gives the address if a conflict loses it.
    /// `claims` says that another host has or wants the address; only a solicitation with a source does not show that.
    pub(super) fn input_conflict(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        target: Ipv6Addr,
        source_mac: MacAddress,
        claims: bool,
    ) -> Option<LostAddress> {
        let state = self.routes.state(target.into())?;
        // Our own message, looped back.
        if source_mac == self.link.mac || !claims {
            return None;
        }
        if !state.is_undecided() {
            self.counters.address_conflicts += u64::from(state == AddressState::Usable);
            return None;
        }
        self.counters.address_conflicts += 1;
        self.end_detection_of(target);
        self.routes.set_state(target.into(), AddressState::Duplicate);
        let is_replaced = self.replace_formed(now, vnic, target);
        Some(LostAddress { address: target.into(), holder: source_mac, is_replaced })
    }
}
