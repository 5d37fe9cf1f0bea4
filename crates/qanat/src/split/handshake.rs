//! What a service and a net core say to each other before the rings: one JSON message each way, as on the control socket,
//! with the memory beside the answer. After it the socket is the doorbell of both, and its end is the other's end.

use qanat_abi::{LAYOUT_HASH, VERSION};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Longest message either way.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16_384;
/// Bytes of a small block of transmit memory: a datagram, or a segment.
pub(crate) const SMALL_BLOCK_BYTES: u32 = 2_048;
/// Bytes of a large one: the stack cuts it into segments.
pub(crate) const LARGE_BLOCK_BYTES: u32 = 65_536;

/// Connections of one service at most.
pub(crate) const CONNECTIONS_MAX: u32 = 65_536;

/// What a process that connects wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Wish {
    /// To be served.
    Attach(Attach),
    /// To know.
    Status,
}

/// A service's first word.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Attach {
    /// [`VERSION`].
    pub version: u32,
    /// [`LAYOUT_HASH`], in hexadecimal.
    pub layout: String,
    /// The service's name, for people.
    pub name: String,
    /// Which card, by an address it has; `None`: the first that is free.
    pub address: Option<IpAddr>,
    /// Connections at most; bounded by the net core.
    pub connections: u32,
    /// First and last port that its connections to others start from.
    #[serde(default)]
    pub ephemeral_ports: Option<(u16, u16)>,
    /// It shares its card and listeners with other services of its user that say so, too.
    #[serde(default)]
    pub share: bool,
}

impl Attach {
    /// Whether the two were built alike.
    pub(crate) fn is_of_this_build(&self) -> bool {
        self.version == VERSION && self.layout == abi_layout()
    }
}

/// The version of what service and net core share, for whoever writes a service of their own.
pub const ABI_VERSION: u32 = VERSION;

/// Its layout's hash, as the first word has it.
pub fn abi_layout() -> String {
    format!("{LAYOUT_HASH:016x}")
}

/// The net core's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Beside it: control memory, received frames, small and large blocks, small messages.
    Attached(Box<Attached>),
    /// Why not.
    Refused(String),
    /// How things are.
    Status(NetCoreStatus),
    /// Later: the card is no more, and the service is to end with it. Why, and the remedy.
    Ended(String),
}

/// What the service gets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub addresses: Vec<(IpAddr, u8)>,
    pub mac: [u8; 6],
    pub mtu: u16,
    pub interface: String,
    pub driver: String,
    pub receive_frames: u32,
    pub frame_size: u32,
    pub small_blocks: u32,
    pub large_blocks: u32,
    /// Slots of connections there are, other services' included.
    #[serde(default)]
    pub connections: u32,
    /// Small buffers: their file comes last.
    #[serde(default)]
    pub copies: u32,
}

/// How a net core is, as `qanat status` shows it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetCoreStatus {
    /// Its process.
    pub process: u32,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Time in which there was something to do; with the uptime, how near its limit the core is.
    #[serde(default)]
    pub busy_ns: u64,
    /// Confined by seccomp and landlock.
    pub confined: bool,
    /// The processor it is pinned to.
    #[serde(default)]
    pub processor: Option<u32>,
    /// Services that broke the rules and were cut off.
    pub cut_off: u64,
    /// Why the last one was.
    pub last_offence: String,
    /// Connections of users that it does not serve: closed unheard.
    #[serde(default)]
    pub strangers: u64,
    /// Its cards.
    pub cards: Vec<CardStatus>,
}

/// A card and the service on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CardStatus {
    /// Addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The kernel's end.
    pub interface: String,
    /// Which of its queues: each has a stack of its own.
    #[serde(default)]
    pub queue: u32,
    /// Queues that flows are spread over.
    #[serde(default)]
    pub queues: u32,
    /// Services it has had, the present one included.
    pub services: u64,
    /// The service, if there is one.
    pub service: Option<ServiceStatus>,
    /// Further ones that share the card.
    #[serde(default)]
    pub sharing: Vec<ServiceStatus>,
}

/// An attached service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Name it gave.
    pub name: String,
    /// Its process.
    pub process: i32,
    /// Its user.
    pub user: u32,
    /// Received frames it holds, of so many.
    pub credits_used: u32,
    /// Received frames there are.
    pub credits: u32,
    /// Small messages it keeps, of which it has copies: they take no frames.
    #[serde(default)]
    pub copies_used: u32,
    /// Events it has not yet taken, and those waiting for room in its ring.
    pub events_waiting: (u32, u64),
    /// Connections.
    pub connections: u64,
    /// Events given.
    pub events: u64,
    /// In so many batches.
    #[serde(default)]
    pub event_batches: u64,
    /// Commands taken.
    pub commands: u64,
    /// Times it was woken.
    pub bells: u64,
    /// Datagrams dropped because it held too many frames.
    pub datagrams_without_credit: u64,
    /// Datagrams it sent that the stack refused (no such socket, no route, too long).
    pub datagrams_refused: u64,
    /// Turns in which nothing was received for it, because it takes no events.
    pub turns_held_back: u64,
    /// Connections that it has from others, which gave them up.
    #[serde(default)]
    pub connections_moved: u64,
    /// Frames lost because no buffer was free to receive into.
    pub receive_no_buffer: u64,
}
