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

use crate::split::migration::error::MoveError;
use crate::split::net_core::accept::SEATS_MAX;
use crate::split::net_core::card::{Card, Handed, Holder};
use crate::split::net_core::lending::Copies;
use crate::split::net_core::tenancy::{Tenancy, TenancyImport};
use crate::split::net_core::tenant::export::Belongings;
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
        bytes.extend(snapshot::write(&tenancy.export())?);
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
        let (parted, rest) = snapshot::read::<TenancyImport>(rest)?;
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
    pub(crate) fn export(&self) -> Result<Vec<u8>, MoveError> {
        let handed = self.handed.as_ref().ok_or(MoveError::NotDaemons)?;
        let tenancy = self.tenancy.as_ref().ok_or(MoveError::NoService)?;
        let queue = self.vnic.migration().ok_or(MoveError::OwnDevice)?;
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
        let pools = [queue.receive_pool(), self.vnic.transmit_pool(), self.vnic.prepared_pool(), self.copies.pool()];
        frames::writing(&pools, |missing| {
            let mut bytes = snapshot::write(&head).map_err(MoveError::Write)?;
            bytes.extend(write_tenancy(tenancy).map_err(MoveError::Write)?);
            let queue = queue.export(missing).map_err(|error| MoveError::Queue(error.to_string()))?;
            bytes.extend(snapshot::write(&queue).map_err(MoveError::Write)?);
            match missing(1).len() + missing(3).len() {
                0 => Ok(bytes),
                lost => Err(MoveError::LostFrames(lost)),
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

    /// The card that [`export`](Card::export) wrote. It is still the other net core's.
    ///
    /// # Errors
    /// What can't be mapped, or can't be what a net core wrote.
    pub(crate) fn resume(bytes: &[u8], own: Belonging<OwnedFd>, now: Time) -> Result<Card, MoveError> {
        let (head, rest) = snapshot::read::<Head>(bytes).map_err(MoveError::Read)?;
        if head.seats.len() > SEATS_MAX {
            return Err(MoveError::Services(head.seats.len()));
        }
        let Belonging { card: [handle, receive, other, copies], queue, services } = own;
        let files = LendableFiles { receive, rest: other };
        let memory = head.plan.open_lent(&files).map_err(MoveError::FrameMemory)?;
        let copies = Copies::resumed(copies).map_err(MoveError::Copies)?;
        let mut services = services.into_iter();
        let belongings = |lengths: [usize; 2]| {
            let descriptors = services.next().ok_or(MoveError::NoServiceDescriptors)?;
            Belongings::open(descriptors, lengths).map_err(MoveError::Belongings)
        };
        let seats: Vec<Belongings> =
            head.seats.iter().flatten().copied().map(belongings).collect::<Result<_, MoveError>>()?;
        let taken: Vec<bool> = head.seats.iter().map(Option::is_some).collect();
        let pools = [&memory.receive, &memory.transmit, &memory.prepared, copies.pool()];
        let (tenancy, device) = frames::reading(&pools, || {
            let (tenancy, rest) = read_tenancy(rest, &taken, seats, head.plan.receive_frames, &copies)?;
            Ok((tenancy, snapshot::read::<ImportedQueue>(rest)?.0))
        })
        .map_err(MoveError::Read)?;
        let order = head.order;
        let vnic = order.resume(head.plan, memory, queue, device).map_err(MoveError::Device)?;
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
