//! One VNIC: what it is, and what is noted of it.

use crate::cards::assignment::Assignment;
use crate::cards::charges::Charges;
use crate::cards::maker::Maker;
use crate::cards::uplink::Uplink;
use crate::error::DaemonError;
use crate::fence::rows::VnicRow;
use crate::fence::tables::Tables;
use crate::policy::Rule;
use crate::state::{HandleState, LinkState, StateDirectory, VnicState};
use qanat_control::address::Address;
use qanat_control::filter::{Direction, Filter, Rate, Service};
use qanat_control::protocol::{Provider, Steered, VnicWish};
use qanat_nic::link::{self, Link, Namespace};
use qanat_nic::tap;
use qanat_nic::vfio::FunctionDescriptors;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Addresses of a VNIC at most.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// The longest packet that is policed as a whole.
pub(crate) const TRAIN_BYTES_MAX: u32 = 65_550;

/// Where devices are made.
pub(crate) struct Site<'a> {
    pub(crate) tables: &'a mut Tables,
    /// Of the VNICs' ends.
    pub(crate) ends: &'a Namespace,
    /// The kernel's addresses.
    pub(crate) host: &'a [(Address, u8)],
    pub(crate) charges: &'a mut Charges,
    pub(crate) state: &'a StateDirectory,
    pub(crate) uplink: Option<&'a Uplink>,
}

/// A VNIC.
pub(crate) struct Vnic {
    pub(crate) slot: u32,
    pub(crate) wish: VnicWish,
    pub(crate) user: u32,
    /// Whose limits it counts to.
    pub(crate) account: u32,
    pub(crate) process: i32,
    /// The rule that allowed it, as it was then.
    pub(crate) rule: Rule,
    pub(crate) host: Link,
    pub(crate) end: Link,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) row: VnicRow,
    /// Its own filters, transmit and receive.
    pub(crate) filters: [Vec<Steered>; 2],
    /// Those assigned by handle.
    pub(crate) assigned: BTreeMap<u64, Assignment>,
    pub(crate) rates: [Rate; 2],
    /// Bytes registered, by queue.
    pub(crate) queues: BTreeMap<u32, u64>,
    /// Numbers of the charges for that, by queue.
    pub(super) sockets: BTreeMap<u32, u64>,
    /// Descriptors that hold it.
    pub(crate) handles: u32,
    /// The kernel's end is in another namespace.
    pub(crate) is_away: bool,
    /// Of a TAP device: its descriptor.
    pub(crate) tap: Option<OwnedFd>,
    /// Of a virtual function: its descriptors, until its holder has them.
    pub(crate) function: Option<FunctionDescriptors>,
    /// It is not looked at before.
    pub(crate) next_look: Option<Instant>,
}

/// Its devices, and what the programs know of it.
pub(crate) struct Frame {
    pub(crate) host: Link,
    pub(crate) end: Link,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) row: VnicRow,
}

/// Makes a card's addresses known to the programs.
pub(crate) fn own_all(tables: &mut Tables, slot: u32, wish: &VnicWish) -> Result<(), DaemonError> {
    wish.addresses.iter().try_for_each(|(address, _)| match wish.shared {
        true => tables.share(slot, *address),
        false => tables.own(slot, *address),
    })
}

/// The NIC and its queues, if a VNIC has some.
pub(super) fn place(provider: &Provider) -> Option<(&str, u32)> {
    match provider {
        Provider::Queue { interface, first } => Some((interface, *first)),
        _ => None,
    }
}

impl Vnic {
    /// A new one of its parts.
    pub(crate) fn assemble(slot: u32, wish: VnicWish, maker: Maker, frame: Frame) -> Vnic {
        let own = |service: &Service| Steered { filter: Filter::service(*service), queue: None };
        let services = wish.services.iter().map(own).collect();
        let Maker { rule, user, account, process, .. } = maker;
        let Frame { host, end, gateways, row } = frame;
        Vnic {
            slot,
            wish,
            user,
            account,
            process,
            rule,
            host,
            end,
            gateways,
            row,
            filters: [services, Vec::new()],
            assigned: BTreeMap::new(),
            rates: [Rate::UNLIMITED; 2],
            queues: BTreeMap::new(),
            sockets: BTreeMap::new(),
            handles: 0,
            is_away: false,
            tap: None,
            function: None,
            next_look: None,
        }
    }

    /// Whether it has queues, or a function, of a NIC's, which is no device of its own.
    pub(crate) fn is_nics(&self) -> bool {
        matches!(self.wish.provider, Provider::Queue { .. } | Provider::Vf { .. })
    }

    /// The NIC's queue that is the VNIC's `queue`.
    pub(crate) fn nic_queue(&self, queue: u32) -> u32 {
        place(&self.wish.provider).map_or(0, |(_, first)| first + queue)
    }

    /// Whether it is a TAP device.
    pub(crate) fn is_tap(&self) -> bool {
        self.wish.provider == Provider::Tap
    }

    /// What the next daemon must know of it.
    pub(crate) fn state(&self, owner: Option<u32>, handles: Vec<HandleState>) -> VnicState {
        VnicState {
            slot: self.slot,
            wish: self.wish.clone(),
            user: self.user,
            account: Some(self.account),
            process: self.process,
            rule: self.rule.clone(),
            owner: owner.filter(|_| self.row.limits.iter().any(|[_, ceiling]| *ceiling != 0)),
            host: LinkState::of(&self.host),
            end: LinkState::of(&self.end),
            gateways: self.gateways.clone(),
            row: self.row,
            filters: self.filters.clone(),
            assigned: self.assigned.clone(),
            rates: self.rates,
            queues: self.queues.clone(),
            sockets: self.sockets.clone(),
            handles,
        }
    }

    /// Removes the device and its rows.
    pub(crate) fn remove(mut self, tables: &mut Tables, ends: &Namespace) {
        self.remove_queues(tables, ends);
        let addresses: Vec<Address> = self.wish.addresses.iter().map(|(address, _)| *address).collect();
        let devices = (!self.is_nics()).then_some((self.host.index, self.end.index));
        tables.disconnect(self.slot, devices, &addresses);
        for range in std::mem::take(&mut self.row.filters) {
            tables.free_filters(range);
        }
        if let Some((host, end)) = devices {
            // Gone already if somebody else removed it. While it is away, its number may be another interface's; one end goes with the other.
            let known = LinkState::of(&self.host);
            let _ = match link::link_by_index(host).is_ok_and(|found| known.is_host(&found)) {
                true => link::delete(host),
                // In another namespace, where it is without its fence, or gone. A daemon that took the card back has no descriptor of it.
                false if self.is_tap() => self.tap.as_ref().map_or(Ok(()), |device| tap::delete(device.as_fd())),
                false => ends.within(|| link::delete(end)).and_then(|deleted| deleted),
            };
        }
    }

    /// Limits one direction, now.
    pub(crate) fn set_rate(
        &mut self,
        tables: &mut Tables,
        direction: Direction,
        rate: Rate,
    ) -> Result<(), DaemonError> {
        let largest = if self.is_tap() { TRAIN_BYTES_MAX } else { self.wish.mtu };
        tables.set_limit(Tables::vnic_limit(self.slot, direction), rate, largest)?;
        self.rates[direction as usize] = rate;
        Ok(())
    }

    /// Numbers of the charges for its queues.
    pub(crate) fn charges(&self) -> impl Iterator<Item = u64> {
        self.sockets.values().copied()
    }

    /// Filters that count for it.
    pub(crate) fn filter_count(&self) -> usize {
        self.filters.iter().map(Vec::len).sum::<usize>()
            + self.assigned.values().map(|a| a.filters.len()).sum::<usize>()
    }

    /// `count` of its filters behind the first `skipped`, those of what it sends before those of what it receives.
    pub(crate) fn steered(&self, skipped: usize, count: usize) -> [Vec<Steered>; 2] {
        let of = |direction: Direction| {
            let own = self.filters.get(direction as usize).into_iter().flatten().copied();
            let assigned = self.assigned.values().filter(move |assignment| assignment.direction == direction);
            own.chain(assigned.flat_map(Assignment::steered)).map(move |filter| (direction, filter))
        };
        let mut found = [Vec::new(), Vec::new()];
        for (direction, filter) in of(Direction::Transmit).chain(of(Direction::Receive)).skip(skipped).take(count) {
            found[direction as usize].push(filter);
        }
        found
    }
}
