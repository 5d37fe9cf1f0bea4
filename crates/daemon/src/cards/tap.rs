//! Provider `tap`: a TAP device as a VNIC, for clients on kernel sockets, which get and give 64 KiB at a time.
//!
//! The device is the kernel's end, and the application has its descriptor. Classifiers on the device judge what goes either way
//! (`bpf/tap.h`), over the same tables as the programs of veth devices. They are there before the device is set up, and before anybody
//! has the descriptor. It has one queue, which all copies of the descriptor share. Copies can't be taken back: only the
//! end of the card ends them.

use crate::cards::maker::Maker;
use crate::cards::uplink;
use crate::cards::veth::{NAMES_MAX, address_host};
use crate::cards::vnic::{Frame, Site, Vnic, own_all};
use crate::error::{DaemonError, say};
use crate::fence::tables::{FLAG_SWITCH, FLAG_UPLINK, TAP_DELIVER, TAP_GATE, Tables, program_id};
use crate::policy::Rule;
use qanat_control::field::Vlan;
use qanat_control::filter::Filter;
use qanat_control::protocol::VnicWish;
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::link::{self, Link, Side};
use qanat_nic::tap;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

/// Packets of a TAP device's, bytes. Trains make larger ones needless.
const MTU: RangeInclusive<u32> = 576..=1_500;
/// The fence of one device: which program is on which side.
const FENCE: [(Side, &str); 2] = [(Side::Ingress, TAP_GATE), (Side::Egress, TAP_DELIVER)];

/// Whether a filter can count for a TAP device.
///
/// # Errors
/// What it can't, and the remedy.
pub(crate) fn check_filter(filter: &Filter) -> Result<(), Refusal> {
    let remedy = "a card of provider veth has them";
    if filter.vlan != Vlan::NONE {
        return Err(format!("VLAN {}: a TAP device has none; {remedy}", filter.vlan).into());
    }
    match filter.types {
        Some(types) => Err(format!("EtherType {types}: a TAP device carries IP only; {remedy}").into()),
        None => Ok(()),
    }
}

/// Whether there may be such a card.
///
/// # Errors
/// What can't be, and the remedy.
fn check(wish: &VnicWish, rule: &Rule, is_on_wire: bool) -> Result<(), DaemonError> {
    if !rule.tap {
        return Err(format!("rule \"{}\" does not allow TAP devices: it needs `tap = true`", rule.name).into());
    }
    if wish.queues > 1 || wish.priority_queues > 0 {
        return Err(format!(
            "a TAP device has one queue, not {}: leave out the queues, or use provider veth",
            wish.queues
        )
        .into());
    }
    if wish.shared || is_on_wire {
        let text = "a TAP device is not on the uplink's wire: choose an address that is in none of its prefixes, or provider veth";
        return Err(text.into());
    }
    if !MTU.contains(&wish.mtu) {
        return Err(format!(
            "MTU {}: a TAP device's is from {} to {}, and takes 64 KiB at a time all the same",
            wish.mtu,
            MTU.start(),
            MTU.end()
        )
        .into());
    }
    Ok(())
}

/// Attaches the fence, in place of whatever is there of it.
pub(crate) fn fence(tables: &Tables, index: u32) -> Result<(), DaemonError> {
    FENCE.into_iter().try_for_each(|(side, name)| {
        let program = tables.other(name)?;
        link::set_classifier(index, side, program, name).map_err(|error| say("attach the gate", error))
    })
}

/// Whether the whole fence is on a device of the calling thread's namespace.
pub(crate) fn is_fenced(tables: &Tables, index: u32) -> bool {
    FENCE.into_iter().all(|(side, name)| {
        let id = tables.other(name).and_then(|program| program_id(program, name));
        let attached = link::classifiers(index, side).unwrap_or_default();
        id.is_ok_and(|id| attached.first() == Some(&id))
    })
}

/// The number of the program that judges what comes from a device.
pub(crate) fn gate_of(index: u32) -> Option<u32> {
    link::classifiers(index, Side::Ingress).ok()?.first().copied()
}

/// Makes the device under the first free name from the VNIC's number on.
fn make(slot: u32) -> Result<(String, OwnedFd), DaemonError> {
    for number in slot..slot + NAMES_MAX {
        let name = format!("qanat{number}");
        match tap::make(&name) {
            Ok(device) => return Ok((name, device)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let remedy = "modprobe tun; in a container or a service it needs the device /dev/net/tun";
                return Err(format!("make a TAP device: {error}; {remedy}").into());
            }
        }
    }
    Err(format!("{NAMES_MAX} interfaces are called qanat…: remove some").into())
}

/// Makes a card's addresses and device known to the programs.
pub(crate) fn enter(
    tables: &mut Tables,
    slot: u32,
    wish: &VnicWish,
    host: &Link,
    end: &Link,
) -> Result<(), DaemonError> {
    own_all(tables, slot, wish)?;
    tables.name_card(slot, end.mac.0)?;
    tables.connect_tap(slot, host.index)
}

impl Vnic {
    /// Makes a TAP device a VNIC.
    pub(crate) fn of_tap(site: &mut Site<'_>, slot: u32, mut wish: VnicWish, maker: Maker) -> Result<Vnic, Refusal> {
        wish.queues = wish.queues.max(1);
        wish.mtu = if wish.mtu == 0 { *MTU.end() } else { wish.mtu };
        let is_on_wire = !wish.shared && uplink::flags(site.uplink, &maker.rule, &wish)? & FLAG_UPLINK != 0;
        let unsuited = |text| Refusal::new(Cause::Provider, text);
        check(&wish, &maker.rule, is_on_wire).map_err(unsuited)?;
        // Gone with its descriptor if anything fails.
        let (name, device) = make(slot).map_err(unsuited)?;
        let host = link::link(&name).map_err(|error| say("find the TAP device", error))?;
        fence(site.tables, host.index)?;
        let set_up = || -> io::Result<Link> {
            link::set_mtu(host.index, wish.mtu)?;
            link::remove_queueing(host.index)?;
            link::set_up(host.index)?;
            tap::set_persistent(device.as_fd(), wish.persistent)?;
            link::link_by_index(host.index)
        };
        let host = set_up().map_err(|error| say("set up the TAP device", error))?;
        let made = Vnic::enter_tap(site, slot, wish, maker, host.clone(), device);
        if made.is_err() {
            let _ = link::delete(host.index);
        }
        made
    }

    fn enter_tap(
        site: &mut Site<'_>,
        slot: u32,
        wish: VnicWish,
        maker: Maker,
        host: Link,
        device: OwnedFd,
    ) -> Result<Vnic, Refusal> {
        let tables = &mut *site.tables;
        let gateways = address_host(&host, &wish.addresses, site.host)?;
        let mac = tap::random_address().map_err(|error| say("find an Ethernet address", error))?;
        let end = Link { mac, ..host.clone() };
        let flags = if maker.rule.switch { FLAG_SWITCH } else { 0 };
        let row = maker.write_row(tables, slot, &wish, [mac.0, host.mac.0], flags)?;
        let entered = enter(tables, slot, &wish, &host, &end);
        let mut vnic = Vnic::assemble(slot, wish, maker, Frame { host, end, gateways, row });
        vnic.tap = Some(device);
        match entered.and_then(|()| vnic.write_filters(tables)) {
            Ok(()) => Ok(vnic),
            Err(error) => {
                vnic.remove(tables, site.ends);
                Err(error.into())
            }
        }
    }

    /// A copy of the device's descriptor, for the process that has the card.
    pub(crate) fn open_tap(&mut self) -> Result<OwnedFd, Refusal> {
        if self.tap.is_none() && self.wish.persistent {
            // Taken back from an earlier daemon, and nobody had it open then.
            self.tap = tap::open_persistent(&self.host.name).ok();
        }
        let Some(device) = &self.tap else {
            let text = "the card's TAP device was opened before the daemon was started again, and can't be opened a second time: give \
                        the card up, or wait until its holder closes it";
            return Err(Refusal::new(Cause::Taken, text));
        };
        let copy = rustix::io::fcntl_dupfd_cloexec(device, 0).map_err(|error| say("copy a descriptor", error))?;
        self.queues.insert(0, 0);
        Ok(copy)
    }
}
