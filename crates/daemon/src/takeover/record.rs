//! What has changed is written down for the next daemon, before it is answered for.

use crate::clients::peer::Role;
use crate::daemon::{Daemon, FilterObject};
use crate::log::Event;
use crate::state::{FilterState, HandleState};

impl Daemon {
    /// Writes down what has changed; before it is answered for.
    pub(crate) fn record(&mut self) {
        let mut outcome = Ok(());
        for slot in std::mem::take(&mut self.dirty) {
            match self.vnics.get(&slot) {
                // A function's descriptors end with the daemon, and so does its card.
                Some(vnic) if vnic.is_function() => {}
                Some(vnic) => {
                    let owner = self.owners.get(&vnic.account).map(|owner| owner.number);
                    let written = self.state.write_vnic(&vnic.state(owner, self.handles_of(Role::Vnic(slot))));
                    outcome = outcome.and(written);
                }
                None => self.state.remove_vnic(slot),
            }
        }
        for number in std::mem::take(&mut self.dirty_filters) {
            match self.filters.get(&number) {
                Some(FilterObject { direction, filters, .. }) => {
                    let handles = self.handles_of(Role::Filter(number));
                    let state = FilterState { number, direction: *direction, filters: filters.clone(), handles };
                    outcome = outcome.and(self.state.write_filter(&state));
                }
                None => self.state.remove_filter(number),
            }
        }
        if let Err(error) = outcome {
            (self.log)(&Event::new("state-write", "failed", format!("{}: {error}", self.state.path().display())));
        }
    }

    fn handles_of(&self, role: Role) -> Vec<HandleState> {
        let live = self.endpoints.values().filter(|endpoint| endpoint.role == role);
        let live = live.filter_map(|endpoint| Some(HandleState { identity: endpoint.identity?, peer: endpoint.peer }));
        let orphans = self.orphans.iter().filter(|orphan| orphan.role == role).map(|orphan| orphan.handle);
        live.chain(orphans).collect()
    }
}
