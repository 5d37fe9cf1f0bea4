//! A card of a net core: its device, its stack while it has services, and what it may be used for.

use crate::entropy::entropy;
use crate::split::handshake::{
    Attach, Attached, CONNECTIONS_MAX, CardStatus, LARGE_BLOCK_BYTES, Reply, SMALL_BLOCK_BYTES,
};
use crate::split::memory::Extent;
use crate::split::net_core::accept::AcceptPolicy;
use crate::split::net_core::lending::{COPIES, COPY_BYTES, Copies};
use crate::split::net_core::peers::{Introduced, PENDING_PATIENCE};
use crate::split::net_core::refused::Refused;
use crate::split::net_core::tenancy::Tenancy;
use crate::split::net_core::tenant::Tenant;
use qanat_control::net_core::{CardNumber, CardOrder, SERVICE_MEMORY_BYTES};
use qanat_control::protocol::send;
use qanat_nic::{Frame, LendableFiles, MemoryPlan, Time, Vnic};
use qanat_stack::{Config, Stack};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

/// A card of a net core: a queue whose received frames can be lent.
pub struct Card {
    pub(crate) vnic: Box<dyn Vnic>,
    pub(crate) received: OwnedFd,
    /// For small messages that services keep. All services of the card, which are one user's, share it.
    pub(crate) copies: Copies,
    pub(crate) config: Config,
    pub(crate) plan: MemoryPlan,
    pub(crate) interface: String,
    pub(crate) driver: String,
    /// Of the first service it had: its frames may still be mapped by that user's processes, so it serves no other's.
    pub(crate) user: Option<u32>,
    pub(crate) services: u64,
    /// The present service, or services.
    pub(crate) tenancy: Option<Tenancy>,
    /// It shares the card with others that want it so.
    pub(crate) is_shareable: bool,
    /// Whether its link is there.
    pub(crate) is_up: Option<Box<dyn Fn() -> bool>>,
    /// Of the present stack.
    pub(crate) connections_max: u32,
    pub(crate) handed: Option<Handed>,
    /// Of one that was not handed over.
    pub(crate) holder: Holder,
}

/// Whose a net core's own card is.
#[derive(Debug)]
pub(crate) enum Holder {
    /// The daemon's, by this handle.
    Daemon(OwnedFd),
    /// A daemon's that crashed since.
    Crashed,
    /// Its own.
    Own,
}

/// What is special about a card the daemon has handed over.
pub(crate) struct Handed {
    /// Its number there.
    pub(crate) number: CardNumber,
    pub(crate) since: Time,
    pub(crate) order: CardOrder,
    /// Frames that are not received into.
    pub(crate) rest: OwnedFd,
    /// The card is given up when all copies of this are closed.
    pub(crate) handle: OwnedFd,
}

impl Card {
    /// A queue opened over lendable memory of `plan`; no more writers are let to its received frames from here on.
    ///
    /// # Errors
    /// What sealing says.
    pub fn new(
        vnic: Box<dyn Vnic>,
        files: &LendableFiles,
        plan: MemoryPlan,
        config: Config,
        interface: &str,
        driver: &str,
    ) -> io::Result<Card> {
        files.seal_receive()?;
        Ok(Card {
            vnic,
            received: files.receive.try_clone()?,
            copies: Copies::new(COPIES)?,
            config,
            plan,
            interface: interface.to_owned(),
            driver: driver.to_owned(),
            user: None,
            services: 0,
            tenancy: None,
            is_shareable: false,
            is_up: None,
            connections_max: 0,
            handed: None,
            holder: Holder::Own,
        })
    }

    /// The net core ends when `is_up` says that the card's link is gone.
    pub fn while_up(mut self, is_up: impl Fn() -> bool + 'static) -> Card {
        self.is_up = Some(Box::new(is_up));
        self
    }

    /// The card is a daemon's, and `handle` is held on it.
    #[must_use]
    pub fn held_by(mut self, handle: OwnedFd) -> Card {
        self.holder = Holder::Daemon(handle);
        self
    }

    /// It is the daemon's, by whose order it was opened, until `handle` is closed.
    pub(crate) fn handed(mut self, order: CardOrder, handle: OwnedFd, rest: OwnedFd, now: Time) -> Card {
        self.handed = Some(Handed { number: order.number, since: now, order, rest, handle });
        self
    }

    /// Whether it is of no use any more: a card made for a service that has gone, or never came.
    pub(crate) fn is_done(&self, now: Time) -> bool {
        let waits = |handed: &Handed| self.services == 0 && now.since(handed.since) < PENDING_PATIENCE;
        self.tenancy.is_none() && self.handed.as_ref().is_some_and(|handed| !waits(handed))
    }

    pub(crate) fn is_for(&self, introduced: Option<Introduced>) -> bool {
        self.handed.as_ref().map(|handed| handed.number) == introduced.map(|introduced| introduced.card)
    }

    pub(crate) fn has(&self, address: Option<IpAddr>) -> bool {
        address.is_none_or(|address| self.config.addresses.iter().any(|(own, _)| *own == address))
    }

    /// The end of its services, whatever it was. What still arrives for them is thrown away when the next one comes.
    pub(crate) fn end_services(&mut self, now: Time) {
        if let Some(tenancy) = self.tenancy.take() {
            tenancy.end(now, self.vnic.as_mut());
        }
    }

    /// With its last service the stack goes, too.
    pub(crate) fn end_if_empty(&mut self, now: Time) {
        if self.tenancy.as_ref().is_some_and(Tenancy::is_empty) {
            self.end_services(now);
        }
    }

    /// A stack for a service that is the first.
    pub(crate) fn open_stack(
        &mut self,
        wish: &Attach,
        policy: AcceptPolicy,
        scratch: &mut Vec<Frame>,
        now: Time,
    ) -> Result<(), Refused> {
        // What came when nobody was there is nobody's.
        for _ in 0..64 {
            if self.vnic.receive(scratch, 256) == 0 {
                break;
            }
            scratch.clear();
        }
        let mut config = self.config.clone();
        config.connections_max = wish.connections.clamp(1, CONNECTIONS_MAX) as usize;
        if let Some((first, last)) = wish.ephemeral_ports {
            if first == 0 || first > last {
                return Err(Refused::NoPorts { first, last });
            }
            config.ephemeral_ports = first..=last;
        }
        let seed = entropy().map_err(Refused::NoEntropy)?;
        // Once for all queues of a card.
        let is_first = config.queue_share.is_none_or(|share| share.queue == 0);
        let announces = is_first && !config.shared_address;
        self.connections_max = config.connections_max as u32;
        let mut stack = Stack::new(config, seed, self.vnic.as_ref(), now);
        if announces {
            // Its peers may have asked before it was there, or know another by that address.
            stack.announce(self.vnic.as_mut());
        }
        self.is_shareable = wish.share;
        self.tenancy = Some(Tenancy::new(stack, policy));
        Ok(())
    }

    pub(crate) fn status(&mut self) -> CardStatus {
        let vnic = self.vnic.as_ref();
        let mut services = self.tenancy.as_mut().map(|tenancy| tenancy.status(vnic)).unwrap_or_default().into_iter();
        CardStatus {
            addresses: self.config.addresses.clone(),
            interface: self.interface.clone(),
            queue: self.config.queue_share.map_or(0, |share| share.queue),
            queues: self.config.queue_share.map_or(1, |share| share.queues),
            services: self.services,
            service: services.next(),
            sharing: services.collect(),
        }
    }

    /// Makes a service's memory, tells it, and lets it have its share of the self.
    pub(crate) fn admit(
        &mut self,
        socket: &OwnedFd,
        who: (String, i32, u32),
        lease: Option<OwnedFd>,
    ) -> Result<(), Refused> {
        let (user, own) = (who.2, socket.try_clone().map_err(Refused::System)?);
        const USUAL: Extent = Extent::usual(0);
        const _: () = assert!(USUAL.bytes() + COPIES as u64 * COPY_BYTES as u64 <= SERVICE_MEMORY_BYTES);
        const _: () = assert!(
            (USUAL.small_blocks as u64 * SMALL_BLOCK_BYTES as u64
                + USUAL.large_blocks as u64 * LARGE_BLOCK_BYTES as u64)
                < 1 << 32
        );
        let (mut tenant, handed) =
            Tenant::new(own, who, Extent::usual(self.plan.receive_frames), lease).map_err(Refused::Memory)?;
        let capabilities = self.vnic.capabilities();
        let attached = Attached {
            addresses: self.config.addresses.clone(),
            mac: capabilities.mac.0,
            mtu: capabilities.mtu,
            interface: self.interface.clone(),
            driver: self.driver.clone(),
            receive_frames: self.plan.receive_frames,
            frame_size: self.plan.frame_size,
            small_blocks: USUAL.small_blocks,
            large_blocks: USUAL.large_blocks,
            connections: self.connections_max,
            copies: self.copies.count(),
        };
        tenant.use_copies(&self.copies);
        let (received, copies) = (self.received.as_fd(), self.copies.file());
        let files = [handed.control.as_fd(), received, handed.small.as_fd(), handed.large.as_fd(), copies];
        send(socket.as_fd(), Reply::Attached(Box::new(attached)), &files)?;
        self.user = Some(user);
        self.services += 1;
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.enter(tenant);
        }
        Ok(())
    }
}
