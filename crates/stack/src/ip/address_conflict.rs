//! IPv4 address conflict detection (RFC 5227).
//!
//! ```text
//!  on trial ── three probes, nobody answers ──▶ announced twice ──▶ ours, and defended
//!      └────── somebody has it, or probes for it too ──▶ duplicate: never used, Event::AddressConflict
//! ```
//! RFC 5227 asks for silence while an address is on trial. Here the address is used meanwhile, as an optimistic IPv6 address is
//! (RFC 4429): a server would be silent for seven seconds at each start otherwise, and Linux does not probe at all. A host that has the
//! address answers the first probe, so the conflict lasts for a round trip.

use crate::config::DuplicateAddressDetection;
use crate::ip::duplicate_address::AddressState;
use crate::ip::network::Network;
use crate::stack::Stack;
use qanat_api::Event;
use qanat_nic::{Time, Vnic};
use qanat_wire::arp;
use qanat_wire::ethernet::MacAddress;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// RFC 5227 section 1.1.
const PROBE_NUM: u8 = 3;
const PROBE_MIN_MS: u64 = 1_000;
const PROBE_MAX_MS: u64 = 2_000;
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
const ANNOUNCE_NUM: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// PROBE_WAIT, but a tenth of it: whoever starts a service on a taken address wants to know soon.
const FIRST_MAX_MS: u64 = 100;
/// Between attempts to send while the device has no room.
const AGAIN: Duration = Duration::from_millis(50);

/// An IPv4 address that is on trial, or is being announced.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Claim {
    address: Ipv4Addr,
    /// When the next message is due.
    due: Time,
    /// Probes and announcements that have left.
    sent: u8,
}

impl Claim {
    fn is_on_trial(&self) -> bool {
        self.sent <= PROBE_NUM
    }

    /// From one message to the next, or from the last probe to the first announcement.
    fn interval(&self, key: u64) -> Duration {
        match self.sent {
            0 => Duration::from_millis(key % FIRST_MAX_MS),
            PROBE_NUM => ANNOUNCE_WAIT,
            sent if sent > PROBE_NUM => ANNOUNCE_INTERVAL,
            sent => Duration::from_millis(PROBE_MIN_MS + (key >> (8 * sent)) % (PROBE_MAX_MS - PROBE_MIN_MS)),
        }
    }
}

impl Network {
    fn detects_conflicts(&self) -> bool {
        // The kernel defends an address that it shares with us.
        !self.shared_address && self.trial.mode != DuplicateAddressDetection::Off
    }

    /// Puts the IPv4 addresses on trial.
    pub(crate) fn start_claims(&mut self, now: Time) {
        if self.detects_conflicts() {
            let key = self.trial.key;
            let claim = |address: Ipv4Addr| {
                let claim = Claim { address, due: now, sent: 0 };
                Claim { due: now + claim.interval(key ^ u64::from(address.to_bits())), ..claim }
            };
            self.claims.extend(self.routes.own_v4().map(claim));
        }
    }

    /// Probes and announces.
    pub(crate) fn poll_claims(&mut self, now: Time, vnic: &mut dyn Vnic) {
        let key = self.trial.key;
        let mut index = 0;
        while let Some(&claim) = self.claims.get(index) {
            if claim.due > now {
                index += 1;
                continue;
            }
            let Claim { address, sent, .. } = claim;
            let is_probe = sent < PROBE_NUM;
            let source = if is_probe { Ipv4Addr::UNSPECIFIED } else { address };
            if self.send_arp_request(vnic, source, address, None).is_none() {
                self.claims[index].due = now + AGAIN;
                index += 1;
                continue;
            }
            self.counters.address_probes_sent += u64::from(is_probe);
            self.counters.addresses_verified += u64::from(sent == PROBE_NUM);
            if sent + 1 == PROBE_NUM + ANNOUNCE_NUM {
                self.claims.swap_remove(index);
            } else {
                let next = Claim { sent: sent + 1, ..claim };
                self.claims[index] = Claim { due: now + next.interval(key ^ u64::from(address.to_bits())), ..next };
                index += 1;
            }
        }
    }

    pub(crate) fn claim_deadline(&self) -> Option<Time> {
        self.claims.iter().map(|claim| claim.due).min()
    }

    /// The address of ours that an ARP packet shows to be another's as well.
    fn conflict_in(&self, packet: &arp::Header) -> Option<Ipv4Addr> {
        // Our own message, looped back.
        if !self.detects_conflicts() || packet.sender_hardware == self.link.mac {
            return None;
        }
        let is_ours = |address: Ipv4Addr| self.routes.state(address.into()) == Some(AddressState::Usable);
        let is_probe = packet.operation == arp::Operation::REQUEST && packet.sender_protocol.is_unspecified();
        let on_trial =
            |address: &Ipv4Addr| self.claims.iter().any(|claim| claim.address == *address && claim.is_on_trial());
        let claimed = match is_probe {
            // Section 2.1.1: of two that probe at once neither has it. Later a probe is a question, which is answered.
            true => Some(packet.target_protocol).filter(on_trial),
            false => Some(packet.sender_protocol),
        };
        claimed.filter(|address| is_ours(*address))
    }
}

impl Stack {
    /// Whether an ARP packet shows a conflict over one of our addresses, which has then been dealt with.
    pub(crate) fn input_address_conflict(&mut self, now: Time, vnic: &mut dyn Vnic, packet: &arp::Header) -> bool {
        let Some(address) = self.network.conflict_in(packet) else { return false };
        self.network.counters.address_conflicts += 1;
        let of_it = |claim: &Claim| claim.address == address;
        let is_on_trial = self.network.claims.iter().any(|claim| of_it(claim) && claim.is_on_trial());
        if is_on_trial {
            self.network.claims.retain(|claim| !of_it(claim));
            self.network.routes.set_state(address.into(), AddressState::Duplicate);
            self.give_address_up(now, vnic, address.into(), packet.sender_hardware);
        } else if self.network.defended_at.is_none_or(|at| now.since(at) >= DEFEND_INTERVAL) {
            // Section 2.4 (c), for servers: it is kept, and said to be ours.
            self.network.defended_at = Some(now);
            let sent = self.network.send_arp_request(vnic, address, address, None);
            self.network.counters.addresses_defended += u64::from(sent.is_some());
        }
        true
    }

    /// An address is another's: what was done from it ends, the device leaves it to others, and the service is told.
    pub(crate) fn give_address_up(&mut self, now: Time, vnic: &mut dyn Vnic, address: IpAddr, holder: MacAddress) {
        self.drop_connections_of(now, address);
        vnic.release_address(address);
        self.lost_address.get_or_insert((address, holder));
        self.events.push_back(Event::AddressConflict { address, holder });
    }

    /// The first own address that was found to be another's, and who has it, once none of them is left.
    pub fn lost_address(&self) -> Option<(IpAddr, MacAddress)> {
        let are_all_lost = || self.network.routes.addresses().all(|(.., state)| state == AddressState::Duplicate);
        self.lost_address.filter(|_| are_all_lost())
    }
}
