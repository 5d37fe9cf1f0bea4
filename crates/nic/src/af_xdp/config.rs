//! How to attach to an interface, and the sizes that follow from it.

use super::program::Rule;
use crate::link::Namespace;
use crate::plan::MemoryPlan;

/// What the kernel keeps free before received data (`XDP_PACKET_HEADROOM`).
pub(super) const RECEIVE_HEADROOM: u32 = 256;
/// The link header as the kernel's sizes are counted.
pub(super) const LINK_HEADER_MAX: u32 = crate::vnic::LINK_HEADER_MAX as u32;

/// Whether frames are copied between the device and frame memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Zero-copy if the driver can, else copy.
    #[default]
    Auto,
    /// Copy.
    Copy,
    /// Zero-copy, or an error.
    ZeroCopy,
}

/// Entries of a queue's rings; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Frames lent to the kernel to receive into.
    pub fill: u32,
    /// Frames received and not yet taken.
    pub receive: u32,
    /// Frames queued for transmission.
    pub transmit: u32,
    /// Frames sent and not yet reclaimed.
    pub completion: u32,
}

impl Default for RingSizes {
    /// 2048 each, and as many completions as can be under way.
    fn default() -> RingSizes {
        RingSizes { fill: 2048, receive: 2048, transmit: 2048, completion: 4096 }
    }
}

/// How to attach to an interface.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    /// The interface's name.
    pub interface: String,
    /// Its namespace; `None`: the calling thread's.
    pub namespace: Option<Namespace>,
    /// Queues to open, from 0. What arrives on further ones goes to the kernel.
    pub queues: u32,
    /// What to take from the kernel.
    pub rules: Vec<Rule>,
    /// The 802.1Q VLAN in which the rules hold, 1 to 4094; `None`: untagged frames. The device is told to leave tags in
    /// received frames (rx-vlan-offload off); a veth's other end must do so too (`ethtool -K PEER txvlan off`).
    pub vlan: Option<u16>,
    /// Give queue 0 copies of what is for all nodes of the link: IPv6 router advertisements, and queries for multicast
    /// listeners. The kernel gets them all the same.
    pub all_nodes: bool,
    /// Copy or not.
    pub mode: Mode,
    /// Ring sizes.
    pub rings: RingSizes,
    /// Let transmitted packets consist of several frames. Set by itself when the MTU needs it.
    pub transmit_scatter: bool,
    /// Offer transmit checksum offload where the kernel has it and frames are not injected.
    pub transmit_checksum: bool,
    /// Send large batches through veth without socket buffers, where the kernel can. Off for a forwarder: the frames of
    /// a sender on this machine have their checksums to be filled in, which only the offload does.
    pub injection: bool,
}

impl Default for AttachConfig {
    /// One queue, no rules; zero-copy, checksum offload and injection if possible. The interface must be named.
    fn default() -> AttachConfig {
        AttachConfig {
            interface: String::new(),
            namespace: None,
            queues: 1,
            rules: Vec::new(),
            vlan: None,
            all_nodes: false,
            mode: Mode::Auto,
            rings: RingSizes::default(),
            transmit_scatter: false,
            transmit_checksum: true,
            injection: true,
        }
    }
}

/// Rings never need more entries than there are frames.
pub(super) fn shrink(rings: RingSizes, plan: MemoryPlan) -> RingSizes {
    let fit = |entries: u32| entries.clamp(64, 65_536).next_power_of_two();
    let sendable = plan.transmit_frames.saturating_add(plan.prepared_frames).saturating_add(plan.receive_frames);
    RingSizes {
        fill: rings.fill.min(fit(plan.receive_frames)),
        receive: rings.receive.min(fit(plan.receive_frames)),
        transmit: rings.transmit.min(fit(sendable)),
        completion: rings.completion,
    }
}
