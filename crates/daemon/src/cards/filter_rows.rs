//! A VNIC's rows in the table of filters.

use crate::cards::assignment::Assignment;
use crate::cards::vnic::Vnic;
use crate::error::DaemonError;
use crate::fence::rows::{FilterRow, LinkScope};
use crate::fence::tables::{FLAG_FILTERED, FLAG_PEERS, Tables};
use crate::policy::Rule;
use qanat_control::filter::{Addresses, Direction, Filter, Macs, Service};
use qanat_control::protocol::Steered;

impl Vnic {
    /// The rows of one direction: first those that send elsewhere, then those for one queue, the latest first.
    pub(crate) fn rows(&self, direction: Direction) -> Vec<FilterRow> {
        let assigned = self.assigned.values().rev().filter(|assignment| assignment.direction == direction);
        let own = self.filters.get(direction as usize).into_iter().flatten();
        let own = own.rev().map(|Steered { filter, queue }| FilterRow {
            queue: queue.and_then(|queue| u8::try_from(queue).ok()),
            ..FilterRow::from(*filter)
        });
        let mut rows: Vec<FilterRow> = assigned.flat_map(Assignment::rows).chain(own).collect();
        if direction == Direction::Receive && self.wish.shared && rows.is_empty() {
            // The rest of the address is the kernel's.
            let services = self.filters.first().into_iter().flatten();
            rows.extend(services.map(|Steered { filter, .. }| FilterRow::from(*filter)));
        }
        rows.sort_by_key(|row| (row.diverted.is_none(), !row.is_granted, row.queue.is_none()));
        rows.dedup();
        if direction == Direction::Transmit {
            rows.extend(link_rows(&self.rule));
        }
        rows
    }

    /// Whether it receives nothing but what its filters cover.
    pub(crate) fn is_filtered(&self) -> bool {
        let chosen = |row: &FilterRow| row.diverted.is_none() && !row.is_granted;
        self.wish.shared || self.rows(Direction::Receive).iter().any(chosen)
    }

    pub(super) fn has_address(&self, addresses: Addresses) -> bool {
        self.wish.addresses.iter().any(|(address, _)| addresses.contains(Addresses::host(**address)))
    }

    /// Writes the filters as they are now; packets are judged by the old ones or by the new ones, never by none.
    pub(crate) fn write_filters(&mut self, tables: &mut Tables) -> Result<(), DaemonError> {
        let mut row = self.row;
        for direction in [Direction::Transmit, Direction::Receive] {
            row.filters[direction as usize] = match tables.write_filters(&self.rows(direction)) {
                Ok(range) => range,
                Err(error) => {
                    if direction == Direction::Receive {
                        tables.free_filters(row.filters[0]);
                    }
                    return Err(error);
                }
            };
        }
        row.generation = row.generation.wrapping_add(1);
        row.flags = row.flags & !(FLAG_FILTERED | FLAG_PEERS)
            | if self.is_filtered() { FLAG_FILTERED } else { 0 }
            | if self.rule.binds_peers() { FLAG_PEERS } else { 0 };
        tables.set_vnic(self.slot, &row)?;
        for range in self.row.filters {
            tables.free_filters(range);
        }
        self.row = row;
        Ok(())
    }
}

/// Where ICMP may be sent, and whom may be asked for, by a rule that names peers. By one that does not, everywhere and for all.
fn link_rows(rule: &Rule) -> Vec<FilterRow> {
    if !rule.binds_peers() {
        return Vec::new();
    }
    let row = |peer: Addresses, macs: Macs, link: LinkScope| {
        let filter = Filter { peer, macs, ..Filter::service(Service::ANY) };
        FilterRow { link: Some(link), ..FilterRow::from(filter) }
    };
    let mut rows = Vec::new();
    for peer in &rule.peers {
        rows.extend(rule.macs.iter().map(|macs| row(*peer, *macs, LinkScope::All)));
        // A question is for all on the link.
        if !rule.macs.contains(&Macs::ANY) {
            rows.push(row(*peer, Macs::ANY, LinkScope::Questions));
        }
    }
    rows
}
