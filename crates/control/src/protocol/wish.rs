//! What a client may wish for: a VNIC, a queue, a stack.

use crate::address::Address;
use crate::filter::{Filter, Service};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A VNIC to be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VnicWish {
    /// What it is called in listings.
    pub name: String,
    /// Its own addresses with prefix lengths; nobody else may have them.
    pub addresses: Vec<(Address, u8)>,
    /// Queue pairs; 0: one.
    pub queues: u32,
    /// Largest packet; 0: 1500.
    pub mtu: u32,
    /// What it may send as, from its own addresses and ports to everybody. Empty: nothing until filters are added.
    pub services: Vec<Service>,
    /// Stay until deleted, instead of until the handle is closed.
    pub persistent: bool,
    /// Of its queues the last so many are high-priority: they receive nothing but what filters give them.
    #[serde(default)]
    pub priority_queues: u32,
    /// Its addresses are the kernel's, on the uplink or the NIC: it has its services of them, and the kernel the rest.
    #[serde(default)]
    pub shared: bool,
    /// Where it comes from.
    #[serde(default)]
    pub provider: Provider,
}

/// Where a VNIC comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Provider {
    /// A virtual device, fenced in both directions.
    #[default]
    Veth,
    /// Queues of a NIC's own: nothing sees what it sends, so it is for those the policy trusts.
    Queue {
        /// The NIC.
        interface: String,
        /// The first of its queues.
        first: u32,
    },
    /// A TAP device, fenced in both directions: 64 KiB at a time to and from the kernel of this machine.
    Tap,
    /// A virtual function of a NIC (SR-IOV), which the application drives itself: the NIC keeps it to its Ethernet address, its VLAN and
    /// its rate, and nothing looks at more. So it is for those the policy trusts.
    Vf {
        /// The NIC.
        interface: String,
        /// Which of its functions: the daemon says it.
        #[serde(default)]
        number: Option<u32>,
    },
}

impl Provider {
    /// Its name in listings and policies.
    pub fn name(&self) -> &'static str {
        match self {
            Provider::Veth => "veth",
            Provider::Queue { .. } => "queue",
            Provider::Tap => "tap",
            Provider::Vf { .. } => "vf",
        }
    }
}

/// A filter and the queue that receives what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steered {
    /// What it covers.
    pub filter: Filter,
    /// Received by; `None`: by the flow.
    pub queue: Option<u32>,
}

impl std::fmt::Display for Steered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.filter.fmt(f)?;
        self.queue.map_or(Ok(()), |queue| write!(f, " to queue {queue}"))
    }
}

/// A queue to be opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueWish {
    /// Its number, from 0.
    pub queue: u32,
    /// Bytes a frame: 2048 or 4096.
    pub frame_size: u32,
    /// Frames to receive into, the first of the memory file.
    pub receive_frames: u32,
    /// Frames to send from, the next.
    pub transmit_frames: u32,
    /// Frames of prepared content, the last.
    pub prepared_frames: u32,
}

/// What a service may ask of its card's stack beside what the policy is about.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StackWish {
    /// Next hop off the prefix; `None`: the kernel.
    pub gateway: Option<IpAddr>,
    /// Longest TCP segment announced and sent.
    pub maximum_segment: Option<u16>,
    /// The card of another service of this user's with the same first address is good, too, if that one says so as well.
    pub share: bool,
    /// First addresses of the service's other cards: on a net core that has none of those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart_from: Vec<Address>,
    /// The queue that is asked for, if the card has several: a stack of its own serves each. The process' first request makes the
    /// card.
    #[serde(skip_serializing_if = "is_first")]
    pub queue: u32,
}

fn is_first(queue: &u32) -> bool {
    *queue == 0
}
