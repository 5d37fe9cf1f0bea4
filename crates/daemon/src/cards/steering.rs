//! Which filters count for a VNIC, in which order, and which queue, or other VNIC, gets what they cover.
//!
//! A filter made by `create_filter` counts where it is assigned. Assigned to a VNIC that has not its address, it takes that
//! address's packets there: the VNIC that has it sends them on. In every change the receiver's rows are written before the
//! sender's, and what was a receiver stays one until it is told otherwise, so that no packet on its way is lost.

use crate::cards::assignment::Assignment;
use crate::cards::tap;
use crate::cards::vnic::Vnic;
use crate::daemon::Daemon;
use crate::fence::tables;
use crate::log::Event;
use qanat_control::address::Address;
use qanat_control::filter::{Addresses, Direction, Filter};
use qanat_control::refusal::Refusal;

/// The one address all of these are about.
fn address_of(filters: &[Filter]) -> Option<Addresses> {
    let (first, rest) = filters.split_first()?;
    let span = first.local.span();
    (span.first == span.last && rest.iter().all(|filter| filter.local == first.local)).then_some(first.local)
}

impl Daemon {
    /// Lets filter `number` count for VNIC `slot`, and what it covers be received by `queue`.
    pub(crate) fn assign_filter(&mut self, slot: u32, number: u64, queue: Option<u32>) -> Result<(), Refusal> {
        let object = self.filters.get(&number).ok_or("the filter is gone")?;
        let (direction, filters) = (object.direction, object.filters.clone());
        let vnic = self.vnics.get(&slot).ok_or("the VNIC is gone")?;
        vnic.check_queue(direction, queue)?;
        if vnic.is_tap() {
            filters.iter().try_for_each(tap::check_filter)?;
        }
        let user = vnic.user;
        let owner = address_of(&filters).filter(|address| !vnic.has_address(*address)).and_then(|address| {
            self.vnics.values().find(|other| other.has_address(address)).map(|other| (other.slot, other.user))
        });
        let granted = match owner {
            None => None,
            Some((_, other)) if other != user => {
                return Err("the filter's address is another user's VNIC's".into());
            }
            // What other cards send to a TAP device goes to no third one.
            Some((owner, _)) if self.vnics.get(&owner).is_some_and(Vnic::is_tap) => {
                let text = "the filter's address is a TAP device's, whose packets go to no other card: use provider veth there";
                return Err(text.into());
            }
            Some((owner, _)) => Some(owner),
        };
        let assignment = Assignment { direction, filters, queue, granted, diverted: None };
        let diversion = Assignment { queue: None, granted: None, diverted: Some(slot), ..assignment.clone() };
        self.put_assignment(slot, number, assignment)?;
        match granted.filter(|_| direction == Direction::Receive) {
            Some(owner) => self.put_assignment(owner, number, diversion),
            None => Ok(()),
        }
    }

    fn put_assignment(&mut self, slot: u32, number: u64, assignment: Assignment) -> Result<(), Refusal> {
        self.dirty.insert(slot);
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let before = vnic.assigned.insert(number, assignment);
        let written = vnic.write_filters(&mut self.tables);
        if written.is_err() {
            match before {
                Some(before) => vnic.assigned.insert(number, before),
                None => vnic.assigned.remove(&number),
            };
        }
        Ok(written?)
    }

    /// Lets filter `number` count no more for VNIC `slot`.
    pub(crate) fn unassign_filter(&mut self, slot: u32, number: u64) -> Result<(), Refusal> {
        let is_way = |assignment: &Assignment| assignment.diverted == Some(slot);
        let ways: Vec<u32> = self
            .vnics
            .values()
            .filter(|vnic| vnic.slot == slot || vnic.assigned.get(&number).is_some_and(is_way))
            .map(|vnic| vnic.slot)
            .collect();
        // Those that send before the one that receives.
        for from in ways.iter().filter(|from| **from != slot).chain([&slot]) {
            self.dirty.insert(*from);
            let Some(vnic) = self.vnics.get_mut(from) else { continue };
            if let Some(before) = vnic.assigned.remove(&number)
                && let Err(error) = vnic.write_filters(&mut self.tables)
            {
                vnic.assigned.insert(number, before);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Forgets what others had to do with a VNIC that is gone: its packets, and its addresses.
    pub(crate) fn forget_way(&mut self, slot: u32) {
        for vnic in self.vnics.values_mut() {
            let count = vnic.assigned.len();
            vnic.assigned.retain(|_, a| a.diverted != Some(slot) && a.granted != Some(slot));
            if vnic.assigned.len() < count {
                self.dirty.insert(vnic.slot);
                // Fewer rows always fit.
                let _ = vnic.write_filters(&mut self.tables);
            }
        }
    }

    /// Tells the fence the kernel's own addresses: what is for them is for the kernel, whoever else is on the wire.
    pub(crate) fn own_kernels(&mut self) {
        let uplink = self.uplink.iter().flat_map(|uplink| &uplink.addresses).map(|(address, _)| *address);
        // One that a VNIC shares is its, as far as the fence is concerned, and the rest of it passes.
        let is_shared = |address: &Address| {
            let has = |vnic: &Vnic| vnic.wish.shared && vnic.wish.addresses.iter().any(|(own, _)| own == address);
            self.vnics.values().any(has)
        };
        let own = self.policy.host.iter().map(|(address, _)| *address).chain(uplink);
        let addresses: Vec<Address> = own.filter(|address| !is_shared(address)).collect();
        for address in addresses {
            // Taken by a card that an earlier daemon made under another policy: it goes on until it is deleted.
            if let Err(error) = self.tables.own(tables::KERNEL, address) {
                (self.log)(&Event::new("kernel-addresses", "failed", error));
            }
        }
    }
}
