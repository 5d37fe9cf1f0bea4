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
use crate::stack::Stack;
use crate::tcp::Env;
use crate::transport::connections::env;
use qanat_api::{CloseReason, Event};
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::neighbor_discovery::{self, Discovery, solicited_node};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// RFC 4861's MAX_RTR_SOLICITATION_DELAY: the first message waits a random part of it, so that hosts started together do
/// not ask in step.
const DELAY_MAX_MS: u64 = 1_000;
/// Between attempts to send while the device has no room.
const AGAIN: Duration = Duration::from_millis(50);

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
    address: Ipv6Addr,
    /// When to ask, or, if asked, when silence means that it is free.
    due: Time,
    asked: bool,
}

impl Network {
    /// Puts the IPv6 addresses on trial.
    pub(crate) fn start_detection(&mut self, now: Time) {
        // The kernel's address: it has done this.
        if !self.shared_address {
            for address in self.routes.own_v6() {
                self.start_detection_of(address, now);
            }
        }
    }

    /// Puts an own address on trial, if they are.
    pub(crate) fn start_detection_of(&mut self, address: Ipv6Addr, now: Time) {
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
    pub(crate) fn end_detection_of(&mut self, address: Ipv6Addr) {
        self.detections.retain(|detection| detection.address != address);
    }

    /// Asks, and takes silence for an answer.
    pub(crate) fn poll_detection(&mut self, now: Time, vnic: &mut dyn Vnic) {
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

    pub(crate) fn detection_deadline(&self) -> Option<Time> {
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

    /// Somebody else has `address`, or wants it: whether that makes it a duplicate now.
    fn lose_address(&mut self, address: Ipv6Addr) -> bool {
        let undecided = self.routes.state(address.into()).is_some_and(AddressState::is_undecided);
        self.counters.address_conflicts += 1;
        if undecided {
            self.detections.retain(|detection| detection.address != address);
            self.routes.set_state(address.into(), AddressState::Duplicate);
        }
        undecided
    }
}

impl Stack {
    /// A neighbour solicitation for, or advertisement of, one of our addresses: whether it shows a conflict, which has then
    /// been dealt with. `wants`: a solicitation from the unspecified address, so another trial.
    pub(crate) fn input_conflict(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        target: Ipv6Addr,
        source_mac: MacAddress,
        claims: bool,
    ) -> bool {
        let Some(state) = self.network.routes.state(target.into()) else { return false };
        // Our own message, looped back.
        if source_mac == self.network.link.mac || !claims {
            return false;
        }
        if !state.is_undecided() {
            if state == AddressState::Usable {
                self.network.counters.address_conflicts += 1;
            }
            return false;
        }
        if self.network.lose_address(target) {
            let address = IpAddr::V6(target);
            if self.network.replace_formed(now, vnic, target) {
                self.drop_connections_of(now, address);
                self.events.push_back(Event::AddressConflict { address, holder: source_mac });
            } else {
                self.give_address_up(now, vnic, address, source_mac);
            }
        }
        true
    }

    /// Ends what was done from addresses whose lifetime is over.
    pub(crate) fn drop_lost_addresses(&mut self, now: Time) {
        for address in std::mem::take(&mut self.network.autoconfigured.lost) {
            self.drop_connections_of(now, address.into());
        }
    }

    /// Own addresses with the lengths of their prefixes, and whether each may be used.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, u8, AddressState)> + '_ {
        self.network.routes.addresses()
    }

    /// Ends what an optimistic address was used for. Nothing is sent: the address is another's.
    pub(crate) fn drop_connections_of(&mut self, now: Time, address: IpAddr) {
        // A walk over all connections, once an address at most.
        let lost: Vec<u32> = self
            .transport
            .connections
            .iter()
            .filter(|(_, slot)| slot.key.local_address() == address)
            .map(|(slot, _)| slot)
            .collect();
        for slot in lost {
            if let Some(connection) = self.transport.connections.at_mut(slot) {
                let disposition = connection.tcp.vanish(CloseReason::Unreachable, &mut env!(self, now));
                self.settle(now, slot, disposition);
            }
        }
    }

    /// Whether an own address may be used; `None`: not ours.
    pub fn address_state(&self, address: IpAddr) -> Option<AddressState> {
        self.network.routes.state(address)
    }
}
