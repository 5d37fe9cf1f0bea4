//! Requests about filters, and the end of one.

use crate::cards::tap;
use crate::cards::vnic::Vnic;
use crate::clients::peer::{Identity, Peer, Role};
use crate::daemon::{Daemon, FilterObject};
use crate::log::Event;
use crate::requests::served::Served;
use qanat_control::filter::{Direction, Filter, VOLUMES_MAX};
use qanat_control::protocol::{Answer, Steered};
use qanat_control::refusal::{Cause, Refusal};

/// Filters of one user's VNICs together: a share of a table that all users share.
const FILTERS_PER_USER_MAX: usize = 2_048;

impl Daemon {
    /// Whether the owner of a VNIC may have so many more filters.
    fn check_filter_count(&self, slot: u32, more: usize) -> Result<(), Refusal> {
        let user = self.vnics.get(&slot).ok_or("the VNIC is gone")?.account;
        let count: usize = self.vnics.values().filter(|vnic| vnic.account == user).map(Vnic::filter_count).sum();
        match count + more <= FILTERS_PER_USER_MAX {
            true => Ok(()),
            false => {
                let text = format!("user {user} has {count} filters, which is the most: delete some");
                Err(Refusal::new(Cause::Full, text))
            }
        }
    }

    pub(super) fn create_filter(&mut self, peer: Peer, direction: Direction, filters: Vec<Filter>) -> Served {
        let rule = self.rule(peer)?;
        if filters.is_empty() || filters.len() > VOLUMES_MAX {
            return Err(format!("a filter has 1 to {VOLUMES_MAX} sub-volumes, not {}", filters.len()).into());
        }
        filters.iter().try_for_each(|filter| rule.check_filter(direction, filter))?;
        let number = self.next_filter;
        self.next_filter += 1;
        self.filters.insert(number, FilterObject { direction, filters, handles: 0 });
        match self.make_handle(Role::Filter(number), peer) {
            Ok(handle) => Ok((Answer::Filter(number), vec![handle])),
            Err(error) => {
                self.filters.remove(&number);
                Err(error)
            }
        }
    }

    pub(super) fn assign(&mut self, slot: u32, filter: Option<Identity>, queue: Option<u32>) -> Served {
        let number = self.presented_filter(filter)?;
        let volumes = self.filters.get(&number).map_or(0, |filter| filter.filters.len());
        self.check_filter_count(slot, volumes)?;
        self.assign_filter(slot, number, queue)?;
        Ok((Answer::Done, Vec::new()))
    }

    pub(super) fn add_filter(&mut self, slot: u32, direction: Direction, wanted: Steered) -> Served {
        self.check_filter_count(slot, 1)?;
        self.dirty.insert(slot);
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        vnic.rule.check_filter(direction, &wanted.filter)?;
        if vnic.is_tap() {
            tap::check_filter(&wanted.filter)?;
        }
        vnic.check_queue(direction, wanted.queue)?;
        let filters = vnic.filters.get_mut(direction as usize).ok_or("no such direction")?;
        filters.push(wanted);
        if let Err(error) = vnic.write_filters(&mut self.tables) {
            if let Some(filters) = vnic.filters.get_mut(direction as usize) {
                filters.pop();
            }
            return Err(error.into());
        }
        Ok((Answer::Done, Vec::new()))
    }

    pub(super) fn remove_filter(&mut self, slot: u32, direction: Direction, filter: Filter) -> Served {
        self.dirty.insert(slot);
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let filters = vnic.filters.get_mut(direction as usize).ok_or("no such direction")?;
        let before = filters.clone();
        filters.retain(|other| other.filter != filter);
        if filters.len() == before.len() {
            return Err(format!("VNIC {slot} has no {direction} filter \"{filter}\": see `qanat filter list`").into());
        }
        if let Err(error) = vnic.write_filters(&mut self.tables) {
            if let Some(filters) = vnic.filters.get_mut(direction as usize) {
                *filters = before;
            }
            return Err(error.into());
        }
        Ok((Answer::Done, Vec::new()))
    }

    pub(crate) fn delete_filter(&mut self, number: u64) {
        self.filters.remove(&number);
        self.dirty_filters.insert(number);
        for vnic in self.vnics.values_mut() {
            if vnic.assigned.remove(&number).is_none() {
                continue;
            }
            self.dirty.insert(vnic.slot);
            if let Err(error) = vnic.write_filters(&mut self.tables) {
                (self.log)(&Event::new("filter-end", "failed", error).of(vnic.slot));
            }
        }
    }
}
