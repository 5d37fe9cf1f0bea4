//! Opening queues of an interface that this process has attached the program to.

use super::batch::is_injectable;
use super::config::{LINK_HEADER_MAX, RECEIVE_HEADROOM, shrink};
use super::inject::Injector;
use super::interface::QueueOpener;
use super::queue::{AfXdp, Card, memory_error, stock};
use super::socket::{BIND_WAIT, Socket, SocketConfig};
use crate::error::DeviceError;
use crate::plan::{FrameMemory, MemoryPlan};
use std::os::fd::AsFd;
use std::sync::Arc;

impl QueueOpener {
    /// Maps frame memory, opens the queue on this thread, and starts receiving.
    ///
    /// # Errors
    /// [`DeviceError::QueueBusy`], [`DeviceError::LockedMemory`], [`DeviceError::MtuTooLarge`] if packets need several
    /// frames and the driver can't; else what the system says.
    pub fn open(self, plan: MemoryPlan) -> Result<AfXdp, DeviceError> {
        let memory = plan.allocate().map_err(memory_error)?;
        open_in(self, plan, memory, None)
    }

    /// As [`open`](QueueOpener::open), over memory made by `plan`.
    ///
    /// # Errors
    /// As there.
    pub fn open_over(self, plan: MemoryPlan, memory: FrameMemory) -> Result<AfXdp, DeviceError> {
        open_in(self, plan, memory, None)
    }
}

/// Opens a queue over given memory; `sharing`: a queue that has registered the same region already.
fn open_in(
    opener: QueueOpener,
    plan: MemoryPlan,
    memory: FrameMemory,
    sharing: Option<&AfXdp>,
) -> Result<AfXdp, DeviceError> {
    let attachment = Arc::clone(&opener.attachment);
    let (config, link) = (&attachment.config, &attachment.link);
    let needs_scatter = link.mtu + LINK_HEADER_MAX > plan.frame_size - RECEIVE_HEADROOM;
    if needs_scatter && !attachment.scatter {
        return Err(DeviceError::MtuTooLarge { name: link.name.clone(), mtu: link.mtu });
    }
    let scatter = attachment.scatter && (needs_scatter || config.transmit_scatter);
    let rings = shrink(config.rings, plan);
    let socket_config = SocketConfig {
        interface: &link.name,
        index: link.index,
        queue: opener.queue,
        namespace: config.namespace.as_ref(),
        mode: config.mode,
        rings,
        scatter,
        transmit_checksum: config.transmit_checksum,
        sharing: sharing.map(|owner| &owner.socket),
        patience: BIND_WAIT,
    };
    let mut lent_count = 0;
    let shift = plan.frame_size.trailing_zeros();
    let socket = Socket::open(&socket_config, &memory.region, |fill| lent_count = stock(fill, &memory.receive, shift))?;
    opener.register(socket.as_fd())?;
    let is_local = matches!(attachment.driver.as_str(), "veth" | "tun");
    let card = Card { mac: link.mac, mtu: link.mtu, is_local, scatter };
    let queue = opener.queue;
    // Without it (an older kernel, no privileges) everything goes by the ring.
    let injector = match config.injection && opener.injects && is_injectable(link.mtu) && attachment.driver == "veth" {
        true => Injector::open(link, config.namespace.as_ref()).ok(),
        false => None,
    };
    let mut queue = AfXdp::assemble(socket, memory, shift, lent_count, rings, card, queue, Some(opener));
    queue.use_injector(injector);
    Ok(queue)
}

/// Opens two queues, of different interfaces as a rule, over one region of frame memory (`XDP_SHARED_UMEM`): a frame
/// received from either is sent by the other from where it is. Each has the pools of `plan` to itself. The interfaces
/// may be in different namespaces.
///
/// # Errors
/// Those of [`QueueOpener::open`]; [`DeviceError::System`] where the second device can't use the first one's memory (one
/// is zero-copy, the other is not): then open each by itself, and frames of one are copied to be sent by the other.
pub fn open_pair(first: QueueOpener, second: QueueOpener, plan: MemoryPlan) -> Result<(AfXdp, AfXdp), DeviceError> {
    let (memory, more) = plan.allocate_two().map_err(memory_error)?;
    let first = open_in(first, plan, memory, None)?;
    let second = open_in(second, plan, more, Some(&first))?;
    Ok((first, second))
}
