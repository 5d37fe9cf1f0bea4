//! TCP's tables: connections, those half-open and in TIME-WAIT, listeners, and what waits to be sent.

use crate::config::Config;
use crate::ip::neighbour::NeighbourHint;
use crate::permutation::Numbers;
use crate::secret::Secret;
use crate::tables::answer_limit::AnswerLimit;
use crate::tables::flow::{FlowKey, FlowOwner, FlowTable};
use crate::tables::path_mtus::PathMtus;
use crate::tables::peer::PeerCounts;
use crate::tables::slab::Slab;
use crate::tables::wheel::WheelHandle;
use crate::tcp::{self, Connection, ReceiveMemory, TcpConfig, TimeWait};
use crate::transport::listener::{HalfOpenSlot, Listener};
use qanat_nic::{QueueShare, Time, Vnic};
use qanat_wire::ip::Protocol;
use qanat_wire::tcp::Header;
use qanat_wire::{ipv4, ipv6};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Resets to one peer in a second, at least, for segments that belong to nothing.
const RESETS_LEAST: u16 = 128;
/// Frames received data may hold if neither the configuration nor the device says: three quarters of the usual plan.
const RECEIVE_FRAMES_HELD_DEFAULT: u32 = 3_072;
/// Queues kept for new connections: about 320 bytes each.
pub(super) const SPARE_QUEUES_MAX: usize = 1_024;
/// Replies waiting for the next transmission; further ones are dropped: their causes will be repeated.
pub(super) const REPLIES_MAX: usize = 1_024;

/// A segment without payload.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Reply {
    pub(super) key: FlowKey,
    pub(super) header: Header,
}

/// A connection and where it is.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Slot {
    pub(crate) key: FlowKey,
    pub(crate) next_hop: IpAddr,
    pub(crate) hint: NeighbourHint,
    pub(crate) tcp: Connection,
    /// Its entry in the wheel, and when that fires: never later than the connection's deadline.
    pub(super) timer: Option<(WheelHandle, Time)>,
    /// It is in the list of connections with something to send.
    pub(super) ready: bool,
    /// The version of the table of paths that it has seen: see [`PathMtus::version`].
    pub(super) path_version: u32,
}

impl Slot {
    #[inline(always)] // large: built where it stays
    pub(crate) fn new(key: FlowKey, next_hop: IpAddr, tcp: Connection) -> Slot {
        Slot { key, next_hop, hint: NeighbourHint::default(), tcp, timer: None, ready: false, path_version: 0 }
    }
}

/// A connection in TIME-WAIT.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct TimeWaitSlot {
    pub(crate) key: FlowKey,
    pub(crate) state: TimeWait,
    pub(crate) timer: Option<WheelHandle>,
}

/// All of TCP's tables.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Transport {
    pub(crate) config: TcpConfig,
    pub(crate) counters: tcp::Counters,
    pub(crate) memory: ReceiveMemory,
    pub(crate) cookies: tcp::CookieCache,
    pub(crate) resets: AnswerLimit,
    pub(crate) flows: FlowTable,
    pub(crate) connections: Slab<Slot>,
    pub(crate) half_open: Slab<HalfOpenSlot>,
    /// Of these, each peer's.
    pub(crate) half_open_of: PeerCounts,
    pub(crate) time_wait: Slab<TimeWaitSlot>,
    pub(crate) listeners: Slab<Listener>,
    /// Connections with something to send.
    pub(super) ready: VecDeque<u32>,
    /// Connections whose next hop's address is being asked for.
    pub(super) unresolved: Vec<u32>,
    /// Queues of ended connections, for new ones; up to `SPARE_QUEUES_MAX`.
    #[serde(skip)]
    pub(super) spare_queues: Vec<tcp::Queues>,
    /// Control segments that belong to no connection: SYN-ACKs, resets, ACKs of TIME-WAIT.
    pub(super) replies: VecDeque<Reply>,
    /// When the last SYN cookie was sent.
    pub(crate) cookie_sent: Option<Time>,
    /// Neighbours that did not answer since the last poll.
    pub(super) unreachable: Vec<IpAddr>,
    pub(super) ephemeral_ports: RangeInclusive<u16>,
    /// Of connections made here: their packets come by this queue.
    pub(super) queue_share: Option<QueueShare>,
    pub(super) ports: Numbers,
    /// Largest layer-3 packet of the device.
    pub(crate) mtu: u16,
    pub(crate) path_mtus: PathMtus,
}

/// Frames that received data may hold.
fn receive_budget(config: &Config, vnic: &dyn Vnic) -> u32 {
    match (config.receive_frames_held_max, vnic.receive_frame_count()) {
        (0, 0) => RECEIVE_FRAMES_HELD_DEFAULT,
        (0, device) => device / 4 * 3,
        (limit, 0) => limit,
        (limit, device) => limit.min(device),
    }
}

impl Transport {
    pub(crate) fn new(config: &Config, vnic: &dyn Vnic, secret: &Secret) -> Transport {
        Transport {
            config: config.tcp.clone(),
            counters: tcp::Counters::default(),
            memory: ReceiveMemory::new(receive_budget(config, vnic)),
            cookies: tcp::CookieCache::default(),
            resets: AnswerLimit::new(RESETS_LEAST, secret.answer_key(0)),
            flows: FlowTable::new(config.connections_max + config.half_open_max + config.time_wait_max),
            connections: Slab::new(config.connections_max),
            half_open: Slab::new(config.half_open_max),
            half_open_of: PeerCounts::keyed(config.half_open_max, secret.half_open_key()),
            time_wait: Slab::new(config.time_wait_max),
            listeners: Slab::new(config.listeners_max),
            ready: VecDeque::with_capacity(config.connections_max),
            unresolved: Vec::new(),
            spare_queues: Vec::with_capacity(SPARE_QUEUES_MAX),
            replies: VecDeque::with_capacity(REPLIES_MAX),
            cookie_sent: None,
            unreachable: Vec::new(),
            ephemeral_ports: config.ephemeral_ports.clone(),
            queue_share: config.queue_share,
            ports: Numbers::new(secret.port_key()),
            mtu: vnic.capabilities().mtu,
            path_mtus: PathMtus::default(),
        }
    }

    /// Whether a flow's packets come to this stack, and not to another behind the same card.
    pub(super) fn has_flow(&self, key: &FlowKey) -> bool {
        self.queue_share.is_none_or(|share| share.has(Protocol::TCP.0, key.local(), key.remote()))
    }

    /// Whether the tables that were read from a snapshot are consistent. They get back their room.
    pub(crate) fn are_sound(&mut self) -> bool {
        let rooms = self.connections.is_sound() && self.half_open.is_sound() && self.time_wait.is_sound();
        self.ready.reserve(self.connections.len());
        if rooms {
            let peers = self.half_open.iter().map(|(_, half)| half.key.remote_address());
            self.half_open_of.recount(self.half_open.limit(), peers);
        }
        rooms && self.listeners.is_sound() && self.flows.is_sound()
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn half_open_count(&self) -> usize {
        self.half_open.len()
    }

    pub(crate) fn time_wait_count(&self) -> usize {
        self.time_wait.len()
    }

    /// The owner of a flow.
    #[inline]
    pub(crate) fn flow_owner(&self, key: &FlowKey) -> Option<FlowOwner> {
        self.flows.get(key.hash(), |owner| {
            let found = match owner {
                FlowOwner::Connection(slot) => self.connections.at(slot).map(|connection| &connection.key),
                FlowOwner::HalfOpen(slot) => self.half_open.at(slot).map(|half| &half.key),
                FlowOwner::TimeWait(slot) => self.time_wait.at(slot).map(|waiting| &waiting.key),
            };
            found == Some(key)
        })
    }

    pub(crate) fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// A next hop did not answer: connection attempts through it fail.
    pub(crate) fn neighbour_failed(&mut self, address: IpAddr) {
        self.unreachable.push(address);
    }

    /// Largest TCP segment without headers that the device takes towards `remote` (RFC 6691), or the smaller one configured.
    pub(crate) fn maximum_segment(&self, remote: IpAddr) -> u16 {
        let ip = if remote.is_ipv4() { ipv4::HEADER_LENGTH } else { ipv6::HEADER_LENGTH };
        let device = self.mtu.saturating_sub((ip + qanat_wire::tcp::HEADER_LENGTH) as u16);
        self.config.maximum_segment.map_or(device, |configured| device.min(configured))
    }
}

/// Borrows a stack's parts for one call of a connection.
macro_rules! env {
    ($stack:expr, $now:expr) => {
        Env {
            now: $now,
            events: &mut $stack.events,
            counters: &mut $stack.transport.counters,
            config: &$stack.transport.config,
            memory: &mut $stack.transport.memory,
            cookies: &mut $stack.transport.cookies,
        }
    };
}
pub(crate) use env;
