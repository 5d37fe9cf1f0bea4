//! What an ended daemon has left, for whoever looks at it or removes it.

use crate::cards::nic;
use crate::clients::orphan::open_sockets;
use crate::fence::tables::{self, OWN_QUEUE};
use crate::state::{StateDirectory, VnicState};
use crate::takeover::ground::LOOPBACK;
use qanat_nic::link::{self, Namespace};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Removes devices of the cards' namespace, which the calling thread is in.
pub(super) fn remove_all_but(known: &BTreeSet<u32>) -> io::Result<()> {
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
        Some(Leftover { name: vnic.wish.name.clone(), interface: vnic.host_device()?.name, in_use })
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
        match vnic.host_device() {
            Some(link) if vnic.is_nics() => nic::release_left(link.index),
            // Gone meanwhile: just as well.
            Some(link) => drop(link::delete(link.index)),
            None => {}
        }
    }
    state.clear();
}
