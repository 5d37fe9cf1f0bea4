//! The linked placement: stack, driver and service in one thread, run to completion.

use crate::runtime::error::RuntimeError;
use crate::runtime::placement::{Placement, Sealed, WatchInterval};
use crate::service::{Context, Service};
use crate::storage::Storage;
use qanat_control::card_watch::CardWatch;
use qanat_nic::breakdown::{self, Phase};
use qanat_nic::{Clock, MonotonicClock, Time, Vnic};
use qanat_stack::{Chunk, Handler, Stack, UdpSocketId};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A service that datagrams are handed to.
struct Served<'s, S: ?Sized> {
    service: &'s mut S,
    storage: &'s mut Storage,
    now: Time,
}

impl<S: Service + ?Sized> Handler for Served<'_, S> {
    #[inline(always)]
    fn datagram(
        &mut self,
        stack: &mut Stack,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
    ) {
        let _service = breakdown::span(Phase::Service);
        self.service.datagram(socket, peer, chunk, &mut Context::of_linked(stack, vnic, self.storage, self.now));
    }
}

/// Stack and device of one core, in the service's thread.
pub struct LinkedPlacement {
    pub(crate) stack: Stack,
    pub(crate) vnic: Box<dyn Vnic>,
    /// Of a daemon's card.
    pub(crate) card: Option<Arc<CardWatch>>,
}

impl Sealed for LinkedPlacement {}

impl Placement for LinkedPlacement {
    const WATCH_INTERVAL: WatchInterval = WatchInterval::Turns(256);
    const PAUSES_WHEN_BUSY: bool = false;

    #[inline]
    fn context<'a>(&'a mut self, storage: &'a mut Storage, now: Time) -> Context<'a> {
        Context::of_linked(&mut self.stack, self.vnic.as_mut(), storage, now)
    }

    #[inline]
    fn flush(&mut self, now: Time) {
        self.stack.transmit(now, self.vnic.as_mut());
    }

    #[inline]
    fn turn<S: Service + ?Sized>(&mut self, service: &mut S, storage: &mut Storage, clock: &MonotonicClock) -> bool {
        breakdown::turn_begins();
        let now = clock.now();
        let stored = storage.deliver(|event, storage| {
            let _service = breakdown::span(Phase::Service);
            service.handle(event, &mut Context::of_linked(&mut self.stack, self.vnic.as_mut(), storage, now));
        });
        let received = {
            let _stack = breakdown::span(Phase::StackIn);
            self.stack.receive_with(
                now,
                self.vnic.as_mut(),
                &mut Served { service: &mut *service, storage: &mut *storage, now },
            )
        };
        let mut handled = stored || received > 0;
        while let Some(event) = self.stack.next_event() {
            handled = true;
            let _service = breakdown::span(Phase::Service);
            service.handle(event, &mut Context::of_linked(&mut self.stack, self.vnic.as_mut(), storage, now));
        }
        if handled {
            let _service = breakdown::span(Phase::Service);
            service.turn_ended(&mut Context::of_linked(&mut self.stack, self.vnic.as_mut(), storage, now));
        }
        {
            let _stack = breakdown::span(Phase::StackOut);
            self.stack.transmit(now, self.vnic.as_mut());
        }
        breakdown::turn_ends(handled);
        handled
    }

    fn check(&self) -> Result<(), RuntimeError> {
        if let Some((address, holder)) = self.stack.lost_address() {
            return Err(RuntimeError::AddressTaken { address, holder });
        }
        match self.vnic.is_gone() {
            true if self.card.is_some() => Err(RuntimeError::CardGone),
            true => Err(RuntimeError::InterfaceGone),
            false => Ok(()),
        }
    }

    fn finish(&mut self, now: Time) {
        self.stack.transmit_last(now, self.vnic.as_mut());
    }

    #[inline]
    fn can_sleep(&self) -> bool {
        self.vnic.doorbell().is_some()
    }

    #[inline]
    fn next_deadline(&self, _now: Time) -> Option<Time> {
        self.stack.next_deadline()
    }

    /// A runtime that does not wait reads the card anyway, and does not need to have the card's doorbell rung.
    #[inline]
    fn doorbells(&self, waits: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        let doorbell = if waits { self.vnic.doorbell() } else { None };
        doorbell.into_iter()
    }
}
