//! Links that change under the cards: the kernel's ends are anybody's who may administer this namespace.

use crate::cards::tap;
use crate::cards::vnic::Vnic;
use crate::clients::orphan::LOOK_INTERVAL;
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::fence::tables::Tables;
use crate::log::Event;
use crate::state::LinkState;
use qanat_control::protocol::VnicEnd;
use qanat_nic::link::{self, LinkChanges};
use qanat_wire::ethernet::MacAddress;
use std::time::Instant;

/// Devices without a card that are remembered at most.
const STRAYS_MAX: usize = 64;

impl Daemon {
    /// Interfaces have changed: what the fence and the senders must know of them is told.
    pub(crate) fn follow_links(&mut self, token: u64) {
        let LinkChanges { indexes, are_more } = self.link_watch.changes();
        let has_changed = |index: u32| are_more || indexes.contains(&index);
        let changed: Vec<u32> = self
            .vnics
            .values()
            // What is away may come back under a number that nobody here knows.
            .filter(|vnic| !vnic.is_nics() && (vnic.is_away || has_changed(vnic.host.index)))
            .map(|vnic| vnic.slot)
            .collect();
        for slot in changed {
            match self.is_spared(slot) {
                true => drop(self.unlooked.insert(slot)),
                false => self.follow_link(slot),
            }
        }
        if let Some(uplink) = &mut self.uplink
            && has_changed(uplink.link.index)
            && let Err(why) = uplink.follow(&mut self.tables)
        {
            (self.log)(&Event::new("uplink-change", "failed", why));
        }
        self.end_strays();
        // Else whoever changes such a device without end would wake the daemon for each change.
        if !self.unlooked.is_empty() {
            self.leave_alone(token, LOOK_INTERVAL);
        }
    }

    /// Whether a card is not to be looked at yet. A process with a TAP device's descriptor can change the device as often as it
    /// likes, without any right.
    fn is_spared(&mut self, slot: u32) -> bool {
        let Some(vnic) = self.vnics.get_mut(&slot).filter(|vnic| vnic.is_tap()) else { return false };
        let now = Instant::now();
        if vnic.next_look.is_some_and(|next| now < next) {
            return true;
        }
        vnic.next_look = Some(now + LOOK_INTERVAL);
        false
    }

    /// Looks at the cards that were spared.
    pub(crate) fn look_after_links(&mut self) {
        for slot in std::mem::take(&mut self.unlooked) {
            match self.is_spared(slot) {
                true => drop(self.unlooked.insert(slot)),
                false => self.follow_link(slot),
            }
        }
    }

    /// Looks at the kernel's end of a card.
    pub(crate) fn follow_link(&mut self, slot: u32) {
        let Some(vnic) = self.vnics.get_mut(&slot) else { return };
        // While it is away, another interface may have its number.
        let known = LinkState::of(&vnic.host);
        let Some(host) = link::link_by_index(vnic.host.index).ok().filter(|found| known.is_host(found)) else {
            if vnic.is_tap() {
                return self.end_tap(slot);
            }
            let end = vnic.end.index;
            let is_there = self.ends.within(|| link::link_by_index(end)).is_ok_and(|found| found.is_ok());
            return match is_there {
                // With the one end the other is gone.
                false => self.delete_vnic(slot, VnicEnd::InterfaceDeleted),
                true if vnic.is_back_as_another() => self.end_renumbered(slot),
                true => self.note_moved(slot),
            };
        };
        vnic.is_away = false;
        if host.name != vnic.host.name {
            // It is known by its name or its Ethernet address, so that one of them may change at a time.
            vnic.host.name.clone_from(&host.name);
            self.dirty.insert(slot);
        }
        if host.mac != vnic.host.mac {
            let said = match vnic.set_host_mac(&mut self.tables, host.mac) {
                Ok(()) => Event::new("link-change", "done", format!("{} is {} now", host.name, host.mac)),
                Err(why) => Event::new("link-change", "failed", why),
            };
            (self.log)(&said.of(slot));
            self.dirty.insert(slot);
        }
        let is_bare = match vnic.is_tap() {
            true => !tap::is_fenced(&self.tables, host.index),
            false => host.xdp_program.is_none(),
        };
        if is_bare {
            let attached = match vnic.is_tap() {
                true => tap::fence(&self.tables, host.index),
                false => link::set_xdp(host.index, self.tables.gate()).map_err(|error| say("attach the gate", error)),
            };
            let said = match attached {
                Ok(()) => Event::new("fence-change", "done", format!("{} was without the gate", host.name)),
                Err(why) => Event::new("fence-change", "failed", format!("{} is without the gate: {why}", host.name)),
            };
            (self.log)(&said.of(slot));
        }
        self.choose_way(slot);
    }

    /// Senders of a card that send without socket buffers do so while that arrives at the other end.
    fn choose_way(&mut self, slot: u32) {
        let Some(vnic) = self.vnics.get(&slot) else { return };
        let injecting: Vec<u64> = vnic.charges().filter(|number| self.charges.injects(*number)).collect();
        if injecting.is_empty() {
            return;
        }
        let end = vnic.end.index;
        let arrives = self.ends.within(|| link::takes_frames(end)).unwrap_or(false);
        for number in injecting {
            self.charges.set_sending(number, arrives.then_some(end), &self.ends);
        }
    }

    /// A TAP device that is not here is deleted, or in another namespace, where it is without its fence: its card ends, and so does the
    /// device. Else whoever holds it would go on without a fence.
    fn end_tap(&mut self, slot: u32) {
        let stray = self.vnics.get(&slot).filter(|vnic| vnic.tap.is_none()).map(|vnic| LinkState::of(&vnic.host));
        self.strays.extend(stray);
        if self.strays.len() > STRAYS_MAX {
            self.strays.remove(0);
        }
        let name = self.vnics.get(&slot).map(|vnic| vnic.host.name.clone()).unwrap_or_default();
        let detail = format!("{name} was deleted, or moved to another network namespace: its card ends");
        (self.log)(&Event::new("link-change", "failed", detail).of(slot));
        self.delete_vnic(slot, VnicEnd::InterfaceDeleted);
    }

    /// Deletes devices that are back without a card.
    fn end_strays(&mut self) {
        let log = &mut self.log;
        self.strays.retain(|stray| {
            let found = link::link_by_index(stray.index).ok().filter(|found| stray.is(found));
            let Some(found) = found else { return true };
            let said = match link::delete(found.index) {
                Ok(()) => Event::new(
                    "link-change",
                    "done",
                    format!("{} is back, its card has ended, and it is deleted", found.name),
                ),
                Err(error) => Event::new("link-change", "failed", format!("{} can't be deleted: {error}", found.name)),
            };
            log(&said);
            false
        });
    }

    fn note_moved(&mut self, slot: u32) {
        self.choose_way(slot);
        let Some(vnic) = self.vnics.get_mut(&slot).filter(|vnic| !vnic.is_away) else { return };
        vnic.is_away = true;
        let detail = format!(
            "{} was moved to another network namespace; what it carries there is nobody's affair here: move it back, or delete the \
             card",
            vnic.host.name
        );
        (self.log)(&Event::new("link-change", "failed", detail).of(slot));
    }

    /// All that the programs know of a card goes by the number of its interface. The kernel gives another to an interface that comes to a
    /// namespace in which its own is taken, so such a card is as good as deleted: whoever has it asks for the next.
    fn end_renumbered(&mut self, slot: u32) {
        let name = self.vnics.get(&slot).map(|vnic| vnic.host.name.clone()).unwrap_or_default();
        let detail = format!("{name} came back from another network namespace under another number: its card ends");
        (self.log)(&Event::new("link-change", "failed", detail).of(slot));
        self.delete_vnic(slot, VnicEnd::InterfaceDeleted);
    }
}

impl Vnic {
    /// Whether the kernel's end, which is not here under its number, is here under another.
    fn is_back_as_another(&self) -> bool {
        link::link(&self.host.name).is_ok_and(|found| found.mac == self.host.mac)
    }

    /// The kernel's end has another Ethernet address: what the card sends there passes.
    fn set_host_mac(&mut self, tables: &mut Tables, mac: MacAddress) -> Result<(), DaemonError> {
        self.row.host_mac = mac.0;
        self.host.mac = mac;
        tables.set_vnic(self.slot, &self.row)
    }
}
