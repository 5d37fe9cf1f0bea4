//! For whom a VNIC is made, and its first row.

use crate::error::DaemonError;
use crate::fence::rows::VnicRow;
use crate::fence::tables::{FLAG_ICMP, Tables};
use crate::policy::Rule;
use qanat_control::filter::{Direction, Rate};
use qanat_control::protocol::VnicWish;

/// The process that a VNIC is made for, and the rule that allows it.
pub(crate) struct Maker {
    pub(crate) rule: Rule,
    /// The number of the user's ceiling.
    pub(crate) owner: Option<u32>,
    pub(crate) user: u32,
    pub(crate) account: u32,
    pub(crate) process: i32,
}

impl Maker {
    /// The rows of limits in one direction.
    pub(crate) fn limits(&self, slot: u32, direction: Direction) -> [u32; 2] {
        let ceiling = self.owner.map_or(0, |owner| Tables::owner_limit(owner, direction));
        [Tables::vnic_limit(slot, direction), ceiling]
    }

    /// Gives a VNIC its row, its counts from nothing and its rates without limit; returns the row. `addresses`: Ethernet's, of
    /// its end and of its host's.
    pub(crate) fn write_row(
        &self,
        tables: &mut Tables,
        slot: u32,
        wish: &VnicWish,
        [mac, host_mac]: [[u8; 6]; 2],
        flags: u32,
    ) -> Result<VnicRow, DaemonError> {
        let limits = |direction| self.limits(slot, direction);
        let row = VnicRow {
            mac,
            host_mac,
            flags: flags | if self.rule.icmp { FLAG_ICMP } else { 0 },
            limits: [limits(Direction::Transmit), limits(Direction::Receive)],
            spread: spread(wish),
            ..VnicRow::default()
        };
        tables.clear_counts(slot)?;
        for direction in [Direction::Transmit, Direction::Receive] {
            tables.set_limit(Tables::vnic_limit(slot, direction), Rate::UNLIMITED, wish.mtu)?;
        }
        tables.set_vnic(slot, &row)?;
        Ok(row)
    }
}

/// Queues, from 0, that share what no filter gives to one.
pub(crate) fn spread(wish: &VnicWish) -> u8 {
    u8::try_from(wish.queues.saturating_sub(wish.priority_queues)).unwrap_or(1).max(1)
}
