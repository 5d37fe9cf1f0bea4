//! [`Inbox`]: the service that stands for the program: it puts down what happens, until the program asks.

use crate::address::Address;
use crate::event::{Close, Event, EventKind};
use crate::memory::{Loan, Memory};
use qanat::{Block, Context, Doorbell, Event as Happened, Service, StartError, StorageError};
use std::collections::HashSet;

/// The token of the bell that `qanat_wake` rings.
pub(crate) const WAKE_TOKEN: u64 = u64::MAX - 2;

/// What has happened, and what is lent.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) events: Vec<Event>,
    pub(crate) memory: Memory,
    /// Connections that have not ended.
    pub(crate) open: HashSet<u64>,
    waker: Doorbell,
}

impl Inbox {
    pub(crate) fn new(waker: Doorbell) -> Inbox {
        Inbox { events: Vec::new(), memory: Memory::default(), open: HashSet::new(), waker }
    }

    /// Lends what came with an event.
    #[inline]
    fn lending(&mut self, event: Event, loan: Loan) -> Event {
        // Where they are does not change when the loan moves: they are in a frame, or on the heap.
        let (data, length) = (loan.bytes().as_ptr(), loan.bytes().len());
        Event { memory: self.memory.lend(loan), data, length, ..event }
    }

    /// The end of a request to an area, and its block.
    fn ended(
        &mut self,
        kind: EventKind,
        (area, token): (u64, u64),
        result: Result<(), StorageError>,
        block: Option<Block>,
    ) -> Event {
        let status = result.map_or_else(StorageError::errno, |()| 0);
        let event = Event { token, status, ..Event::of(kind, area) };
        match block {
            Some(block) => self.lending(event, Loan::Block(block)),
            None => event,
        }
    }

    #[inline]
    fn event(&mut self, happened: Happened) -> Event {
        match happened {
            Happened::Accepted { connection, listener, peer } => {
                self.open.insert(connection.to_token());
                let event = Event::of(EventKind::Accepted, connection.to_token());
                Event { token: listener.to_token(), address: Address::from(peer), ..event }
            }
            Happened::Connected { connection } => Event::of(EventKind::Connected, connection.to_token()),
            Happened::Data { connection, chunk } => {
                self.lending(Event::of(EventKind::Data, connection.to_token()), Loan::Received(connection, chunk))
            }
            Happened::Acked { connection, bytes } => {
                Event { token: bytes.into(), ..Event::of(EventKind::Acked, connection.to_token()) }
            }
            Happened::Urgent { connection, ahead } => {
                Event { token: ahead.into(), ..Event::of(EventKind::Urgent, connection.to_token()) }
            }
            Happened::PeerClosed { connection } => Event::of(EventKind::PeerClosed, connection.to_token()),
            Happened::Closed { connection, why } => {
                self.open.remove(&connection.to_token());
                Event { status: Close::from(why) as i32, ..Event::of(EventKind::Closed, connection.to_token()) }
            }
            Happened::AddressConflict { address, holder } => {
                let [a, b, c, d, e, f] = holder.0;
                let token = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
                Event { token, address: Address::from(address), ..Event::of(EventKind::AddressConflict, 0) }
            }
            Happened::Datagram { socket, peer, chunk } => {
                let event = Event::of(EventKind::Datagram, socket.to_token());
                self.lending(Event { address: Address::from(peer), ..event }, Loan::Datagram(chunk))
            }
            Happened::Timer { id, token } => Event { token, ..Event::of(EventKind::Timer, id.to_token()) },
            Happened::Read { area, token, result } => {
                let (block, result) = match result {
                    Ok(block) => (Some(block), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                self.ended(EventKind::Read, (area.to_token(), token), result, block)
            }
            Happened::Written { area, token, block, result } => {
                self.ended(EventKind::Written, (area.to_token(), token), result, Some(block))
            }
            Happened::Flushed { area, token, result } => {
                self.ended(EventKind::Flushed, (area.to_token(), token), result, None)
            }
            Happened::Zeroed { area, token, result } => {
                self.ended(EventKind::Zeroed, (area.to_token(), token), result, None)
            }
        }
    }
}

impl Service for Inbox {
    fn start(&mut self, _: &mut Context<'_>) -> Result<(), StartError> {
        Ok(())
    }

    #[inline]
    fn handle(&mut self, happened: Happened, _: &mut Context<'_>) {
        let event = self.event(happened);
        self.events.push(event);
    }

    fn doorbell(&mut self, token: u64, _: &mut Context<'_>) {
        self.events.push(match token {
            WAKE_TOKEN => {
                self.waker.take();
                Event::of(EventKind::Woken, 0)
            }
            token => Event { token, ..Event::of(EventKind::Readable, 0) },
        });
    }
}
