//! A service's net cores: one, or several, each with a card of its own, or a queue of one card. The service sees one stack.
//!
//! ```text
//!   handle of a connection   slot there, with the net core's number in its lowest bits (none, if there is one net core)
//!   listener, UDP socket     one handle; made on each net core whose card has the address
//!   datagram sent            by the net core where that peer's last one came in
//! ```
//! Handles stay dense that way: services keep their connections in arrays.

use crate::split::service::link::Lost;
use crate::split::service::remote::{Remote, RemoteFigures};
use bytes::Bytes;
use qanat_api::{
    Block, Chunk, CommandError, Commands, ConnectOptions, ConnectionId, Event, FilledBlock, ListenOptions, ListenerId,
    Setting, Source, StackCapabilities, TimerId, UdpSocketId,
};
use qanat_nic::{Capabilities, Pool, Time};
use qanat_wire::ethernet::MacAddress;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

/// Net cores of one service at most.
pub(crate) const NET_CORES_MAX: usize = 16;
/// Peers of datagrams whose net core is remembered; of two that share a place the last one is.
const PEERS: usize = 4_096;

/// All of a service's net cores.
pub struct Remotes {
    parts: Vec<Remote>,
    /// Bits of a connection's slot that say which net core.
    shift: u32,
    /// The net core whose event is handled.
    current: usize,
    /// The net core that is asked first for the next connection to others.
    next_connect: usize,
    /// By a peer's hash: where its last datagram came in. Empty with one net core.
    came_by: Vec<u8>,
    hasher: RandomState,
    /// Of this turn.
    now: Time,
}

impl Remotes {
    /// For `count` net cores, with at most `connections_max` connections each.
    pub(crate) fn new(count: usize, connections_max: usize) -> std::io::Result<Remotes> {
        let count = count.clamp(1, NET_CORES_MAX);
        let parts: std::io::Result<Vec<Remote>> = (0..count).map(|_| Remote::new(connections_max, count > 1)).collect();
        Ok(Remotes {
            parts: parts?,
            shift: count.next_power_of_two().trailing_zeros(),
            current: 0,
            next_connect: 0,
            came_by: if count > 1 { vec![0; PEERS] } else { Vec::new() },
            hasher: RandomState::new(),
            now: Time::ZERO,
        })
    }

    /// An address of a card that lost all of its addresses to other hosts, and the host that has it.
    pub(crate) fn lost_address(&self) -> Option<(IpAddr, MacAddress)> {
        self.parts.iter().find_map(Remote::lost_address)
    }

    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }

    /// One of them.
    pub(crate) fn part(&mut self, number: usize) -> Option<&mut Remote> {
        self.parts.get_mut(number)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Remote> {
        self.parts.iter()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Remote> {
        self.parts.iter_mut()
    }

    pub(crate) fn sockets_of_all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.parts.iter().filter_map(Remote::socket)
    }

    /// Counts of all.
    pub(crate) fn figures(&self) -> RemoteFigures {
        let add = |sum: RemoteFigures, part: &Remote| {
            let one = part.figures();
            RemoteFigures {
                events: sum.events + one.events,
                commands: sum.commands + one.commands,
                command_batches: sum.command_batches + one.command_batches,
                bells: sum.bells + one.bells,
                datagrams_dropped: sum.datagrams_dropped + one.datagrams_dropped,
                net_cores_lost: sum.net_cores_lost + one.net_cores_lost,
            }
        };
        self.parts.iter().fold(RemoteFigures::default(), add)
    }

    /// The service's handle of a connection of one net core's.
    #[inline]
    fn widen(&self, part: usize, connection: ConnectionId) -> ConnectionId {
        ConnectionId::new((connection.index() << self.shift | part) as u32, connection.generation())
    }

    /// Whose a connection is, and its handle there.
    #[inline]
    fn narrow(&mut self, connection: ConnectionId) -> Result<(&mut Remote, ConnectionId), CommandError> {
        let (index, mask) = (connection.index(), (1 << self.shift) - 1);
        let part = self.parts.get_mut(index & mask).ok_or(CommandError::Stale)?;
        Ok((part, ConnectionId::new((index >> self.shift) as u32, connection.generation())))
    }

    /// The next event of one net core's.
    #[inline]
    pub(crate) fn next_event(&mut self, part: usize, now: Time) -> Result<Option<Event>, Lost> {
        let Some(remote) = self.parts.get_mut(part) else { return Ok(None) };
        let mut event = remote.next_event(now)?;
        if self.shift > 0
            && let Some(event) = &mut event
        {
            self.name(part, event);
        }
        Ok(event)
    }

    /// With several net cores: whose event it is.
    fn name(&mut self, part: usize, event: &mut Event) {
        self.current = part;
        match event {
            Event::Accepted { connection, .. }
            | Event::Connected { connection }
            | Event::Data { connection, .. }
            | Event::Acked { connection, .. }
            | Event::Urgent { connection, .. }
            | Event::PeerClosed { connection }
            | Event::Closed { connection, .. } => *connection = self.widen(part, *connection),
            Event::Datagram { peer, .. } => {
                let place = self.place_of(*peer);
                if let Some(came_by) = self.came_by.get_mut(place) {
                    *came_by = part as u8;
                }
            }
            Event::AddressConflict { .. } | Event::Timer { .. } => {}
            // Of no net core.
            Event::Read { .. } | Event::Written { .. } | Event::Flushed { .. } | Event::Zeroed { .. } => {}
        }
    }

    fn place_of(&self, peer: SocketAddr) -> usize {
        (self.hasher.hash_one(peer) % PEERS as u64) as usize
    }

    /// Connections that may be given up now.
    pub(crate) fn movable(&self) -> Vec<ConnectionId> {
        let all = self.parts.iter().enumerate();
        all.flat_map(|(number, part)| part.movable().into_iter().map(move |connection| self.widen(number, connection)))
            .collect()
    }

    pub(crate) fn yield_up(&mut self, connection: ConnectionId) {
        if let Ok((part, connection)) = self.narrow(connection) {
            part.yield_up(connection);
        }
    }

    /// Does something on each net core that there is now. One whose card does not have the address is left out, unless all
    /// are; after another failure nothing is left of it.
    fn on_each<Handle: Copy>(
        &mut self,
        mut make: impl FnMut(&mut Remote) -> Result<Handle, CommandError>,
        reserve: impl Fn(&mut Remote) -> Handle,
        unmake: impl Fn(&mut Remote, Handle) -> Result<(), CommandError>,
    ) -> Result<Handle, CommandError> {
        if let [only] = self.parts.as_mut_slice() {
            return make(only);
        }
        let (mut handle, mut failure) = (None, None);
        let mut is_made = false;
        for part in &mut self.parts {
            let outcome = match part.is_attached() && failure.is_none() {
                true => make(part),
                false => Err(CommandError::Unreachable),
            };
            // In the same place everywhere, whatever comes of it: so one handle is good for all.
            handle = Some(outcome.unwrap_or_else(|error| {
                failure = failure.or((error != CommandError::Unreachable).then_some(error));
                reserve(part)
            }));
            is_made |= outcome.is_ok();
        }
        match (handle, failure) {
            (Some(handle), None) if is_made => Ok(handle),
            (handle, failure) => {
                handle.into_iter().for_each(|handle| self.parts.iter_mut().for_each(|part| _ = unmake(part, handle)));
                Err(failure.unwrap_or(CommandError::Unreachable))
            }
        }
    }

    /// Where a datagram to a peer goes out.
    fn part_for(&self, socket: UdpSocketId, peer: SocketAddr) -> usize {
        if self.shift == 0 {
            return 0;
        }
        let has = |part: &Remote| part.is_attached() && part.sockets.remote(socket).is_ok_and(|id| id.is_some());
        let came_by = self.came_by.get(self.place_of(peer)).map_or(0, |part| usize::from(*part));
        match self.parts.get(came_by).is_some_and(has) {
            true => came_by,
            false => self.parts.iter().position(has).unwrap_or(0),
        }
    }

    /// There is always one.
    pub(crate) fn first(&self) -> &Remote {
        &self.parts[0]
    }

    /// What every card takes.
    pub(crate) fn mtu(&self) -> u16 {
        self.parts.iter().map(|part| part.attached().mtu).min().unwrap_or(0)
    }

    /// Of every card, each once: net cores that have a queue each of one card have the same.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = Vec::new();
        for (address, _) in self.parts.iter().flat_map(|part| &part.attached().addresses) {
            if !all.contains(address) {
                all.push(*address);
            }
        }
        all
    }

    /// Commands are of this time from now on.
    pub(crate) fn turn_begins(&mut self, now: Time) {
        self.now = now;
    }
}

/// The commands of [`Context`](crate::Context), each for the net core that it is about. Cold: the linked placement's way is
/// laid out first.
impl Commands for Remotes {
    fn now(&self) -> Time {
        self.now
    }

    #[cold]
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        let backlog = options.backlog as u32;
        self.on_each(
            |part| part.listen(local, options),
            |part| part.listeners.add(local, backlog, None),
            Remote::close_listener,
        )
    }

    #[cold]
    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.parts.iter_mut().map(|part| part.close_listener(listener)).fold(Ok(()), Result::and)
    }

    #[cold]
    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        self.on_each(|part| part.bind_udp(local), |part| part.sockets.add(local, 0, None), Remote::close_udp)
    }

    #[cold]
    fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        self.parts.iter_mut().map(|part| part.close_udp(socket)).fold(Ok(()), Result::and)
    }

    #[cold]
    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.abort(connection)
    }

    /// By the card that has the local address; else one after the other. Of one card's queues each knows which ports are its own.
    #[cold]
    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        let count = self.parts.len();
        let mut outcome = Err(CommandError::Unreachable);
        for number in (self.next_connect..self.next_connect + count).map(|number| number % count) {
            let Some(part) = self.parts.get_mut(number) else { break };
            let suits = options.local.is_none_or(|local| local.ip().is_unspecified() || part.has(local.ip()));
            if count > 1 && (!suits || !part.is_attached()) {
                continue;
            }
            outcome = part.connect(peer, options);
            if let Ok(connection) = outcome {
                self.next_connect = (number + 1) % count;
                return Ok(self.widen(number, connection));
            }
        }
        outcome
    }

    #[cold]
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.send(connection, bytes)
    }

    /// In the memory of the net core whose event is handled: what is sent there is not copied.
    #[cold]
    fn block(&mut self, length: usize) -> Block {
        match self.parts.get_mut(self.current) {
            Some(part) => part.block(length),
            None => Block::own(length),
        }
    }

    #[cold]
    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.send_block(connection, block)
    }

    #[cold]
    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.send_prepared(connection, source, stamp, offset, length)
    }

    #[cold]
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        if let Ok((part, connection)) = self.narrow(connection) {
            part.consume(connection, chunk);
        }
    }

    #[cold]
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.shutdown(connection)
    }

    #[cold]
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.close(connection)
    }

    #[cold]
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.abort(connection)
    }

    #[cold]
    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        let (part, connection) = self.narrow(connection)?;
        part.set(connection, setting)
    }

    #[cold]
    fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError> {
        let part = self.part_for(socket, peer);
        self.parts.get_mut(part).ok_or(CommandError::Stale)?.send_to(socket, peer, payload)
    }

    /// By the net core whose memory it is in, if it is in one's.
    #[cold]
    fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError> {
        let own = if self.shift == 0 { Some(0) } else { self.parts.iter().position(|part| part.has_frame(&chunk)) };
        let part = own.unwrap_or_else(|| self.part_for(socket, peer));
        self.parts.get_mut(part).ok_or(CommandError::Stale)?.send_chunk_to(socket, peer, chunk)
    }

    /// The service's timers are with the first.
    #[cold]
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        let now = self.now;
        self.parts.first_mut().ok_or(CommandError::Full)?.set_timer(now, after, token)
    }

    #[cold]
    fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.parts.first_mut().is_some_and(|part| part.cancel_timer(timer))
    }

    #[cold]
    fn prepared_pool(&self) -> &Pool {
        self.first().prepared_pool()
    }

    #[cold]
    fn stack_capabilities(&self) -> StackCapabilities {
        self.first().stack_capabilities()
    }

    #[cold]
    fn capabilities(&self) -> Capabilities {
        Capabilities { mtu: self.mtu(), ..self.first().capabilities() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_say_whose_they_are_and_stay_dense() {
        for (count, index) in [(1, 5), (2, 11), (3, 21), (4, 21), (16, 81)] {
            let mut remotes = Remotes::new(count, 64).unwrap();
            let part = usize::from(count > 1);
            let wide = remotes.widen(part, ConnectionId::new(5, 9));
            assert_eq!((wide.index(), wide.generation()), (index, 9), "{count}");
            let at = std::ptr::from_ref(&remotes.parts[part]);
            let (found, narrow) = remotes.narrow(wide).ok().unwrap();
            assert!(std::ptr::eq(found, at));
            assert_eq!((narrow.index(), narrow.generation()), (5, 9));
        }
        // Three net cores have two bits: the fourth is nobody.
        let mut remotes = Remotes::new(3, 64).unwrap();
        assert!(matches!(remotes.narrow(ConnectionId::new(7, 0)), Err(CommandError::Stale)));
    }

    #[test]
    fn answers_go_where_the_question_came_in() {
        let mut remotes = Remotes::new(2, 64).unwrap();
        let peer = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let place = remotes.place_of(peer(7));
        remotes.came_by[place] = 1;
        // It is not attached: the first is as good as any.
        assert_eq!(remotes.part_for(UdpSocketId::new(0, 0), peer(7)), 0);
    }

    #[test]
    fn nothing_can_be_opened_before_a_net_core_is_there_and_nothing_is_left_of_the_attempt() {
        let mut remotes = Remotes::new(3, 64).unwrap();
        let local = SocketAddr::from(([0, 0, 0, 0], 7));
        assert_eq!(remotes.listen(local, ListenOptions::default()), Err(CommandError::Unreachable));
        assert_eq!(remotes.bind_udp(local), Err(CommandError::Unreachable));
        assert!(remotes.all().all(|part| part.listeners.all().is_empty() && part.sockets.all().is_empty()));
        assert_eq!(remotes.connect(local, ConnectOptions::default()), Err(CommandError::Unreachable));
    }
}
