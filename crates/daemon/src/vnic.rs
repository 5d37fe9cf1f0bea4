//! One VNIC: its veth device, its rows in the tables, its queues.

use super::charges::{Charge, Charges};
use super::injectors::Opener;
use super::nic;
use super::queues;
use super::state::{HandleState, LinkState, StateDirectory, VnicState};
use super::steering::Assignment;
use super::tables::{FLAG_FILTERED, FLAG_ICMP, FLAG_PEERS, FLAG_SWITCH, FLAG_UPLINK, Tables, VnicRow, say};
use super::tap::{self, TRAIN_BYTES_MAX};
use super::uplink::{self, Uplink};
use crate::policy::Rule;
use qanat_control::address::Address;
use qanat_control::filter::{Addresses, Direction, Filter, Rate, Service};
use qanat_control::protocol::{DirectionStatus, Provider, QueueWish, Steered, VnicStatus, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::MemoryPlan;
use qanat_nic::af_xdp::{HandedQueue, INJECTION_BYTES, MemoryFiles, PreparedBatch, hand_over, is_injectable};
use qanat_nic::link::{self, Feature, Link, Namespace};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Names tried after `qanat`.
pub(super) const NAMES_MAX: u32 = 512;
/// Packets of a VNIC, bytes.
const MTU: std::ops::RangeInclusive<u32> = 576..=9_000;
/// RFC 8200 §5.
const IPV6_MTU_MIN: u32 = 1_280;
/// Addresses of a VNIC at most.
pub(super) const ADDRESSES_MAX: usize = 16;

/// Where devices are made.
pub(super) struct Site<'a> {
    pub(super) tables: &'a mut Tables,
    /// Of the VNICs' ends.
    pub(super) ends: &'a Namespace,
    /// The kernel's addresses.
    pub(super) host: &'a [(Address, u8)],
    pub(super) charges: &'a mut Charges,
    pub(super) state: &'a StateDirectory,
    pub(super) uplink: Option<&'a Uplink>,
}

/// A VNIC.
pub(super) struct Vnic {
    pub(super) slot: u32,
    pub(super) wish: VnicWish,
    pub(super) user: u32,
    /// Whose limits it counts to.
    pub(super) account: u32,
    pub(super) process: i32,
    /// The rule that allowed it, as it was then.
    pub(super) rule: Rule,
    pub(super) host: Link,
    pub(super) end: Link,
    pub(super) gateways: Vec<IpAddr>,
    pub(super) row: VnicRow,
    /// Its own filters, transmit and receive.
    pub(super) filters: [Vec<Steered>; 2],
    /// Those assigned by handle.
    pub(super) assigned: BTreeMap<u64, Assignment>,
    pub(super) rates: [Rate; 2],
    /// Bytes registered, by queue.
    pub(super) queues: BTreeMap<u32, u64>,
    /// Numbers of the charges for that, by queue.
    sockets: BTreeMap<u32, u64>,
    /// Descriptors that hold it.
    pub(super) handles: u32,
    /// The kernel's end is in another namespace.
    pub(super) is_away: bool,
    /// Of a TAP device: its descriptor.
    pub(super) tap: Option<OwnedFd>,
    /// It is not looked at before.
    pub(super) next_look: Option<Instant>,
}

/// For whom a VNIC is made, and by which rule.
pub(super) struct Maker {
    pub(super) rule: Rule,
    /// The number of the user's ceiling.
    pub(super) owner: Option<u32>,
    pub(super) user: u32,
    pub(super) account: u32,
    pub(super) process: i32,
}

impl Maker {
    /// The rows of limits in one direction.
    pub(super) fn limits(&self, slot: u32, direction: Direction) -> [u32; 2] {
        let ceiling = self.owner.map_or(0, |owner| Tables::owner_limit(owner, direction));
        [Tables::vnic_limit(slot, direction), ceiling]
    }

    /// Gives a VNIC its row, its counts from nothing and its rates without limit; returns the row. `addresses`: Ethernet's, of
    /// its end and of its host's.
    pub(super) fn write_row(
        &self,
        tables: &mut Tables,
        slot: u32,
        wish: &VnicWish,
        [mac, host_mac]: [[u8; 6]; 2],
        flags: u32,
    ) -> Result<VnicRow, String> {
        let limits = |direction| self.limits(slot, direction);
        let row = VnicRow {
            mac,
            host_mac,
            flags: flags | if self.rule.icmp { FLAG_ICMP } else { 0 },
            limits: [limits(Direction::Transmit), limits(Direction::Receive)],
            spread: queues::spread(wish),
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

/// Its devices, and what the programs know of it.
pub(super) struct Frame {
    pub(super) host: Link,
    pub(super) end: Link,
    pub(super) gateways: Vec<IpAddr>,
    pub(super) row: VnicRow,
}

/// Makes a card's addresses known to the programs.
pub(super) fn own_all(tables: &mut Tables, slot: u32, wish: &VnicWish) -> Result<(), String> {
    wish.addresses.iter().try_for_each(|(address, _)| match wish.shared {
        true => tables.share(slot, *address),
        false => tables.own(slot, *address),
    })
}

/// Makes a card's addresses and devices known to the programs.
pub(super) fn enter(tables: &mut Tables, slot: u32, wish: &VnicWish, host: &Link, end: &Link) -> Result<(), String> {
    if matches!(wish.provider, Provider::Queue { .. }) {
        return nic::enter(tables, slot, wish, end);
    }
    own_all(tables, slot, wish)?;
    if wish.provider == Provider::Tap {
        return tap::connect(tables, slot, host, end);
    }
    tables.name_card(slot, end.mac.0)?;
    tables.connect(slot, host.index, end.index)?;
    tables.open_port(slot, host.index)
}

impl Vnic {
    /// Makes the device, fenced from its first packet on: until its row says otherwise everything is dropped.
    pub(super) fn make(site: &mut Site<'_>, slot: u32, mut wish: VnicWish, maker: Maker) -> Result<Vnic, Refusal> {
        wish.queues = wish.queues.max(1);
        wish.mtu = if wish.mtu == 0 { 1_500 } else { wish.mtu };
        if !MTU.contains(&wish.mtu) {
            return Err(format!("MTU {}: must be from {} to {}", wish.mtu, MTU.start(), MTU.end()).into());
        }
        if wish.mtu < IPV6_MTU_MIN && wish.addresses.iter().any(|(address, _)| !address.is_ipv4()) {
            return Err(format!("MTU {}: must be {IPV6_MTU_MIN} or more with an IPv6 address", wish.mtu).into());
        }
        let end_name = format!("vnic{slot}");
        let host = make_veth(slot, &end_name, site.ends, wish.mtu)?;
        let host_index = host.index;
        let made = Vnic::set_up(site, slot, wish, maker, host, &end_name);
        if made.is_err() {
            let _ = link::delete(host_index);
        }
        made
    }

    /// The second half of `make`.
    fn set_up(
        site: &mut Site<'_>,
        slot: u32,
        wish: VnicWish,
        maker: Maker,
        host: Link,
        end_name: &str,
    ) -> Result<Vnic, Refusal> {
        let rule = &maker.rule;
        let tables = &mut *site.tables;
        link::set_xdp(host.index, tables.gate()).map_err(|error| say("attach the gate", error))?;
        // What passes the gate goes up in as few pieces as may be: up to half as much again for the kernel's clients.
        let _ = link::set_feature(&host.name, Feature::GenericReceive, true);
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
        let mut flags = uplink::flags(site.uplink, rule, &wish)?;
        let wire = site.uplink.filter(|_| flags & FLAG_UPLINK != 0);
        let gateways = match wire {
            // The kernel has the address itself.
            Some(uplink) if wish.shared => uplink.gateways(),
            Some(uplink) => {
                let near: Vec<(Address, u8)> = uplink.addresses.iter().chain(site.host).copied().collect();
                address_host(&host, &wish.addresses, &near)?;
                uplink.gateways()
            }
            None => address_host(&host, &wish.addresses, site.host)?,
        };
        flags |= if rule.switch { FLAG_SWITCH } else { 0 };
        let row = maker.write_row(tables, slot, &wish, [end.mac.0, host.mac.0], flags)?;
        let entered = enter(tables, slot, &wish, &host, &end);
        let mut vnic = Vnic::assemble(slot, wish, maker, Frame { host, end, gateways, row });
        match entered.and_then(|()| vnic.write_filters(tables)) {
            Ok(()) => Ok(vnic),
            Err(error) => {
                // Rows that stayed would be nobody's to give away again.
                vnic.remove(tables, site.ends);
                Err(error.into())
            }
        }
    }

    /// A new one of its parts.
    pub(super) fn assemble(slot: u32, wish: VnicWish, maker: Maker, frame: Frame) -> Vnic {
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
            next_look: None,
        }
    }

    /// One that an earlier daemon made; its devices are what they were.
    pub(super) fn take_back(tables: &mut Tables, state: VnicState, host: Link, end: Link) -> Result<Vnic, String> {
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
        let handles = 0;
        let mut vnic = Vnic {
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
            filters,
            assigned,
            rates,
            queues,
            sockets,
            handles,
            is_away: false,
            tap: None,
            next_look: None,
        };
        vnic.write_filters(tables)?;
        Ok(vnic)
    }

    /// What the next daemon must know of it.
    pub(super) fn state(&self, owner: Option<u32>, handles: Vec<HandleState>) -> VnicState {
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
    pub(super) fn remove(mut self, tables: &mut Tables, ends: &Namespace) {
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
                // In another namespace, where it is nobody's affair here, or gone.
                false if self.is_tap() => Ok(()),
                false => ends.within(|| link::delete(end)).and_then(|deleted| deleted),
            };
        }
    }

    /// Writes the filters as they are now; packets are judged by the old ones or by the new ones, never by none.
    pub(super) fn write_filters(&mut self, tables: &mut Tables) -> Result<(), String> {
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

    /// Limits one direction, now.
    pub(super) fn set_rate(&mut self, tables: &mut Tables, direction: Direction, rate: Rate) -> Result<(), String> {
        let largest = if self.is_tap() { TRAIN_BYTES_MAX } else { self.wish.mtu };
        tables.set_limit(Tables::vnic_limit(self.slot, direction), rate, largest)?;
        self.rates[direction as usize] = rate;
        Ok(())
    }

    /// Registers the client's memory with a socket on a queue, and charges it to the VNIC's owner.
    pub(super) fn open_queue(
        &mut self,
        site: &mut Site<'_>,
        wish: QueueWish,
        files: &[OwnedFd],
        opener: Opener,
    ) -> Result<HandedQueue, Refusal> {
        if wish.queue >= self.wish.queues {
            return Err(format!(
                "VNIC {} has {} queues, from 0: there is no {}",
                self.slot, self.wish.queues, wish.queue
            )
            .into());
        }
        let QueueWish { queue, frame_size, receive_frames, transmit_frames, prepared_frames } = wish;
        let plan = MemoryPlan { frame_size, receive_frames, transmit_frames, prepared_frames };
        let frames = u64::from(receive_frames) + u64::from(transmit_frames) + u64::from(prepared_frames);
        let length = frames.saturating_mul(u64::from(frame_size));
        site.charges.settle(site.state, self.account);
        let left = (self.rule.memory_mib << 20).saturating_sub(site.charges.of(self.account));
        if length > left {
            let text = format!(
                "rule \"{}\" allows {} MiB of frame memory, of which {} are left: not {length} bytes (memory of a \
                 deleted VNIC counts until its sockets are closed)",
                self.rule.name,
                self.rule.memory_mib,
                left >> 20
            );
            return Err(Refusal::new(Cause::Full, text));
        }
        let files = match files {
            [receive, rest] => {
                let received = u64::from(receive_frames) * u64::from(frame_size);
                check_memory_file(receive, received)?;
                check_memory_file(rest, length.saturating_sub(received))?;
                MemoryFiles::Lendable(receive.as_fd(), rest.as_fd())
            }
            [file, ..] => {
                check_memory_file(file, length)?;
                MemoryFiles::One(file.as_fd())
            }
            [] => return Err("frame memory comes beside the request".into()),
        };
        let handed = if self.is_nics() {
            let here = Namespace::current().map_err(|error| say("look at the own namespace", error))?;
            // Nothing judges what is sent there, and the device finishes checksums before the wire.
            hand_over(&self.end, &here, self.nic_queue(queue), files, plan, true)
        } else {
            let device = self.queue_device(site.tables, site.ends, queue)?;
            hand_over(&device, site.ends, 0, files, plan, false)
        };
        let mut handed = handed.map_err(|error| error.to_string())?;
        let may_inject = self.may_inject(opener) && left - length >= INJECTION_BYTES;
        let batch = may_inject.then(|| site.charges.injectors.prepare()).flatten();
        let bytes = length + batch.as_ref().map_or(0, |_| INJECTION_BYTES);
        let number = batch.as_ref().map_or(0, PreparedBatch::number);
        let Charge { row, number } =
            site.charges.add(site.state, self.account, bytes, handed.socket.as_fd(), number)?;
        if let Some(batch) = batch {
            handed.injector = site.charges.injectors.hand_over(row, batch, self.end.index, site.ends);
        }
        site.tables.set_socket(self.slot, queue, handed.socket.as_fd())?;
        self.queues.insert(queue, length);
        if let Some(before) = self.sockets.insert(queue, number) {
            site.charges.revoke(before);
        }
        Ok(handed)
    }

    /// Whether who opens a queue may have an injector. With it goes the descriptor of an XDP program, and the kernel lets whoever
    /// holds one attach it, by a link, to any device of the namespace he is in: no capability is asked for. So nobody has it who
    /// could not do that anyway, or can't at all.
    fn may_inject(&self, opener: Opener) -> bool {
        let is_trusted = opener == Opener::NetCore || self.user == 0 || self.rule.trusted;
        is_trusted && !self.is_nics() && is_injectable(self.wish.mtu)
    }

    /// Numbers of the charges for its queues.
    pub(super) fn charges(&self) -> impl Iterator<Item = u64> {
        self.sockets.values().copied()
    }

    /// Filters that count for it.
    pub(super) fn filter_count(&self) -> usize {
        self.filters.iter().map(Vec::len).sum::<usize>()
            + self.assigned.values().map(|a| a.filters.len()).sum::<usize>()
    }

    pub(super) fn status(&self, tables: &Tables, charges: &Charges) -> VnicStatus {
        let [transmit, receive] = self.steered(0, 64);
        let direction = |direction: Direction, filters: Vec<Steered>| DirectionStatus {
            filters,
            rate: self.rates[direction as usize],
            counts: tables.counts(self.slot, direction),
        };
        let (queues_open, memory_bytes) = self.open_queues(charges);
        VnicStatus {
            vnic: self.slot,
            name: self.wish.name.clone(),
            user: self.user,
            process: self.process,
            rule: self.rule.name.clone(),
            mac: self.end.mac.0,
            interface: self.host.name.clone(),
            mtu: self.wish.mtu,
            addresses: self.wish.addresses.iter().map(|(address, length)| (address.ip(), *length)).collect(),
            gateways: self.gateways.clone(),
            queues: self.wish.queues,
            queues_open,
            memory_bytes,
            persistent: self.wish.persistent,
            priority_queues: self.wish.priority_queues,
            uplink: self.row.flags & FLAG_UPLINK != 0,
            provider: self.wish.provider.clone(),
            driver: match self.wish.provider {
                Provider::Queue { .. } => link::driver(&self.end.name).unwrap_or_default(),
                Provider::Tap => "tun".to_owned(),
                Provider::Veth | Provider::Vf => "veth".to_owned(),
            },
            shared: self.wish.shared,
            transmit: direction(Direction::Transmit, transmit),
            receive: direction(Direction::Receive, receive),
        }
    }

    /// How many queues are open, and how much memory they have.
    pub(super) fn open_queues(&self, charges: &Charges) -> (u32, u64) {
        // Its opener may have ended, and a persistent VNIC stays.
        let is_open = |queue: &u32| self.sockets.get(queue).is_none_or(|charge| charges.is_held(*charge));
        let open = self.queues.iter().filter(|(queue, _)| is_open(queue));
        open.fold((0, 0), |(count, sum), (_, length)| (count + 1, sum + length))
    }

    /// `count` of its filters behind the first `skipped`, those of what it sends before those of what it receives.
    pub(super) fn steered(&self, skipped: usize, count: usize) -> [Vec<Steered>; 2] {
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

/// A device whose one end is here, under the first free name from the VNIC's number on, and whose other end is called
/// `end_name`.
fn make_veth(slot: u32, end_name: &str, ends: &Namespace, mtu: u32) -> Result<Link, String> {
    for number in slot..slot + NAMES_MAX {
        let name = format!("qanat{number}");
        match link::make_veth(&name, end_name, ends, mtu, 1) {
            Ok(()) => return link::link(&name).map_err(|error| say("find the veth device", error)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(say("make a veth device", error)),
        }
    }
    Err(format!("{NAMES_MAX} interfaces are called qanat…: remove some"))
}

/// Gives the kernel's end an address towards each of the VNIC's, and only towards it; returns these.
pub(super) fn address_host(
    host: &Link,
    addresses: &[(Address, u8)],
    own: &[(Address, u8)],
) -> Result<Vec<IpAddr>, String> {
    let mut gateways = Vec::new();
    for (address, _) in addresses {
        let family = |(candidate, _): &&(Address, u8)| candidate.is_ipv4() == address.is_ipv4();
        let near = |(candidate, length): &&(Address, u8)| {
            let prefix = Addresses::prefix(**candidate, *length);
            prefix.is_some_and(|prefix| prefix.contains(Addresses::host(**address)))
        };
        let Some((gateway, _)) = own.iter().find(near).or_else(|| own.iter().find(family)) else {
            return Err(format!("{address}: the kernel has no address of that family here: add one to `host`"));
        };
        let gateway = gateway.ip();
        let is_there = gateways.contains(&gateway);
        match gateway.is_ipv6() && is_there {
            // The kernel keeps an IPv6 address once an interface, whatever its peer.
            true => link::add_route(host.index, address.ip(), gateway),
            false => link::add_peer_address(host.index, gateway, address.ip()),
        }
        .map_err(|error| say("give the kernel's end a way to an address", error))?;
        if !is_there {
            gateways.push(gateway);
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
