//! A queue set up by one process and used by another: how the control plane gives an unprivileged application a card.
//!
//! ```text
//!   application: memory file ──▶ control plane: registers it, sets ring sizes, binds ──▶ socket ──▶ application: maps
//! ```
//!
//! The socket's descriptor is all the authority there is: whoever has it reads and writes the rings and the memory, and
//! can neither bind it elsewhere nor open another.

use super::config::{LINK_HEADER_MAX, Mode, RECEIVE_HEADROOM, RingSizes, shrink};
use super::inject::Injector;
use super::injection::HandedInjector;
use super::queue::{AfXdp, Card, memory_error, stock};
use super::socket::{Socket, SocketConfig, bind, prepare};
use crate::error::DeviceError;
use crate::link::{Link, Namespace};
use crate::memory::Region;
use crate::plan::{FrameMemory, MemoryPlan};
use qanat_wire::ethernet::MacAddress;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A bound socket on its way to the process that will use it.
#[derive(Debug)]
pub struct HandedQueue {
    /// The socket.
    pub socket: OwnedFd,
    /// Its ring sizes.
    pub rings: RingSizes,
    /// Bytes before each transmitted frame that the kernel reads.
    pub metadata_bytes: u32,
    /// Packets may consist of several frames.
    pub scatter: bool,
    /// Sends large batches without socket buffers.
    pub injector: Option<HandedInjector>,
}

/// The card a handed queue belongs to.
#[derive(Clone, Copy, Debug)]
pub struct HandedCard {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its MTU.
    pub mtu: u32,
    /// The queue's number.
    pub queue: u32,
    /// Received checksums may be partial.
    pub is_veth: bool,
}

/// What a plan's memory is in.
#[derive(Clone, Copy, Debug)]
pub enum MemoryFiles<'a> {
    /// All of it.
    One(BorrowedFd<'a>),
    /// The frames to receive into, which may be lent to a third process, and the others.
    Lendable(BorrowedFd<'a>, BorrowedFd<'a>),
}

/// The control plane's half: registers the memory with a new socket and binds it to a queue of `link`, which is in `namespace`. The
/// caller has checked that the files are memory files of `plan`'s length, sealed against shrinking. The memory stays pinned as long as
/// the socket lives. Everything is sent by the ring until the queue is given an injector.
///
/// `transmit_checksum`: offer transmit checksum offload. Not for a card whose packets are judged on their way: the kernel
/// would write into them afterwards, where the sender says.
///
/// # Errors
/// Those of [`QueueOpener::open`](super::QueueOpener::open).
pub fn hand_over(
    link: &Link,
    namespace: &Namespace,
    queue: u32,
    files: MemoryFiles<'_>,
    plan: MemoryPlan,
    transmit_checksum: bool,
) -> Result<HandedQueue, DeviceError> {
    // Mapped here only until it is registered: the kernel keeps the pages themselves.
    let region = match files {
        MemoryFiles::One(file) => plan.map_memory_file(file),
        MemoryFiles::Lendable(receive, rest) => plan.map_lendable(receive, rest),
    }
    .map_err(memory_error)?;
    let scatter = needs_scatter(link.mtu, plan);
    let rings = shrink(RingSizes::default(), plan);
    let config = SocketConfig {
        interface: &link.name,
        index: link.index,
        queue,
        namespace: Some(namespace),
        mode: Mode::Auto,
        rings,
        scatter,
        transmit_checksum,
        sharing: None,
        // One daemon serves all: a client that has the queue already must not make others wait.
        patience: std::time::Duration::ZERO,
    };
    let region: &Region = &region;
    let (socket, metadata_bytes) = prepare(&config, region)?;
    bind(std::os::fd::AsFd::as_fd(&socket), &config)?;
    Ok(HandedQueue { socket, rings, metadata_bytes, scatter, injector: None })
}

fn needs_scatter(mtu: u32, plan: MemoryPlan) -> bool {
    mtu + LINK_HEADER_MAX > plan.frame_size.saturating_sub(RECEIVE_HEADROOM)
}

impl HandedQueue {
    /// The application's half: maps the rings and starts receiving. `memory` is what was registered. Needs no privilege.
    ///
    /// # Errors
    /// What mapping says.
    pub fn open(self, memory: FrameMemory, card: HandedCard) -> Result<AfXdp, DeviceError> {
        let HandedQueue { socket, rings, metadata_bytes, scatter, injector } = self;
        let shift = memory.region.frame_size().trailing_zeros();
        let mut socket = Socket::map(socket, rings, metadata_bytes)?;
        let lent_count = stock(&mut socket.fill, &memory.receive, shift);
        let HandedCard { mac, mtu, queue, is_veth } = card;
        let card = Card { mac, mtu, is_local: is_veth, scatter };
        let mut queue = AfXdp::assemble(socket, memory, shift, lent_count, rings, card, queue, None);
        // The gate at the other end keeps it ready to take injected frames.
        queue.use_injector(injector.and_then(|injector| Injector::over(injector, None).ok()));
        Ok(queue)
    }
}
