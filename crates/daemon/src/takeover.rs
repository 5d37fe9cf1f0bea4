//! Taking back what an earlier daemon left running, whether it crashed or was replaced.
//!
//! Kept without us: devices and their end's namespace (mounted beside the control socket), programs and tables (by the
//! devices they are attached to), frame memory and rings (by the clients' sockets). Written down: who has what
//! ([`state`](super::state)). What is in one of the two and not in the other was being made or unmade at the end, and goes.

use super::charges::Charges;
use super::handles::{Orphan, open_sockets};
use super::injectors::{self, Injectors};
use super::log::Event;
use super::nic;
use super::state::{Kept, StateDirectory, VnicState, digest};
use super::tables::{self, OWN_QUEUE, TAP_GATE, Tables, say};
use super::vnic::Vnic;
use super::{Daemon, FilterObject, Owner, Role, manager, tap};
use qanat_control::protocol::VnicEnd;
use qanat_nic::link::{self, Link, Namespace};
use qanat_wire::ethernet::MacAddress;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Interface number of loopback in every namespace.
const LOOPBACK: u32 = 1;

/// What every VNIC needs.
pub(super) struct Ground {
    pub(super) tables: Tables,
    pub(super) ends: Namespace,
    pub(super) charges: Charges,
    /// What an earlier daemon wrote down.
    pub(super) kept: Option<Kept>,
    /// The programs are new, and to be attached in place of its.
    pub(super) is_new: bool,
    /// In words, if something does not go well that is no reason not to start.
    pub(super) remark: String,
}

/// Takes an earlier daemon's ground back, or breaks new one.
///
/// # Errors
/// What is missing, and the remedy.
pub(super) fn ground(state: &StateDirectory) -> Result<Ground, String> {
    let given = manager::given_back();
    let Some(kept) = state.read() else {
        let cards = state.foreign_cards().len();
        if let Some(version) = state.foreign_version()
            && cards > 0
        {
            return Err(format!(
                "{}: {cards} cards of a daemon whose notes are of version {version}; this one reads {} to {}. They go on: \
                 start that version again, or end them with `qanat down`",
                state.path().display(),
                StateDirectory::VERSIONS.start(),
                StateDirectory::VERSIONS.end(),
            ));
        }
        state.clear();
        return break_ground(state, String::new());
    };
    let is_upgrade = kept.fence.fence != digest(tables::OBJECT);
    match take_back(state, kept, given, is_upgrade) {
        Ok(ground) => Ok(ground),
        Err(why) if is_upgrade => Err(format!(
            "cards of another version are in use, which this one can't take back ({why}): end them with `qanat down`"
        )),
        Err(why) => {
            // Its cards go with the last of their clients, and till then serve them.
            let is_loss = state.read().is_some_and(|kept| !kept.vnics.is_empty());
            state.clear();
            let remark = format!("nothing is taken back from an earlier daemon: {why}");
            break_ground(state, if is_loss { remark } else { String::new() })
        }
    }
}

fn break_ground(state: &StateDirectory, mut remark: String) -> Result<Ground, String> {
    let tables = Tables::load()?;
    let ends = Namespace::anonymous().map_err(|error| say("make a network namespace", error))?;
    let silence = || -> io::Result<()> {
        qanat_nic::veth::silence_kernel();
        Ok(())
    };
    ends.within(silence).and_then(|done| done).map_err(|error| say("enter a namespace", error))?;
    let charges = Charges::load(Injectors::start(&ends))?;
    let ground = Ground { tables, ends, charges, kept: None, is_new: false, remark: String::new() };
    if let Err(error) = ground.keep(state) {
        let before = if remark.is_empty() { "" } else { "; " };
        remark = format!("{remark}{before}cards would not survive a crash of this daemon: {error}");
    }
    Ok(Ground { remark, ..ground })
}

fn take_back(state: &StateDirectory, kept: Kept, given: Vec<Namespace>, is_upgrade: bool) -> Result<Ground, String> {
    let mut held = Namespace::open(state.ends()).into_iter().chain(given);
    let ends = held.find(|ends| inode(ends) == Ok(kept.fence.namespace)).ok_or("the cards' namespace is gone")?;
    let programs = attached(&kept, &ends).ok_or("no card of it is left")?;
    let slots = || kept.vnics.iter().map(|vnic| vnic.slot).filter(|slot| *slot < tables::VNICS_MAX);
    // New programs over the old tables, even if they are the same: those no device has at the moment are gone.
    let (tables, is_new) = match Tables::upgrade(&programs, slots()) {
        Ok(tables) => (tables, true),
        // It needs a mounted bpffs. The old ones serve as well.
        Err(why) if !is_upgrade => {
            let both = |error: String| format!("{error}; nor can new programs be loaded: {why}");
            (Tables::take_back(&programs, slots()).map_err(both)?, false)
        }
        Err(why) => return Err(why),
    };
    let holder = ends.within(|| link::link_by_index(LOOPBACK)).and_then(|link| link).ok().and_then(|l| l.xdp_program);
    let charges = match holder {
        Some(holder) => Charges::take_back(holder, &kept, Injectors::start(&ends))?,
        None => Charges::load(Injectors::start(&ends))?,
    };
    let ground = Ground { tables, ends, charges, kept: Some(kept), is_new, remark: String::new() };
    ground.keep(state)?;
    Ok(ground)
}

/// Programs of cards that are left, number and name. What devices say is right even if an earlier daemon was killed while it
/// replaced them.
fn attached(kept: &Kept, ends: &Namespace) -> Option<Vec<(u32, &'static str)>> {
    let of_vnic = |vnic: &VnicState| {
        let host = host_of(vnic)?;
        if vnic.is_tap() {
            return Some(vec![(tap::gate_of(host.index)?, TAP_GATE)]);
        }
        let host = host.xdp_program?;
        if vnic.is_nics() {
            return tables::is_called(host, OWN_QUEUE).then(|| vec![(host, OWN_QUEUE)]);
        }
        let index = vnic.end.index;
        let end = ends.within(|| link::link_by_index(index)).and_then(|link| link).ok()?;
        Some(vec![(host, "gate"), (end.xdp_program?, "deliver")])
    };
    kept.vnics.iter().find_map(of_vnic)
}

fn inode(namespace: &Namespace) -> Result<u64, String> {
    rustix::fs::fstat(namespace.as_fd()).map(|status| status.st_ino).map_err(|error| say("look at a namespace", error))
}

impl Ground {
    /// Makes it outlive this process: the namespace by a mount, and by loopback in it the table of sockets.
    pub(super) fn keep(&self, state: &StateDirectory) -> Result<(), String> {
        let written = state.start(digest(tables::OBJECT), inode(&self.ends)?);
        written.map_err(|error| format!("{}: {error}", state.path().display()))?;
        if self.kept.is_some() {
            return Ok(());
        }
        let attach = || {
            // The others are kept by the devices they are attached to.
            link::set_generic_xdp(LOOPBACK, self.charges.holder())
        };
        self.ends.within(attach).and_then(|done| done).map_err(|error| say("keep the table of sockets", error))?;
        let stored = manager::keep(&self.ends)
            .map_err(|error| say("give the cards' namespace to the service manager", error))?;
        let path = state.ends();
        let mount = || -> io::Result<()> {
            std::fs::write(&path, "")?;
            let source = format!("/proc/self/fd/{}", self.ends.as_fd().as_raw_fd());
            rustix::mount::mount_bind(source, &path)?;
            Ok(())
        };
        // One of the two is enough.
        match mount() {
            Err(error) if !stored => Err(format!("mount the cards' namespace at {}: {error}", path.display())),
            _ => Ok(()),
        }
    }
}

impl Daemon {
    /// Makes what was kept its own; says how many VNICs.
    pub(super) fn adopt(&mut self, kept: Kept, is_new: bool) -> usize {
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

    fn adopt_vnic(&mut self, state: VnicState, is_new: bool) -> Result<(), String> {
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
            return Err("its device is another's".to_owned());
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

/// Removes devices of the cards' namespace, which the calling thread is in.
fn remove_all_but(known: &BTreeSet<u32>) -> io::Result<()> {
    for link in link::links()?.iter().filter(|link| link.index != LOOPBACK && !known.contains(&link.index)) {
        // With the one end goes the other.
        let _ = link::delete(link.index);
    }
    Ok(())
}

/// A card of a daemon that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What it was called.
    pub name: String,
    /// The kernel's end.
    pub interface: String,
    /// Somebody holds its handle, or it is persistent.
    pub in_use: bool,
}

/// Whether an XDP program on a network interface is of the control plane's: of an uplink, or of cards' queues. If no
/// daemon knows the interface, it is left over. Only root can tell.
pub fn is_left_program(program: u32) -> bool {
    ["uplink", OWN_QUEUE].iter().any(|name| tables::is_called(program, name))
}

fn host_of(vnic: &VnicState) -> Option<Link> {
    link::link_by_index(vnic.host.index).ok().filter(|link| vnic.host.is_host(link))
}

/// What an ended daemon that listened at `socket` has left, for the next to take back; `None`: nothing at all. Makes sense
/// only if none listens there now.
pub fn leftovers(socket: &Path) -> Option<Vec<Leftover>> {
    let state = StateDirectory::of(socket);
    if !state.path().exists() {
        return None;
    }
    if state.foreign_version().is_some() {
        // Who holds them is told in a way only their daemon knows.
        let cards = state.foreign_cards().into_iter();
        return Some(cards.map(|(name, interface)| Leftover { name, interface, in_use: true }).collect());
    }
    let open = open_sockets();
    let kept = state.read().map(|kept| kept.vnics).unwrap_or_default();
    let leftover = |vnic: &VnicState| {
        let held = open.as_ref().is_none_or(|open| vnic.handles.iter().any(|h| open.contains(&h.identity.inode)));
        let in_use = held || vnic.wish.persistent;
        Some(Leftover { name: vnic.wish.name.clone(), interface: host_of(vnic)?.name, in_use })
    };
    Some(kept.iter().filter_map(leftover).collect())
}

/// Removes everything an ended daemon that listened at `socket` has left, in use or not.
pub fn clear(socket: &Path) {
    remove_leftovers(&StateDirectory::of(socket));
}

fn remove_leftovers(state: &StateDirectory) {
    if let Ok(ends) = Namespace::open(state.ends()) {
        // Whatever version wrote of them.
        let _ = ends.within(|| remove_all_but(&BTreeSet::new()));
    }
    for vnic in state.read().map(|kept| kept.vnics).unwrap_or_default() {
        match host_of(&vnic) {
            Some(link) if vnic.is_nics() => nic::release_left(link.index),
            // Gone meanwhile: just as well.
            Some(link) => drop(link::delete(link.index)),
            None => {}
        }
    }
    state.clear();
}
