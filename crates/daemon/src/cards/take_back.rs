//! VNICs that an earlier daemon made.

use crate::cards::maker::Maker;
use crate::cards::vnic::{Frame, Vnic};
use crate::cards::{nic, tap, veth};
use crate::error::DaemonError;
use crate::fence::rows::VnicRow;
use crate::fence::tables::Tables;
use crate::state::VnicState;
use qanat_control::protocol::{Provider, VnicWish};
use qanat_nic::link::Link;

/// Makes a card's addresses and devices known to the programs.
fn enter(tables: &mut Tables, slot: u32, wish: &VnicWish, host: &Link, end: &Link) -> Result<(), DaemonError> {
    match wish.provider {
        Provider::Queue { .. } => nic::enter(tables, slot, wish, end),
        Provider::Tap => tap::enter(tables, slot, wish, host, end),
        Provider::Veth => veth::enter(tables, slot, wish, host, end),
        // None is taken back: it ended with its daemon.
        Provider::Vf { .. } => Ok(()),
    }
}

impl Vnic {
    /// One that an earlier daemon made; its devices are what they were.
    pub(crate) fn take_back(tables: &mut Tables, state: VnicState, host: Link, end: Link) -> Result<Vnic, DaemonError> {
        let account = state.account.unwrap_or(state.user);
        let VnicState { slot, wish, user, process, rule, gateways, filters, assigned, rates, queues, sockets, .. } =
            state;
        // What is in the table is what holds: the file may be one change behind.
        // And the kernel's end may have another Ethernet address by now.
        let mut row = VnicRow { filters: tables.ranges(slot)?, ..state.row };
        if !matches!(wish.provider, Provider::Queue { .. }) {
            row.host_mac = host.mac.0;
        }
        row.generation = row.generation.wrapping_add(1);
        enter(tables, slot, &wish, &host, &end)?;
        // Its rows of limits are filled by whoever takes it back.
        let maker = Maker { rule, owner: None, user, account, process };
        let mut vnic = Vnic {
            filters,
            assigned,
            rates,
            queues,
            sockets,
            ..Vnic::assemble(slot, wish, maker, Frame { host, end, gateways, row })
        };
        vnic.write_filters(tables)?;
        Ok(vnic)
    }
}
