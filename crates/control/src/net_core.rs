//! What the daemon says to a net core it has started: cards, and the services they are for. A net core says nothing back but what
//! became of a card that was to move ([`Report`]): it takes what it is given, its end is seen by the end of the socket, and a
//! card it has no use for any more is given up by closing its handle.
//!
//! ```text
//!   service ──attach-net-core──▶ daemon: makes the card by the policy, frame memory, one end of a socket pair each
//!      ▲                            │
//!      └── socket ── the handshake ─┴─▶ net core: maps rings and memory; it can open nothing by itself
//! ```

use crate::protocol::{QueueStatus, QueueWish};
use qanat_nic::af_xdp::{HandedCard, HandedInjector, HandedQueue, RingSizes};
use qanat_nic::migration::ImportedQueue;
use qanat_nic::{AfXdp, DeviceError, FrameMemory, LendableFiles, MemoryPlan};
use qanat_wire::ethernet::MacAddress;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Longest order.
pub const ORDER_BYTES_MAX: usize = 16_384;

/// Bytes of memory a net core makes for each service: what that one sends from (8 MiB in small blocks, 16 MiB in large ones),
/// the rings between them, and small buffers.
pub const SERVICE_MEMORY_BYTES: u64 = 30 << 20;

/// A net core's card: one queue of a VNIC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct CardNumber {
    /// The VNIC's number.
    pub vnic: u32,
    /// Its queue, from 0.
    pub queue: u32,
}

impl fmt::Display for CardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.vnic)?;
        if self.queue == 0 { Ok(()) } else { write!(f, " (queue {})", self.queue) }
    }
}

/// An order.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Of the next card: its handle, frames to receive into, the other frames are beside it.
    Memory(QueueWish),
    /// A card; its queue's socket, and its injector's descriptors, are beside it.
    Card(Box<CardOrder>),
    /// A service; beside it are its socket, and a lease: closed when the service's memory is given back.
    Service {
        /// The number of the card it is for.
        card: CardNumber,
        /// Its user.
        user: u32,
        /// Its process.
        process: i32,
    },
    /// One of its cards is to go on in another net core's process; beside it is one end of a socket, of which that one has the
    /// other ([`Order::Join`]).
    Leave {
        /// The number of the card.
        card: CardNumber,
    },
    /// A card comes from another net core's process; beside it is the other end.
    Join {
        /// The number of the card.
        card: CardNumber,
    },
    /// It runs on another processor from now on.
    Processor {
        /// Which.
        processor: u32,
        /// Another net core is at home there, and is not to be kept from it: it sleeps rather than spins until its cards have moved.
        is_guest: bool,
    },
}

/// What a net core says to the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// A card that was to leave is another net core's now.
    Left {
        /// The number of the card.
        card: CardNumber,
        /// How long it was nobody's turn, microseconds.
        stood_still_us: u64,
        /// Bytes of its state.
        bytes: u64,
    },
    /// It is still here.
    Stayed {
        /// The number of the card.
        card: CardNumber,
        /// Why.
        why: String,
    },
}

/// A card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CardOrder {
    /// Which queue of which VNIC.
    pub number: CardNumber,
    /// Queues that the VNIC's flows are spread over.
    pub queues: u32,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops off the prefix.
    pub gateways: Vec<IpAddr>,
    /// The kernel has the address, too.
    pub shared: bool,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Largest packet.
    pub mtu: u32,
    /// The kernel's end.
    pub interface: String,
    /// What drives it.
    pub driver: String,
    /// Longest TCP segment announced and sent.
    pub maximum_segment: Option<u16>,
    /// Its queue.
    pub queue: QueueStatus,
}

/// The plan of a queue's memory.
pub fn plan_of(wish: QueueWish) -> MemoryPlan {
    let QueueWish { frame_size, receive_frames, transmit_frames, prepared_frames, .. } = wish;
    MemoryPlan { frame_size, receive_frames, transmit_frames, prepared_frames }
}

impl CardOrder {
    /// Maps what came beside the orders and starts receiving.
    ///
    /// # Errors
    /// What mapping says, or that a descriptor is missing.
    pub fn open(&self, plan: MemoryPlan, files: &LendableFiles, beside: Vec<OwnedFd>) -> Result<AfXdp, DeviceError> {
        let invalid = |reason: String| DeviceError::Invalid { reason };
        let memory = plan.open_lendable(files).map_err(|error| invalid(format!("frame memory: {error}")))?;
        let (queue, card) = self.queue(beside)?;
        queue.open(memory, card)
    }

    /// Goes on with the queue another net core has exported, over the same descriptors and memory.
    ///
    /// # Errors
    /// As [`open`](CardOrder::open).
    pub fn resume(
        &self,
        plan: MemoryPlan,
        memory: FrameMemory,
        beside: Vec<OwnedFd>,
        imported: ImportedQueue,
    ) -> Result<AfXdp, DeviceError> {
        let fits = memory.region.length() == plan.length();
        let (queue, card) = self.queue(beside)?;
        match fits && sizes(&queue.rings).iter().all(|size| size.is_power_of_two() && *size <= RING_ENTRIES_MAX) {
            true => queue.resume(memory, card, imported),
            false => Err(DeviceError::Invalid { reason: format!("rings of {:?}", queue.rings) }),
        }
    }

    fn queue(&self, beside: Vec<OwnedFd>) -> Result<(HandedQueue, HandedCard), DeviceError> {
        let invalid = |reason: String| DeviceError::Invalid { reason };
        let mut beside = beside.into_iter();
        let socket = beside.next().ok_or_else(|| invalid("a card without a queue".to_owned()))?;
        let QueueStatus { fill, receive, transmit, completion, metadata_bytes, scatter } = self.queue;
        let rings = RingSizes { fill, receive, transmit, completion };
        let injector = HandedInjector::from_descriptors(beside);
        let handed = HandedQueue { socket, rings, metadata_bytes, scatter, injector };
        let is_veth = self.driver == "veth";
        Ok((handed, HandedCard { mac: MacAddress(self.mac), mtu: self.mtu, queue: 0, is_veth }))
    }
}

/// Entries of the largest ring.
const RING_ENTRIES_MAX: u32 = 65_536;

fn sizes(rings: &RingSizes) -> [u32; 4] {
    [rings.fill, rings.receive, rings.transmit, rings.completion]
}
