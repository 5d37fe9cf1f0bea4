//! Provider `queue`: queues of a NIC's own as a VNIC, for those the policy trusts.
//!
//! The application's sockets are bound to the NIC's queues, without copies where the driver can. The program `own_queue` on
//! the NIC gives them what comes by these queues and is the VNIC's by address and filters; the rest is the kernel's, as what
//! comes by other queues is. Which flows come by which queue is the NIC's affair (`ethtool -N`). Nothing is between the
//! application and the wire in the other direction: transmit filters and rates say what the VNIC answers for, and fence
//! nothing. So a rule must say `trusted = true`.

use crate::cards::maker::Maker;
use crate::cards::uplink::default_gateways;
use crate::cards::vnic::{Frame, Site, Vnic, own_all, place};
use crate::error::{DaemonError, say};
use crate::fence::tables::{self, FLAG_QUEUE, FLAG_SHARED, OWN_QUEUE, QUEUES_MAX, Tables};
use qanat_control::address::Address;
use qanat_control::protocol::VnicWish;
use qanat_control::refusal::Refusal;
use qanat_nic::link::{self, Link};

/// Whether `program` is of this fence's, or an earlier daemon's.
pub(super) fn is_ours(program: u32, tables: &Tables) -> bool {
    let own = tables.other(OWN_QUEUE).and_then(|own| tables::program_id(own, OWN_QUEUE));
    own.is_ok_and(|own| own == program) || tables::is_called(program, OWN_QUEUE)
}

pub(super) fn release(name: &str, tables: &Tables) {
    if let Ok(link) = link::link(name)
        && link.xdp_program.is_some_and(|program| is_ours(program, tables))
    {
        // Gone meanwhile: just as well.
        let _ = link::clear_xdp(link.index);
    }
}

/// Gives back a NIC that an ended daemon has left, in the calling thread's namespace.
pub(crate) fn release_left(index: u32) {
    if let Ok(link) = link::link_by_index(index)
        && link.xdp_program.is_some_and(|program| tables::is_called(program, OWN_QUEUE))
    {
        let _ = link::clear_xdp(link.index);
    }
}

/// Makes the NIC's queues known to the programs.
pub(crate) fn enter(tables: &mut Tables, slot: u32, wish: &VnicWish, nic: &Link) -> Result<(), DaemonError> {
    let Some((_, first)) = place(&wish.provider) else { return Ok(()) };
    own_all(tables, slot, wish)?;
    (0..wish.queues.min(QUEUES_MAX))
        .try_for_each(|queue| tables.own_nic_queue(nic.index, first + queue, slot * QUEUES_MAX + queue))
}

/// Attaches the program, if it is not there.
pub(crate) fn attach(tables: &Tables, nic: &Link) -> Result<(), DaemonError> {
    let program = tables.other(OWN_QUEUE)?;
    if nic.xdp_program == tables::program_id(program, OWN_QUEUE).ok() {
        return Ok(());
    }
    // Tags must be where the program looks for them; a device that has no such offload has them there.
    let _ = link::keep_vlan_tags(&nic.name);
    link::set_xdp(nic.index, program).map_err(|error| {
        say(&format!("attach to {}; its driver must have native XDP, and its MTU must suit that", nic.name), error)
    })
}

impl Vnic {
    /// Makes queues of `nic` a VNIC.
    pub(crate) fn of_nic(
        site: &mut Site<'_>,
        slot: u32,
        mut wish: VnicWish,
        nic: Link,
        maker: Maker,
    ) -> Result<Vnic, Refusal> {
        wish.queues = wish.queues.max(1);
        wish.mtu = nic.mtu;
        let tables = &mut *site.tables;
        let flags = FLAG_QUEUE | if wish.shared { FLAG_SHARED } else { 0 };
        let row = maker.write_row(tables, slot, &wish, [nic.mac.0, nic.mac.0], flags)?;
        enter(tables, slot, &wish, &nic)?;
        let gateways = default_gateways(nic.index).into_iter().map(Address::ip).collect();
        let mut vnic = Vnic::assemble(slot, wish, maker, Frame { host: nic.clone(), end: nic.clone(), gateways, row });
        let done = vnic.write_filters(tables).and_then(|()| attach(tables, &nic));
        match done {
            Ok(()) => Ok(vnic),
            Err(error) => {
                vnic.remove(tables, site.ends);
                Err(error.into())
            }
        }
    }
}
