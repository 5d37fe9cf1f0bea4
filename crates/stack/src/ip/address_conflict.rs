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
use crate::ip::network::Network;
use crate::ip::own_address::{AddressState, Claim, LostAddress, PROBE_NUM};
use qanat_nic::{Time, Vnic};
use qanat_wire::arp;
use std::net::Ipv4Addr;
use std::time::Duration;

/// RFC 5227 section 1.1.
const ANNOUNCE_NUM: u8 = 2;
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Between attempts to send while the device has no room.
const AGAIN: Duration = Duration::from_millis(50);

impl Network {
    fn detects_conflicts(&self) -> bool {
        // The kernel defends an address that it shares with us.
        !self.shared_address && self.trial.mode != DuplicateAddressDetection::Off
    }

    /// Puts the IPv4 addresses on trial.
    pub(super) fn start_claims(&mut self, now: Time) {
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
    pub(super) fn poll_claims(&mut self, now: Time, vnic: &mut dyn Vnic) {
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

    pub(super) fn claim_deadline(&self) -> Option<Time> {
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

    /// An ARP packet that shows a conflict over one of our addresses has been dealt with; if that was on trial, it is lost.
    pub(super) fn input_address_conflict(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        packet: &arp::Header,
    ) -> Option<Option<LostAddress>> {
        let address = self.conflict_in(packet)?;
        self.counters.address_conflicts += 1;
        let of_it = |claim: &Claim| claim.address == address;
        let is_on_trial = self.claims.iter().any(|claim| of_it(claim) && claim.is_on_trial());
        if is_on_trial {
            self.claims.retain(|claim| !of_it(claim));
            self.routes.set_state(address.into(), AddressState::Duplicate);
            let lost = LostAddress { address: address.into(), holder: packet.sender_hardware, is_replaced: false };
            return Some(Some(lost));
        }
        if self.defended_at.is_none_or(|at| now.since(at) >= DEFEND_INTERVAL) {
            // Section 2.4 (c), for servers: it is kept, and said to be ours.
            self.defended_at = Some(now);
            let sent = self.send_arp_request(vnic, address, address, None);
            self.counters.addresses_defended += u64::from(sent.is_some());
        }
        Some(None)
    }
}
