//! A card as it goes from one net core's process to another's: what is written of it, and what is made of that there.
//!
//! ```text
//!   stays where it is, and its descriptors go along     frames, rings of the device and of services, transmit memory, sockets
//!   is written into a memory file                       the stack, who is lent what, what waits to be told; which frames the device has
//! ```
//! The one that writes is a net core as well: the daemon trusts it with the card, and no more. So the reader believes nothing that
//! its own memory hangs on: each frame is claimed once, windows are within frames, ranges within memories, tables are looked
//! through ([`Stack::resume`]). What it can be made to do is to serve that card badly, or to panic: it is started again then, and
//! its other cards' connections are closed, as after any net core's death.

use crate::split::net_core::accept::SEATS_MAX;
use crate::split::net_core::card_end::Holder;
use crate::split::net_core::core::{Card, Handed};
use crate::split::net_core::lending::Copies;
use crate::split::net_core::tenancy::{Tenancy, TenancyParted};
use crate::split::net_core::tenant::parting::Belongings;
use bytes::Bytes;
use qanat_control::net_core::CardOrder;
use qanat_nic::migration::ImportedQueue;
use qanat_nic::{LendableFiles, MemoryPlan, Time, snapshot as frames};
use qanat_stack::{Config, Stack, snapshot};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What is written first.
#[derive(Serialize, Deserialize)]
struct Head {
    config: Config,
    plan: MemoryPlan,
    user: Option<u32>,
    services: u64,
    is_shareable: bool,
    connections_max: u32,
    order: CardOrder,
    /// By seat: bytes of the service's memory, if somebody has it.
    seats: Vec<Option<[usize; 2]>>,
}

/// Descriptors of a card.
pub(crate) struct Belonging<T> {
    /// Its handle, received frames, other frames, copies.
    pub card: [T; 4],
    /// The queue's socket, and what its injector has.
    pub queue: Vec<T>,
    /// Of each service, in order.
    pub services: Vec<Vec<T>>,
}

fn memories<'a>(all: impl Iterator<Item = &'a Bytes>) -> Vec<Bytes> {
    all.cloned().collect()
}

/// A stack and its services, where frames can be written.
pub(crate) fn write_tenancy(tenancy: &Tenancy) -> Result<Vec<u8>, snapshot::Fault> {
    snapshot::among(memories(tenancy.tenants().flat_map(|tenant| tenant.memories())), || {
        let mut bytes = tenancy.stack().part()?;
        bytes.extend(snapshot::write(&tenancy.part())?);
        Ok(bytes)
    })
}

/// The same, where frames can be read, and what follows it.
pub(crate) fn read_tenancy<'a>(
    bytes: &'a [u8],
    taken: &[bool],
    seats: Vec<Belongings>,
    receive_frames: u32,
    copies: &Copies,
) -> Result<(Tenancy, &'a [u8]), snapshot::Fault> {
    let read = snapshot::among(memories(seats.iter().flat_map(Belongings::memories)), || {
        let (stack, rest) = Stack::resume(bytes)?;
        let (parted, rest) = snapshot::read::<TenancyParted>(rest)?;
        Ok((stack, parted, rest))
    });
    let (stack, parted, rest) = read?;
    let tenancy = Tenancy::resume(stack, parted, taken, seats, receive_frames, copies);
    Ok((tenancy.ok_or(snapshot::Fault::SerdeDeCustom)?, rest))
}

impl Card {
    /// What is to be written of it. It stays as it is.
    ///
    /// # Errors
    /// Why it can't go now.
    pub(crate) fn part(&self) -> Result<Vec<u8>, String> {
        let handed = self.handed.as_ref().ok_or("it is not the daemon's")?;
        let tenancy = self.tenancy.as_ref().ok_or("its service has not come yet")?;
        let queue = self.vnic.migration().ok_or("its device is this process's own")?;
        let head = Head {
            config: self.config.clone(),
            plan: self.plan,
            user: self.user,
            services: self.services,
            is_shareable: self.is_shareable,
            connections_max: self.connections_max,
            order: handed.order.clone(),
            seats: tenancy.seats().map(|tenant| tenant.map(|t| t.memories().map(|memory| memory.len()))).collect(),
        };
        let fault = |error: snapshot::Fault| error.to_string();
        let pools = [queue.receive_pool(), self.vnic.transmit_pool(), self.vnic.prepared_pool(), self.copies.pool()];
        frames::writing(&pools, |missing| {
            let mut bytes = snapshot::write(&head).map_err(fault)?;
            bytes.extend(write_tenancy(tenancy).map_err(fault)?);
            bytes.extend(snapshot::write(&queue.export(missing).map_err(|error| error.to_string())?).map_err(fault)?);
            match missing(1).len() + missing(3).len() {
                0 => Ok(bytes),
                lost => Err(format!("{lost} frames are nobody's")),
            }
        })
    }

    /// Its descriptors; `None`: it is not the daemon's, or nobody's.
    pub(crate) fn belongings(&self) -> Option<Belonging<BorrowedFd<'_>>> {
        let (handed, tenancy) = (self.handed.as_ref()?, self.tenancy.as_ref()?);
        Some(Belonging {
            card: [handed.handle.as_fd(), self.received.as_fd(), handed.rest.as_fd(), self.copies.file()],
            queue: self.vnic.migration()?.descriptors(),
            services: tenancy.tenants().map(|tenant| tenant.descriptors()).collect(),
        })
    }

    /// Whether another net core has it, or may have: its end here is nobody's end then.
    pub(crate) fn set_anothers(&self, is_anothers: bool) {
        let tenants = self.tenancy.iter().flat_map(Tenancy::tenants);
        tenants.for_each(|tenant| tenant.files().set_anothers(is_anothers));
    }

    /// The card that [`part`](Card::part) wrote. It is still the other net core's.
    ///
    /// # Errors
    /// What can't be mapped, or can't be what a net core wrote.
    pub(crate) fn resume(bytes: &[u8], own: Belonging<OwnedFd>, now: Time) -> Result<Card, String> {
        let fault = |error: snapshot::Fault| format!("what came of it can't be read: {error}");
        let (head, rest) = snapshot::read::<Head>(bytes).map_err(fault)?;
        if head.seats.len() > SEATS_MAX {
            return Err(format!("{} services", head.seats.len()));
        }
        let Belonging { card: [handle, receive, other, copies], queue, services } = own;
        let files = LendableFiles { receive, rest: other };
        let memory = head.plan.open_lent(&files).map_err(|error| format!("frame memory: {error}"))?;
        let copies = Copies::resumed(copies).map_err(|error| format!("copies: {error}"))?;
        let mut services = services.into_iter();
        let belongings = |lengths: [usize; 2]| {
            Belongings::open(services.next().ok_or("a service's descriptors are missing")?, lengths)
        };
        let seats: Vec<Belongings> = head.seats.iter().flatten().copied().map(belongings).collect::<Result<_, _>>()?;
        let taken: Vec<bool> = head.seats.iter().map(Option::is_some).collect();
        let pools = [&memory.receive, &memory.transmit, &memory.prepared, copies.pool()];
        let (tenancy, device) = frames::reading(&pools, || {
            let (tenancy, rest) = read_tenancy(rest, &taken, seats, head.plan.receive_frames, &copies)?;
            Ok((tenancy, snapshot::read::<ImportedQueue>(rest)?.0))
        })
        .map_err(fault)?;
        let order = head.order;
        let vnic = order.resume(head.plan, memory, queue, device).map_err(|error| error.to_string())?;
        Ok(Card {
            vnic: Box::new(vnic),
            received: files.receive,
            copies,
            config: head.config,
            plan: head.plan,
            interface: order.interface.clone(),
            driver: order.driver.clone(),
            user: head.user,
            services: head.services,
            tenancy: Some(tenancy),
            is_shareable: head.is_shareable,
            is_up: None,
            connections_max: head.connections_max,
            holder: Holder::Own,
            handed: Some(Handed { number: order.number, since: now, order, rest: files.rest, handle }),
        })
    }
}
