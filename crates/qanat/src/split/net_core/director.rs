//! A net core that takes its orders from the daemon: cards come to it while it runs, each with the services it is for, and go
//! with the last of them. It opens nothing itself, confined as it is: what it needs comes as descriptors.

use crate::split::net_core::card::Card;
use crate::split::net_core::peers::{Introduced, Pending};
use qanat_control::net_core::{CardNumber, CardOrder, ORDER_BYTES_MAX, Order, plan_of};
use qanat_control::protocol::{Fault, QueueWish, receive};
use qanat_nic::{DeviceError, LendableFiles, QueueShare, Time};
use qanat_stack::Config;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Why a card can't be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("no address")]
    NoAddress,
    #[error("sealing received frames: {0}")]
    Seal(io::Error),
}

/// An order that is complete.
pub(crate) enum Directive {
    /// A card has come, or could not be opened.
    Card(CardNumber, Result<Box<Card>, OpenError>),
    /// A service that is about to say what it wants.
    Service(Pending),
    /// A card is to go to the net core at the other end of `socket`.
    Leave { card: CardNumber, socket: OwnedFd },
    /// A card is to come from there.
    Join { card: CardNumber, socket: OwnedFd },
    /// The net core is on another processor from now on.
    Processor { processor: u32, is_guest: bool },
}

/// The daemon's end of the orders, and what has come of an order in several parts.
pub(crate) struct Director {
    pub(crate) socket: OwnedFd,
    /// Of the next card: its memory and its handle.
    memory: Option<(QueueWish, OwnedFd, LendableFiles)>,
    buffer: Vec<u8>,
}

impl Director {
    pub(crate) fn new(socket: OwnedFd) -> Director {
        Director { socket, memory: None, buffer: vec![0; ORDER_BYTES_MAX] }
    }

    /// The next order, unless it is only a part of one.
    ///
    /// # Errors
    /// There is none now, or the daemon is gone, or it says what can't be understood.
    pub(crate) fn next(&mut self, now: Time) -> Result<Option<Directive>, Fault> {
        let (order, beside) = receive::<Order>(self.socket.as_fd(), &mut self.buffer)?;
        let mut beside = beside.into_iter();
        Ok(match order {
            Order::Memory(wish) => {
                let (handle, receive, rest) = (beside.next(), beside.next(), beside.next());
                self.memory = handle
                    .zip(receive)
                    .zip(rest)
                    .map(|((handle, receive), rest)| (wish, handle, LendableFiles { receive, rest }));
                None
            }
            Order::Card(order) => self.memory.take().map(|(wish, handle, files)| {
                let number = order.number;
                let card = open(&order, wish, &files, beside.collect());
                Directive::Card(number, card.map(|card| Box::new(card.handed(*order, handle, files.rest, now))))
            }),
            Order::Service { card, user, process } => beside.next().map(|socket| {
                let introduced = Some(Introduced { card, user, process });
                let lease = beside.next();
                Directive::Service(Pending { socket, since: now, may_attach: true, introduced, lease, who: None })
            }),
            Order::Leave { card } => beside.next().map(|socket| Directive::Leave { card, socket }),
            Order::Join { card } => beside.next().map(|socket| Directive::Join { card, socket }),
            Order::Processor { processor, is_guest } => Some(Directive::Processor { processor, is_guest }),
        })
    }
}

fn open(order: &CardOrder, wish: QueueWish, files: &LendableFiles, beside: Vec<OwnedFd>) -> Result<Card, OpenError> {
    let plan = plan_of(wish);
    let vnic = order.open(plan, files, beside)?;
    let (address, length) = *order.addresses.first().ok_or(OpenError::NoAddress)?;
    let mut config = Config::new(address, length);
    config.addresses.clone_from(&order.addresses);
    config.gateways.clone_from(&order.gateways);
    config.shared_address = order.shared;
    if order.queues > 1 {
        config.queue_share = Some(QueueShare { queue: order.number.queue, queues: order.queues });
        // What a neighbour answers to us may come by another's queue.
        config.neighbours_by_traffic = true;
    }
    // As `--mss` would have it; what a service says is not believed.
    config.tcp.maximum_segment = order.maximum_segment.map(|bytes| bytes.clamp(536, 8_960));
    let card = Card::new(Box::new(vnic), files, plan, config, &order.interface, &order.driver);
    card.map_err(OpenError::Seal)
}
