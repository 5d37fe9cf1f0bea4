//! One VNIC: its veth device, its rows in the tables, its queues.

use super::spare::Spares;
use super::tables::{FLAG_ICMP, FLAG_SWITCH, Tables, VnicRow, say};
use crate::filter::{Direction, Filter, Rate};
use crate::policy::Rule;
use crate::protocol::{DirectionStatus, QueueWish, VnicStatus, VnicWish};
use qanat_nic::MemoryPlan;
use qanat_nic::af_xdp::{HandedQueue, hand_over};
use qanat_nic::link::{self, Feature, Link, Namespace};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Names tried after `qanat`.
const NAMES_MAX: u32 = 512;
/// Packets of a VNIC, bytes.
const MTU: std::ops::RangeInclusive<u32> = 576..=9_000;
/// Addresses of a VNIC at most.
pub(super) const ADDRESSES_MAX: usize = 16;

/// Where devices are made.
pub(super) struct Site<'a> {
    pub(super) tables: &'a mut Tables,
    /// Of the VNICs' ends.
    pub(super) ends: &'a Namespace,
    /// The kernel's addresses.
    pub(super) host: &'a [(IpAddr, u8)],
    pub(super) spares: &'a Spares,
}

/// A VNIC.
pub(super) struct Vnic {
    pub(super) slot: u32,
    pub(super) wish: VnicWish,
    pub(super) user: u32,
    pub(super) process: i32,
    /// The rule that allowed it, as it was then.
    pub(super) rule: Rule,
    pub(super) host: Link,
    pub(super) end: Link,
    pub(super) gateways: Vec<IpAddr>,
    row: VnicRow,
    /// Its own filters, transmit and receive.
    pub(super) filters: [Vec<Filter>; 2],
    /// Those assigned by handle.
    pub(super) assigned: BTreeMap<u64, (Direction, Filter)>,
    pub(super) rates: [Rate; 2],
    /// Bytes registered, by queue.
    pub(super) queues: BTreeMap<u32, u64>,
    /// Descriptors that hold it.
    pub(super) handles: u32,
}

impl Vnic {
    /// Makes the device, fenced from its first packet on: until its row says otherwise everything is dropped.
    pub(super) fn make(
        site: &mut Site<'_>,
        slot: u32,
        wish: VnicWish,
        rule: Rule,
        owner: Option<u32>,
        peer: (u32, i32),
    ) -> Result<Vnic, String> {
        let mut wish = wish;
        wish.queues = wish.queues.max(1);
        wish.mtu = if wish.mtu == 0 { 1_500 } else { wish.mtu };
        if !MTU.contains(&wish.mtu) {
            return Err(format!("MTU {}: must be from {} to {}", wish.mtu, MTU.start(), MTU.end()));
        }
        let end_name = format!("vnic{slot}");
        let host = make_veth(&end_name, site.ends, wish.mtu, wish.queues)?;
        let host_index = host.index;
        let made = Vnic::set_up(site, slot, wish, rule, owner, peer, host, &end_name);
        if made.is_err() {
            let _ = link::delete(host_index);
        }
        made
    }

    #[allow(clippy::too_many_arguments, reason = "the second half of `make`")]
    fn set_up(
        site: &mut Site<'_>,
        slot: u32,
        wish: VnicWish,
        rule: Rule,
        owner: Option<u32>,
        (user, process): (u32, i32),
        host: Link,
        end_name: &str,
    ) -> Result<Vnic, String> {
        let tables = &mut *site.tables;
        link::set_xdp(host.index, tables.gate()).map_err(|error| say("attach the gate", error))?;
        let deliver = tables.deliver();
        let end = site.ends.within(|| -> std::io::Result<Link> {
            let end = link::link(end_name)?;
            link::set_xdp(end.index, deliver)?;
            link::set_up(end.index)?;
            // With TSO on, veth judges frames from here unfit for GRO and skips batching at the other end.
            let _ = link::set_feature(end_name, Feature::TcpSegmentation, false);
            Ok(end)
        });
        let end = end.and_then(|result| result).map_err(|error| say("set up the VNIC's end", error))?;
        link::set_up(host.index).map_err(|error| say("set up the kernel's end", error))?;
        let gateways = address_host(&host, &wish.addresses, site.host)?;
        let limits = |direction| {
            let ceiling = owner.map_or(0, |owner| Tables::owner_limit(owner, direction));
            [Tables::vnic_limit(slot, direction), ceiling]
        };
        let mut flags = 0;
        flags |= if rule.icmp { FLAG_ICMP } else { 0 };
        flags |= if rule.switch { FLAG_SWITCH } else { 0 };
        let row = VnicRow {
            mac: end.mac.0,
            host_mac: host.mac.0,
            flags,
            limits: [limits(Direction::Transmit), limits(Direction::Receive)],
            ..VnicRow::default()
        };
        tables.clear_counts(slot)?;
        for direction in [Direction::Transmit, Direction::Receive] {
            tables.set_limit(Tables::vnic_limit(slot, direction), Rate::UNLIMITED, wish.mtu)?;
        }
        tables.set_vnic(slot, &row)?;
        for (address, _) in &wish.addresses {
            tables.own(slot, *address)?;
        }
        tables.connect(slot, host.index, end.index)?;
        tables.open_port(slot, host.index)?;
        let services = wish.services.iter().map(|service| Filter::service(*service)).collect();
        let mut vnic = Vnic {
            slot,
            wish,
            user,
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
            handles: 0,
        };
        vnic.write_filters(tables)?;
        Ok(vnic)
    }

    /// Removes the device and its rows.
    pub(super) fn remove(mut self, tables: &mut Tables) {
        let addresses: Vec<IpAddr> = self.wish.addresses.iter().map(|(address, _)| *address).collect();
        tables.disconnect(self.slot, self.host.index, self.end.index, &addresses);
        for range in std::mem::take(&mut self.row.filters) {
            tables.free_filters(range);
        }
        // Gone already if somebody else removed it.
        let _ = link::delete(self.host.index);
    }

    /// Writes the filters as they are now; packets are judged by the old ones or by the new ones, never by none.
    pub(super) fn write_filters(&mut self, tables: &mut Tables) -> Result<(), String> {
        let mut row = self.row;
        for direction in [Direction::Transmit, Direction::Receive] {
            let own = self.filters.get(direction as usize).into_iter().flatten();
            let assigned = self.assigned.values().filter(|(way, _)| *way == direction).map(|(_, filter)| filter);
            let mut all: Vec<Filter> = own.chain(assigned).copied().collect();
            all.dedup();
            row.filters[direction as usize] = match tables.write_filters(&all) {
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
        tables.set_vnic(self.slot, &row)?;
        for range in self.row.filters {
            tables.free_filters(range);
        }
        self.row = row;
        Ok(())
    }

    /// Limits one direction, now.
    pub(super) fn set_rate(&mut self, tables: &mut Tables, direction: Direction, rate: Rate) -> Result<(), String> {
        tables.set_limit(Tables::vnic_limit(self.slot, direction), rate, self.wish.mtu)?;
        self.rates[direction as usize] = rate;
        Ok(())
    }

    /// Registers the client's memory with a socket on a queue. Memory already charged to this queue is not counted in
    /// `memory_left`: the socket that used it must be gone, or binding fails.
    pub(super) fn open_queue(
        &mut self,
        site: &mut Site<'_>,
        wish: QueueWish,
        file: &OwnedFd,
        memory_left: u64,
    ) -> Result<HandedQueue, String> {
        if wish.queue >= self.wish.queues {
            return Err(format!(
                "VNIC {} has {} queues, from 0: there is no {}",
                self.slot, self.wish.queues, wish.queue
            ));
        }
        let QueueWish { queue, frame_size, receive_frames, transmit_frames, prepared_frames } = wish;
        let plan = MemoryPlan { frame_size, receive_frames, transmit_frames, prepared_frames };
        let frames = u64::from(receive_frames) + u64::from(transmit_frames) + u64::from(prepared_frames);
        let length = frames.saturating_mul(u64::from(frame_size));
        let left = memory_left + self.queues.get(&queue).copied().unwrap_or(0);
        if length > left {
            return Err(format!(
                "rule \"{}\" allows {} MiB of frame memory, of which {} are left: not {length} bytes",
                self.rule.name,
                self.rule.memory_mib,
                left >> 20
            ));
        }
        check_memory_file(file, length)?;
        let injector = site.spares.take();
        let handed = hand_over(&self.end, site.ends, queue, file.as_fd(), plan, injector);
        let handed = handed.map_err(|error| error.to_string())?;
        site.tables.set_socket(self.slot, queue, handed.socket.as_fd())?;
        self.queues.insert(queue, length);
        Ok(handed)
    }

    /// Filters that count for it.
    pub(super) fn filter_count(&self) -> usize {
        self.filters.iter().map(Vec::len).sum::<usize>() + self.assigned.len()
    }

    pub(super) fn status(&self, tables: &Tables) -> VnicStatus {
        let direction = |direction: Direction| {
            let own = self.filters.get(direction as usize).into_iter().flatten();
            let assigned = self.assigned.values().filter(|(way, _)| *way == direction).map(|(_, filter)| filter);
            DirectionStatus {
                filters: own.chain(assigned).take(64).copied().collect(),
                rate: self.rates[direction as usize],
                counts: tables.counts(self.slot, direction),
            }
        };
        VnicStatus {
            vnic: self.slot,
            name: self.wish.name.clone(),
            user: self.user,
            process: self.process,
            rule: self.rule.name.clone(),
            mac: self.end.mac.0,
            interface: self.host.name.clone(),
            mtu: self.wish.mtu,
            addresses: self.wish.addresses.clone(),
            gateways: self.gateways.clone(),
            queues: self.wish.queues,
            queues_open: self.queues.len() as u32,
            memory_bytes: self.queues.values().sum(),
            persistent: self.wish.persistent,
            transmit: direction(Direction::Transmit),
            receive: direction(Direction::Receive),
        }
    }
}

/// A device whose one end is here, under the first free name, and whose other end is called `end_name`.
fn make_veth(end_name: &str, ends: &Namespace, mtu: u32, queues: u32) -> Result<Link, String> {
    for number in 0..NAMES_MAX {
        let name = format!("qanat{number}");
        if link::link(&name).is_ok() {
            continue;
        }
        match link::make_veth(&name, end_name, ends, mtu, queues) {
            Ok(()) => return link::link(&name).map_err(|error| say("find the veth device", error)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(say("make a veth device", error)),
        }
    }
    Err(format!("{NAMES_MAX} interfaces are called qanat…: remove some"))
}

/// Gives the kernel's end an address towards each of the VNIC's, and only towards it; returns these.
fn address_host(host: &Link, addresses: &[(IpAddr, u8)], own: &[(IpAddr, u8)]) -> Result<Vec<IpAddr>, String> {
    let mut gateways = Vec::new();
    for (address, _) in addresses {
        let family = |(candidate, _): &&(IpAddr, u8)| candidate.is_ipv4() == address.is_ipv4();
        let near = |(candidate, length): &&(IpAddr, u8)| {
            let prefix = crate::filter::Prefix::new(*candidate, *length);
            prefix.is_some_and(|prefix| prefix.contains(crate::filter::Prefix::host(*address)))
        };
        let Some((gateway, _)) = own.iter().find(near).or_else(|| own.iter().find(family)) else {
            return Err(format!("{address}: the kernel has no address of that family here: add one to `host`"));
        };
        link::add_peer_address(host.index, *gateway, *address)
            .map_err(|error| say("give the kernel's end an address", error))?;
        if !gateways.contains(gateway) {
            gateways.push(*gateway);
        }
    }
    Ok(gateways)
}

/// Whether memory can't be pulled from under the kernel, or be more than what is paid for.
fn check_memory_file(file: &OwnedFd, length: u64) -> Result<(), String> {
    let seals = fcntl_get_seals(file).map_err(|_| "frame memory must be a memory file (memfd_create)".to_owned())?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) || seals.contains(SealFlags::WRITE) {
        return Err("frame memory must be sealed against shrinking and growing, and writable".to_owned());
    }
    let status = fstat(file).map_err(|error| say("look at frame memory", error))?;
    let size = status.st_size;
    if u64::try_from(size) != Ok(length) || length == 0 {
        return Err(format!("frame memory has {size} bytes, the plan {length}: they must be the same"));
    }
    // Pages the daemon's own registering would bring into being would be the daemon's, and its time.
    match u64::try_from(status.st_blocks).is_ok_and(|blocks| blocks.saturating_mul(512) >= length) {
        true => Ok(()),
        false => Err("frame memory must be allocated (fallocate) before it is registered".to_owned()),
    }
}
