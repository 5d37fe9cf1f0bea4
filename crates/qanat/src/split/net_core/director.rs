//! A net core that takes its orders from the daemon: cards come to it while it runs, each with the services it is for, and go
//! with the last of them. It opens nothing itself, confined as it is: what it needs comes as descriptors.

use crate::split::net_core::core::{Card, Introduced, NetCore, Pending};
use qanat_control::net_core::{CardOrder, ORDER_BYTES_MAX, Order, plan_of};
use qanat_control::protocol::{Fault, QueueWish, receive};
use qanat_nic::{LendableFiles, QueueShare, Time};
use qanat_stack::Config;
use std::os::fd::{AsFd, OwnedFd};

/// Orders taken at one look.
const ORDERS_PER_LOOK: usize = 16;

/// Services introduced that have not said what they want.
const INTRODUCED_MAX: usize = 256;

/// Who gives the orders, and what has come of an order in several parts.
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
}

impl NetCore {
    /// Takes orders. False: the daemon is gone.
    pub(crate) fn take_orders(&mut self, now: Time) -> bool {
        for _ in 0..ORDERS_PER_LOOK {
            let Some(director) = &mut self.director else { return true };
            match receive::<Order>(director.socket.as_fd(), &mut director.buffer) {
                Ok((order, beside)) => self.take_order(order, beside, now),
                Err(Fault::Empty) => return true,
                Err(Fault::Closed) => return false,
                // Of another version: it says something else next, or ends.
                Err(_) => {}
            }
        }
        true
    }

    fn take_order(&mut self, order: Order, beside: Vec<OwnedFd>, now: Time) {
        let Some(director) = &mut self.director else { return };
        let mut beside = beside.into_iter();
        match order {
            Order::Memory(wish) => {
                let (handle, receive, rest) = (beside.next(), beside.next(), beside.next());
                director.memory = handle
                    .zip(receive)
                    .zip(rest)
                    .map(|((handle, receive), rest)| (wish, handle, LendableFiles { receive, rest }));
            }
            Order::Card(order) => {
                let Some((wish, handle, files)) = director.memory.take() else { return };
                match open(&order, wish, &files, beside.collect()) {
                    Ok(card) => self.cards.push(card.handed(*order, handle, files.rest, now)),
                    // The service it was for is told so when it comes.
                    Err(error) => self.last_offence = format!("card {}: {error}", order.number),
                }
            }
            Order::Service { card, user, process } => {
                let (Some(socket), lease) = (beside.next(), beside.next()) else { return };
                // Those who never say what they want go after a while, or when there are too many: the oldest first.
                if self.pending.len() >= INTRODUCED_MAX {
                    self.pending.remove(0);
                }
                let introduced = Some(Introduced { card, user, process });
                self.pending.push(Pending { socket, since: now, may_attach: true, introduced, lease, who: None });
            }
            Order::Leave { card } => {
                beside.next().into_iter().for_each(|socket| self.begin_to_leave(card, socket, now))
            }
            Order::Join { card } => beside.next().into_iter().for_each(|socket| self.begin_to_join(card, socket, now)),
            // It is there already: the daemon has seen to that.
            Order::Processor { processor, is_guest } => self.is_placed(processor, is_guest),
        }
    }
}

fn open(order: &CardOrder, wish: QueueWish, files: &LendableFiles, beside: Vec<OwnedFd>) -> Result<Card, String> {
    let plan = plan_of(wish);
    let vnic = order.open(plan, files, beside).map_err(|error| error.to_string())?;
    let (address, length) = *order.addresses.first().ok_or("no address")?;
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
    card.map_err(|error| format!("sealing received frames: {error}"))
}
