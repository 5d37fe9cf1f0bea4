//! TCP's place in the stack: the tables of connections, and everything between them and the network layer.

use crate::config::Config;
use crate::ip::neighbour::NeighbourHint;
use crate::permutation::Numbers;
use crate::secret::Secret;
use crate::stack::{Stack, TimerKind};
use crate::tables::answer_limit::AnswerLimit;
use crate::tables::flow::{FlowKey, FlowOwner, FlowTable};
use crate::tables::path_mtus::PathMtus;
use crate::tables::peer::PeerCounts;
use crate::tables::slab::Slab;
use crate::tables::wheel::WheelHandle;
use crate::tcp::{
    self, Connection, ConnectionInfo, Disposition, Env, OpenParameters, ReceiveMemory, State, TcpConfig, TimeWait,
};
use crate::transport::emitter::{LosingEmitter, SegmentEmitter};
use crate::transport::passive_open::{HalfOpenSlot, Listener};
use crate::transport::reply::{REPLIES_MAX, Reply};
use bytes::Bytes;
use qanat_api::{
    Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, FastOpenRequest, ListenOptions, ListenerId, Source,
};
use qanat_nic::{QueueShare, Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::tcp::SequenceNumber;
use qanat_wire::{ipv4, ipv6};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Resets to one peer in a second, at least, for segments that belong to nothing.
const RESETS_LEAST: u16 = 128;
/// Frames received data may hold if neither the configuration nor the device says: three quarters of the usual plan.
const RECEIVE_FRAMES_HELD_DEFAULT: u32 = 3_072;
/// Frames of one connection before the next one's, which need not wait until all others have sent a window each.
const TURN_FRAMES: usize = 48;
/// Turns at least, so that few connections have large batches too.
const TURNS_MIN: usize = 6;
/// Ports tried before an active open gives up.
const PORTS_TRIED_MAX: u32 = 8_192;
/// Queues kept for new connections: about 320 bytes each.
const SPARE_QUEUES_MAX: usize = 1_024;

/// A connection and where it is.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Slot {
    pub(crate) key: FlowKey,
    pub(crate) next_hop: IpAddr,
    pub(crate) hint: NeighbourHint,
    pub(crate) tcp: Connection,
    /// Its entry in the wheel, and when that fires: never later than the connection's deadline.
    timer: Option<(WheelHandle, Time)>,
    /// It is in the list of connections with something to send.
    ready: bool,
    /// Of what is known of paths, what it has seen: see [`PathMtus::version`].
    path_version: u32,
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
    ready: VecDeque<u32>,
    /// Connections whose next hop's address is being asked for.
    unresolved: Vec<u32>,
    /// Queues of ended connections, for new ones; up to `SPARE_QUEUES_MAX`.
    #[serde(skip)]
    spare_queues: Vec<tcp::Queues>,
    /// Control segments that belong to no connection: SYN-ACKs, resets, ACKs of TIME-WAIT.
    pub(crate) replies: VecDeque<Reply>,
    /// When the last SYN cookie was sent.
    pub(crate) cookie_sent: Option<Time>,
    /// Neighbours that did not answer since the last poll.
    unreachable: Vec<IpAddr>,
    ephemeral_ports: RangeInclusive<u16>,
    /// Of connections made here: their packets come by this queue.
    queue_share: Option<QueueShare>,
    ports: Numbers,
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
    fn has_flow(&self, key: &FlowKey) -> bool {
        self.queue_share.is_none_or(|share| share.has(Protocol::TCP.0, key.local(), key.remote()))
    }

    /// Of one read from a snapshot: whether it can be. Its tables get back their room.
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

    /// Who has a flow.
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

/// What who takes a connection over must know of it.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// Its own end.
    pub local: SocketAddr,
    /// Its peer.
    pub peer: SocketAddr,
    /// Bytes given to it and not yet acknowledged.
    pub unacknowledged: u64,
    /// The peer sends no more.
    pub has_peer_closed: bool,
}

impl Stack {
    /// Makes a connection just put into its slot known: gives it queues and its flow, in place of its `predecessor` there.
    /// Whether the flow found a place; if not, the connection is gone again.
    pub(crate) fn enter_connection(&mut self, slot: u32, predecessor: Option<FlowOwner>) -> bool {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return false };
        if let Some(queues) = self.transport.spare_queues.pop() {
            connection.tcp.adopt(queues);
        }
        let hash = connection.key.hash();
        let owner = FlowOwner::Connection(slot);
        let found_place = match predecessor {
            Some(predecessor) => self.transport.flows.replace(hash, predecessor, owner),
            None => self.transport.flows.insert(hash, owner),
        };
        if !found_place {
            self.transport.connections.discard(slot);
        }
        found_place
    }

    /// Follows up on a call of a connection: its timer, its output, its end.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time, slot: u32, disposition: Disposition) {
        match disposition {
            Disposition::Keep | Disposition::Reset => {
                let generation = self.transport.connections.generation(slot);
                let Some(connection) = self.transport.connections.at_mut(slot) else { return };
                if connection.tcp.needs_output() && !connection.ready {
                    connection.ready = true;
                    self.transport.ready.push_back(slot);
                }
                // The wheel's entry may be early (it is put right when it fires), never late: acknowledgements that
                // push the deadline on cost nothing.
                let Some(deadline) = connection.tcp.next_deadline() else { return };
                if let Some((handle, at)) = connection.timer {
                    if at <= deadline {
                        return;
                    }
                    self.wheel.cancel(handle);
                }
                let kind = TimerKind::Connection { slot, generation };
                connection.timer = self.wheel.insert(deadline, kind).map(|handle| (handle, deadline));
            }
            Disposition::Remove | Disposition::ResetAndRemove => {
                if let Some(key) = self.take_connection(now, slot) {
                    self.transport.flows.remove(key.hash(), FlowOwner::Connection(slot));
                }
            }
            Disposition::TimeWait(state) => {
                if let Some(key) = self.take_connection(now, slot)
                    && !self.enter_time_wait(key, FlowOwner::Connection(slot), state, now)
                {
                    self.transport.flows.remove(key.hash(), FlowOwner::Connection(slot));
                }
            }
        }
    }

    /// Frees a connection's slot and its timer, but leaves its flow, for the TIME-WAIT it may become.
    fn take_connection(&mut self, now: Time, slot: u32) -> Option<FlowKey> {
        let connection = self.transport.connections.at_mut(slot)?;
        let key = connection.key;
        if connection.tcp.is_unproved() {
            let id = connection.tcp.id();
            self.fast_open_ended(now, id);
        }
        let connection = self.transport.connections.at_mut(slot)?;
        if let Some((handle, _)) = connection.timer {
            self.wheel.cancel(handle);
        }
        let queues = connection.tcp.retire();
        if self.transport.spare_queues.len() < SPARE_QUEUES_MAX {
            self.transport.spare_queues.push(queues);
        }
        self.transport.connections.discard(slot);
        self.network.counters.tcp_closed += 1;
        Some(key)
    }

    /// Takes over the flow of a connection; whether there was room.
    fn enter_time_wait(&mut self, key: FlowKey, predecessor: FlowOwner, state: TimeWait, now: Time) -> bool {
        if state.acknowledgment_owed {
            let acknowledgment = state.acknowledgment(&mut env!(self, now));
            self.reply(key, acknowledgment);
        }
        let Some((slot, generation)) = self.transport.time_wait.next_key() else {
            // As Linux (`tcp_max_tw_buckets`): the newest goes without. Making room would touch the oldest's memory, cold
            // since long, for every connection of a busy server.
            self.network.counters.tcp_time_wait_overflow += 1;
            return false;
        };
        let kind = TimerKind::TimeWait { slot, generation };
        let timer = self.wheel.insert(state.deadline, kind);
        if self.transport.time_wait.insert(TimeWaitSlot { key, state, timer }).is_err() {
            return false;
        }
        self.transport.flows.replace(key.hash(), predecessor, FlowOwner::TimeWait(slot))
    }

    /// Forgets a TIME-WAIT state.
    pub(crate) fn leave_time_wait(&mut self, slot: u32) {
        if let Some(gone) = self.transport.time_wait.remove(slot) {
            if let Some(timer) = gone.timer {
                self.wheel.cancel(timer);
            }
            self.transport.flows.remove(gone.key.hash(), FlowOwner::TimeWait(slot));
        }
    }

    pub(crate) fn time_wait_timer(&mut self, now: Time, slot: u32, generation: u32) {
        let Some(waiting) = self.transport.time_wait.get_mut(slot as usize, generation) else { return };
        waiting.timer = None;
        let expires = waiting.state.deadline;
        if expires > now {
            waiting.timer = self.wheel.insert(expires, TimerKind::TimeWait { slot, generation });
        } else {
            self.leave_time_wait(slot);
        }
    }

    pub(crate) fn connection_timer(&mut self, now: Time, slot: u32, generation: u32) {
        let Some(connection) = self.transport.connections.get_mut(slot as usize, generation) else { return };
        connection.timer = None;
        let due = connection.tcp.next_deadline().is_some_and(|deadline| deadline <= now);
        let disposition = if due { connection.tcp.on_timer(&mut env!(self, now)) } else { Disposition::Keep };
        if due && connection.tcp.has_timed_out() {
            self.network.neighbours.doubt(now, connection.next_hop, connection.hint);
        }
        self.settle(now, slot, disposition);
    }

    /// A connection's segment came from `mac`: where its next hop's packets come from it is to be found (see
    /// [`neighbours_by_traffic`](crate::Config::neighbours_by_traffic)).
    #[inline]
    pub(crate) fn learn_by_connection(&mut self, now: Time, vnic: &mut dyn Vnic, slot: u32, mac: MacAddress) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        let (next_hop, hint) = (connection.next_hop, connection.hint);
        if !self.network.neighbours.is_from(now, next_hop, hint, mac) {
            self.network.learn(now, vnic, next_hop, mac, false, true);
        }
    }

    /// Whether [`transmit`](Stack::transmit) has something to send at once.
    pub(crate) fn has_output(&self) -> bool {
        !self.transport.ready.is_empty() || !self.transport.replies.is_empty()
    }

    /// Lets every connection that wants to send.
    pub(crate) fn output_connections(&mut self, now: Time, vnic: &mut dyn Vnic) {
        self.fail_unreachable(now);
        self.output_replies(now, vnic);
        if self.network.take_resolved() {
            let transport = &mut self.transport;
            transport.ready.extend(transport.unresolved.drain(..));
        }
        // A turn for each. What there is no room for, or too much for one batch, waits for the next poll, after a look at what has come.
        for _ in 0..self.transport.ready.len().max(TURNS_MIN) {
            let room = vnic.batch_room().min(TURN_FRAMES);
            if room == 0 {
                return;
            }
            let Some(slot) = self.transport.ready.pop_front() else { return };
            let Some(connection) = self.transport.connections.at_mut(slot) else { continue };
            let (mac, hint) = self.network.resolve(now, vnic, connection.next_hop, connection.hint);
            connection.hint = hint;
            let Some(mac) = mac else {
                // It stays marked as ready, so it is in one list only.
                self.transport.unresolved.push(slot);
                continue;
            };
            connection.ready = false;
            if connection.path_version != self.transport.path_mtus.version() {
                connection.path_version = self.transport.path_mtus.version();
                if let Some(segment) = self.transport.path_mtus.segment(now, connection.key.remote_address()) {
                    connection.tcp.adopt_path_mtu(segment, &mut env!(self, now));
                }
            }
            let mut emitter = SegmentEmitter::new(&mut self.network, vnic, &connection.key, mac, room);
            let disposition = connection.tcp.output(&mut env!(self, now), &mut emitter);
            self.settle(now, slot, disposition);
        }
    }

    /// Sends the ACK a connection owes apart from those of later segments, if it owes one; the device is not told yet.
    #[inline]
    pub(crate) fn acknowledge_apart(&mut self, now: Time, slot: u32, vnic: &mut dyn Vnic) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        if !connection.tcp.owes_ack_apart() {
            return;
        }
        let (mac, hint) = self.network.resolve(now, vnic, connection.next_hop, connection.hint);
        connection.hint = hint;
        // Without an address the ACKs are merged: they wait for it in any case.
        let Some(mac) = mac else { return };
        let room = vnic.transmit_room();
        let mut emitter = SegmentEmitter::new(&mut self.network, vnic, &connection.key, mac, room);
        connection.tcp.acknowledge_apart(&mut env!(self, now), &mut emitter);
    }

    /// Neighbours did not answer: attempts to connect through them end, and what open connections had for them is lost.
    fn fail_unreachable(&mut self, now: Time) {
        while let Some(address) = self.transport.unreachable.pop() {
            // A walk over all connections, at most as often as a neighbour fails after three seconds of asking.
            let failed: Vec<u32> = self
                .transport
                .connections
                .iter()
                .filter(|(_, slot)| slot.next_hop == address && slot.tcp.state() == State::SynSent)
                .map(|(slot, _)| slot)
                .collect();
            for slot in failed {
                if let Some(connection) = self.transport.connections.at_mut(slot) {
                    let first = connection.tcp.send_unacknowledged();
                    let disposition =
                        connection.tcp.on_unreachable(first, CloseReason::Unreachable, true, &mut env!(self, now));
                    self.settle(now, slot, disposition);
                }
            }
            let mut unresolved = std::mem::take(&mut self.transport.unresolved);
            for slot in unresolved.drain(..) {
                self.lose_output(now, slot, address);
            }
            // Its capacity is kept; what has become unresolved meanwhile is put back.
            std::mem::swap(&mut self.transport.unresolved, &mut unresolved);
            self.transport.unresolved.append(&mut unresolved);
        }
    }

    /// A connection waiting for a next hop's address: if that is `address`, its output is lost; else it asks again.
    fn lose_output(&mut self, now: Time, slot: u32, address: IpAddr) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        if connection.next_hop != address {
            self.transport.ready.push_back(slot);
            return;
        }
        connection.ready = false;
        let mut emitter = LosingEmitter { lost: &mut self.network.counters.neighbour_pending_dropped };
        let disposition = connection.tcp.output(&mut env!(self, now), &mut emitter);
        self.settle(now, slot, disposition);
    }

    /// Applies `command` to a connection and follows up.
    pub(crate) fn command<T>(
        &mut self,
        now: Time,
        connection: ConnectionId,
        command: impl FnOnce(&mut Connection, &mut Env<'_>) -> (T, Disposition),
    ) -> Result<T, CommandError> {
        let slot = connection.index() as u32;
        let entry = self
            .transport
            .connections
            .get_mut(connection.index(), connection.generation())
            .ok_or(CommandError::Stale)?;
        let (result, disposition) = command(&mut entry.tcp, &mut env!(self, now));
        self.settle(now, slot, disposition);
        Ok(result)
    }

    /// Starts a connection; [`Event::Connected`](crate::Event::Connected) or [`Event::Closed`](crate::Event::Closed) follows.
    ///
    /// # Errors
    /// [`CommandError::Full`], [`CommandError::InUse`] (the port, or every port tried; or its packets would come by another queue,
    /// [`Config::queue_share`](crate::Config::queue_share)), [`CommandError::Unreachable`].
    pub fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ConnectionId, CommandError> {
        let next_hop = self.network.routes.next_hop(peer.ip()).ok_or(CommandError::Unreachable)?;
        let local = match options.local {
            Some(local) if !local.ip().is_unspecified() => local.ip(),
            _ => self.network.routes.source_for(peer.ip()).ok_or(CommandError::Unreachable)?,
        };
        if !self.network.routes.is_usable(local) || local.is_ipv4() != peer.is_ipv4() {
            return Err(CommandError::Unreachable);
        }
        let any_port = FlowKey::new(&self.secret, local, 0, peer.ip(), peer.port());
        let key = match options.local.map(|local| local.port()) {
            Some(port) if port != 0 => {
                let key = any_port.with_local_port(&self.secret, port);
                if !self.transport.has_flow(&key) || self.transport.flow_owner(&key).is_some() {
                    return Err(CommandError::InUse);
                }
                key
            }
            _ => self.pick_port(any_port).ok_or(CommandError::InUse)?,
        };
        let (slot, generation) = self.transport.connections.next_key().ok_or(CommandError::Full)?;
        let mut open = self.open_parameters(now, ConnectionId::new(slot, generation), key);
        open.limit_segment(options.maximum_segment);
        open.receive_window = self.transport.config.receive_window_max(options.receive_window);
        let config = &self.transport.config;
        let make = || Slot::new(key, next_hop, Connection::open_active(&open, config, now));
        let (slot, _) = self.transport.connections.insert_with(make).ok_or(CommandError::Full)?;
        if options.fast_open != FastOpenRequest::No
            && let Some(connection) = self.transport.connections.at_mut(slot)
        {
            let needs_none = options.fast_open == FastOpenRequest::WithoutCookie;
            connection.tcp.open_fast((local, peer.ip()), needs_none, &self.transport.cookies, now);
        }
        if !self.enter_connection(slot, None) {
            return Err(CommandError::Full);
        }
        self.network.counters.tcp_connected += 1;
        self.settle(now, slot, Disposition::Keep);
        Ok(open.id)
    }

    /// RFC 6056: each destination has all ports in a random order of its own, so that a server can't tell from the ports of its
    /// connections how many were made to others. From a port in use the search goes on with the next.
    fn pick_port(&mut self, key: FlowKey) -> Option<FlowKey> {
        let (first, last) = (*self.transport.ephemeral_ports.start(), *self.transport.ephemeral_ports.end());
        let range = u32::from(last.checked_sub(first)?) + 1;
        let start = self.transport.ports.next(self.secret.destination_hash(&key), range.into()) as u32;
        for step in 0..range.min(PORTS_TRIED_MAX) {
            let port = first + ((start + step) % range) as u16;
            let candidate = key.with_local_port(&self.secret, port);
            if self.transport.has_flow(&candidate) && self.transport.flow_owner(&candidate).is_none() {
                return Some(candidate);
            }
        }
        None
    }

    pub(crate) fn open_parameters(&self, now: Time, id: ConnectionId, key: FlowKey) -> OpenParameters {
        let (initial_sequence, timestamp_offset) = self.secret.initial_numbers(&key, now);
        OpenParameters {
            id,
            local_port: key.local_port(),
            peer_port: key.remote_port(),
            initial_sequence: SequenceNumber(initial_sequence),
            timestamp_offset,
            maximum_segment: self.transport.maximum_segment(key.remote_address()),
            receive_window: self.transport.config.receive_window,
        }
    }

    /// Accepts connections on `local` (an unspecified address: all own addresses of its family; `[::]`: both).
    ///
    /// # Errors
    /// [`CommandError::InUse`], [`CommandError::Full`], [`CommandError::Unreachable`] for a foreign address.
    pub fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        if !local.ip().is_unspecified() && !self.network.routes.is_own(local.ip()) {
            return Err(CommandError::Unreachable);
        }
        if self.transport.listeners.iter().any(|(_, listener)| listener.local == local) {
            return Err(CommandError::InUse);
        }
        match self.transport.listeners.insert(Listener::new(local, options)) {
            Ok((slot, generation)) => Ok(ListenerId::new(slot, generation)),
            Err(_) => Err(CommandError::Full),
        }
    }

    /// Segments of connections accepted from now on are announced and sent with at most so many bytes after their headers.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_maximum_segment(&mut self, listener: ListenerId, most: Option<u16>) -> Result<(), CommandError> {
        let entry = self.transport.listeners.get_mut(listener.index(), listener.generation());
        entry.ok_or(CommandError::Stale)?.maximum_segment = most;
        Ok(())
    }

    /// Receive windows of connections accepted from now on are at most so large, and their scale is chosen for it. As Linux'
    /// `SO_RCVBUF` of a listener.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_receive_window(&mut self, listener: ListenerId, most: Option<u32>) -> Result<(), CommandError> {
        let entry = self.transport.listeners.get_mut(listener.index(), listener.generation());
        entry.ok_or(CommandError::Stale)?.receive_window = most;
        Ok(())
    }

    /// Stops accepting; connections accepted already go on, half-open ones are forgotten.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.transport.listeners.get(listener.index(), listener.generation()).ok_or(CommandError::Stale)?;
        self.transport.listeners.remove(listener.index() as u32);
        let orphans: Vec<u32> = self
            .transport
            .half_open
            .iter()
            .filter(|(_, half)| half.listener == listener)
            .map(|(slot, _)| slot)
            .collect();
        for slot in orphans {
            self.remove_half_open(slot);
        }
        Ok(())
    }

    /// Sends every reset that is due, however many to one peer. For a stack that only tells peers of the end of connections it
    /// does not know; any other would let a flood of segments draw a flood of resets.
    pub fn lift_reset_limit(&mut self) {
        self.transport.resets.lift();
    }

    /// Has a listener accept nothing (or, again, everything): SYNs and the ACKs that would complete handshakes are dropped, and
    /// counted as overflow, and their senders repeat them. For a service whose queue of connections is full.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn hold_listener(&mut self, listener: ListenerId, is_held: bool) -> Result<(), CommandError> {
        let entry = self.transport.listeners.get_mut(listener.index(), listener.generation());
        entry.ok_or(CommandError::Stale)?.is_held = is_held;
        Ok(())
    }

    /// Resets a connection just accepted.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn refuse(&mut self, now: Time, connection: ConnectionId) -> Result<(), CommandError> {
        self.abort(now, connection)
    }

    /// Sends lent bytes after those given before; the stack lets go of them when they are acknowledged.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::NotSending`], [`CommandError::Full`].
    pub fn send(&mut self, now: Time, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| (tcp.send(bytes, env.config), Disposition::Keep))?
    }

    /// As [`send`](Stack::send), of memory that is the stack's from now on. It points to no code or constants, so a stack in
    /// memory shared by processes with different programs can send it.
    ///
    /// # Errors
    /// As [`send`](Stack::send).
    pub fn send_owned(&mut self, now: Time, connection: ConnectionId, bytes: Box<[u8]>) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| (tcp.send_owned(bytes, env.config), Disposition::Keep))?
    }

    /// Sends `length` bytes of a prepared object from `offset` on.
    ///
    /// # Errors
    /// As [`send`](Stack::send).
    pub fn send_prepared(
        &mut self,
        now: Time,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| {
            (tcp.send_source(source, stamp, offset, length, env.config), Disposition::Keep)
        })?
    }

    /// Gives received bytes back: the receive window opens by as much.
    pub fn consume(&mut self, now: Time, connection: ConnectionId, chunk: Chunk) {
        let bytes = chunk.len() as u32;
        drop(chunk);
        // The connection may be gone: then there is no window to open.
        let _ = self.command(now, connection, |tcp, env| {
            tcp.consume(bytes, 1, env);
            ((), Disposition::Keep)
        });
    }

    /// A chunk given to the service is now a copy elsewhere: its frame is free, its bytes are still to be consumed.
    pub fn release_frame(&mut self, now: Time, connection: ConnectionId) {
        let _ = self.command(now, connection, |tcp, env| {
            tcp.consume(0, 1, env);
            ((), Disposition::Keep)
        });
    }

    /// As [`consume`](Stack::consume), of bytes whose [frame was released](Stack::release_frame) before.
    pub fn consume_released(&mut self, now: Time, connection: ConnectionId, bytes: u32) {
        let _ = self.command(now, connection, |tcp, env| {
            tcp.consume(bytes, 0, env);
            ((), Disposition::Keep)
        });
    }

    /// Sends FIN after everything given to `send`; receiving goes on.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::NotSending`].
    pub fn shutdown(&mut self, now: Time, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| (tcp.shutdown(), Disposition::Keep))?
    }

    /// Sends what was given to `send`, then FIN, and receives no more. [`Event::Closed`](crate::Event::Closed) follows when done.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn close(&mut self, now: Time, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| ((), tcp.close(env)))
    }

    /// Sends RST. [`Event::Closed`](crate::Event::Closed) follows.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn abort(&mut self, now: Time, connection: ConnectionId) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, env| ((), tcp.abort(env)))
    }

    /// Receives nothing more for a connection, as if memory were full (`true`), or again as usual: for who shares a stack out
    /// among several, one of whom holds too much.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn starve(&mut self, now: Time, connection: ConnectionId, starved: bool) -> Result<(), CommandError> {
        self.command(now, connection, |tcp, _| {
            tcp.set_starved(starved);
            ((), Disposition::Keep)
        })
    }

    /// What is known of a connection, as `ss -i` shows it.
    pub fn connection_info(&self, connection: ConnectionId) -> Option<(SocketAddr, SocketAddr, ConnectionInfo)> {
        let slot = self.transport.connections.get(connection.index(), connection.generation())?;
        Some((slot.key.local(), slot.key.remote(), slot.tcp.info()))
    }

    /// Bytes given to a connection and never sent; `None`: it is gone.
    pub fn unsent(&self, connection: ConnectionId) -> Option<u64> {
        Some(self.transport.connections.get(connection.index(), connection.generation())?.tcp.unsent())
    }

    /// What who takes a connection over must know of it; `None`: it is gone, or about to be.
    pub fn handover(&self, connection: ConnectionId) -> Option<Handover> {
        let slot = self.transport.connections.get(connection.index(), connection.generation())?;
        let has_peer_closed = match slot.tcp.state() {
            State::Established => false,
            State::CloseWait => true,
            _ => return None,
        };
        let (local, peer) = (slot.key.local(), slot.key.remote());
        Some(Handover { local, peer, unacknowledged: slot.tcp.queued_bytes(), has_peer_closed })
    }

    /// The memory received data holds, and its limits.
    pub fn receive_memory(&self) -> &ReceiveMemory {
        &self.transport.memory
    }

    /// Every connection.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.transport.connections.iter().map(|(_, slot)| slot.tcp.id())
    }

    /// What happened in TCP since the start.
    pub fn tcp_counters(&self) -> &tcp::Counters {
        &self.transport.counters
    }

    /// Memory of a connection beside frames, bytes: its slot, its flow's entry and its queues.
    pub fn connection_memory(&self, connection: ConnectionId) -> Option<usize> {
        let slot = self.transport.connections.get(connection.index(), connection.generation())?;
        Some(size_of::<Slot>() + FlowTable::BYTES_PER_FLOW + slot.tcp.heap_bytes())
    }
}
