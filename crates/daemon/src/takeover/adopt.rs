//! An earlier daemon's VNICs and filters become this one's.

use crate::cards::vnic::Vnic;
use crate::cards::{nic, tap};
use crate::clients::orphan::Orphan;
use crate::clients::peer::Role;
use crate::daemon::{Daemon, FilterObject, Owner};
use crate::error::{DaemonError, say};
use crate::fence::{injectors, tables};
use crate::log::Event;
use crate::state::{Kept, VnicState};
use crate::takeover::leftovers::remove_all_but;
use qanat_control::protocol::VnicEnd;
use qanat_nic::link::{self, Link};
use qanat_wire::ethernet::MacAddress;
use std::collections::BTreeSet;

impl Daemon {
    /// Makes what was kept its own; says how many VNICs.
    pub(crate) fn adopt(&mut self, kept: Kept, is_new: bool) -> usize {
        for filter in kept.filters {
            let role = Role::Filter(filter.number);
            self.next_filter = self.next_filter.max(filter.number + 1);
            self.orphans.extend(filter.handles.iter().map(|handle| Orphan { role, handle: *handle }));
            let handles = filter.handles.len() as u32;
            let object = FilterObject { direction: filter.direction, filters: filter.filters, handles };
            self.filters.insert(filter.number, object);
        }
        for vnic in kept.vnics {
            let (slot, handles) = (vnic.slot, vnic.handles.clone());
            if let Err(error) = self.adopt_vnic(vnic, is_new) {
                self.state.remove_vnic(slot);
                (self.log)(&Event::new("vnic-take-back", "failed", error).of(slot));
                continue;
            }
            self.orphans.extend(handles.iter().map(|handle| Orphan { role: Role::Vnic(slot), handle: *handle }));
        }
        self.remove_unknown();
        // Those whose handles were closed while nobody watched.
        self.look_after_orphans(true);
        let numbers: Vec<u64> =
            self.filters.iter().filter(|(_, f)| f.handles == 0).map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.delete_filter(number));
        let unheld = |vnic: &&Vnic| vnic.handles == 0 && !vnic.wish.persistent;
        let slots: Vec<u32> = self.vnics.values().filter(unheld).map(|vnic| vnic.slot).collect();
        slots.into_iter().for_each(|slot| self.delete_vnic(slot, VnicEnd::Unheld));
        self.record();
        self.vnics.len()
    }

    fn adopt_vnic(&mut self, state: VnicState, is_new: bool) -> Result<(), DaemonError> {
        let (slot, owner) = (state.slot, state.owner);
        let name = state.wish.name.clone();
        let handles = state.handles.len() as u32;
        let host = link::link_by_index(state.host.index).map_err(|error| say("find its device", error))?;
        let (end_index, is_nics, is_tap) = (state.end.index, state.is_nics(), state.is_tap());
        let find = || link::link_by_index(end_index);
        let end = if is_tap {
            Ok(Link { mac: MacAddress(state.end.mac), ..host.clone() })
        } else if is_nics {
            find()
        } else {
            self.ends.within(find).and_then(|found| found)
        };
        let end = end.map_err(|error| say("find its device", error))?;
        if slot >= tables::VNICS_MAX || !state.host.is_host(&host) || !state.end.is(&end) {
            return Err("its device is another's".into());
        }
        if is_nics {
            nic::attach(&self.tables, &end)?;
        } else if is_tap {
            tap::fence(&self.tables, host.index)?;
        } else if is_new {
            let (gate, deliver) = (self.tables.gate(), self.tables.deliver());
            link::set_xdp(host.index, gate).map_err(|error| say("attach the gate", error))?;
            let attached = self.ends.within(|| link::set_xdp(end_index, deliver)).and_then(|done| done);
            attached.map_err(|error| say("attach the gate", error))?;
        }
        let mut vnic = Vnic::take_back(&mut self.tables, state, host, end)?;
        vnic.handles = handles;
        let account = vnic.account;
        vnic.assigned.retain(|number, _| self.filters.contains_key(number));
        self.vnics.insert(slot, vnic);
        self.dirty.insert(slot);
        if let Some(number) = owner {
            let owner = self.owners.entry(account).or_insert(Owner { number, vnics: 0, takes_trains: false });
            owner.vnics += 1;
            owner.takes_trains |= is_tap;
        }
        (self.log)(&Event::new("vnic-take-back", "done", name).of(slot));
        Ok(())
    }

    /// Removes devices and rows that were being made or unmade when the earlier daemon ended.
    fn remove_unknown(&mut self) {
        let made = || self.vnics.values().filter(|vnic| !vnic.is_nics());
        let veths = || made().filter(|vnic| !vnic.is_tap());
        let hosts: BTreeSet<u32> = made().map(|vnic| vnic.host.index).collect();
        let further = veths().flat_map(|vnic| vnic.further_devices(&self.ends));
        let keepers = self.ends.within(injectors::keepers).unwrap_or_default();
        let ends: BTreeSet<u32> = veths().map(|vnic| vnic.end.index).chain(further).chain(keepers).collect();
        let _ = self.ends.within(|| remove_all_but(&ends));
        let addresses = self.vnics.values().flat_map(|vnic| {
            let slot = vnic.slot;
            vnic.wish.addresses.iter().map(move |(address, _)| (*address, slot))
        });
        let addresses = addresses.collect();
        let slots = self.vnics.keys().copied().collect();
        self.tables.retain(&hosts, &ends, &addresses, &slots);
    }
}
