//! All sockets of a program, and what the stack's events do to them.

use crate::sockets::epoll::{Change, Epoll};
use crate::sockets::peers::Peers;
use crate::sockets::socket::{Kind, Socket, Stream, errno_of};
use crate::sys::wakers::Waker;
use qanat::nic::Vnic;
use qanat::stack::{Handler, Stack, UdpError};
use qanat::{Chunk, CloseReason, ConnectionId, Event, ListenerId, Time, UdpSocketId};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::net::SocketAddr;

/// Nothing in a slot of a table by number.
const NONE: u32 = u32::MAX;
/// Connections that may wait beyond a full queue: of those the stack had accepted when it became full.
const OVERRUN_MAX: usize = 1_024;
/// Errors of a datagram socket that wait to be received, at most.
const ERRORS_MAX: usize = 64;
/// A connection there never is.
const NOBODY: (ConnectionId, u32) = (ConnectionId::new(u32::MAX, u32::MAX), NONE);

#[derive(Default)]
pub(crate) struct Sockets {
    slots: Vec<Option<Socket>>,
    free: Vec<u32>,
    /// With the whole handle: what is still to be told of a connection is not to be taken for the slot's next one's.
    by_connection: Vec<(ConnectionId, u32)>,
    pub(crate) peers: Peers,
    /// Several share a port by `SO_REUSEPORT`, and have connections in turn.
    by_listener: Vec<VecDeque<u32>>,
    /// Several share a port by `SO_REUSEADDR` or `SO_REUSEPORT`.
    by_datagram: Vec<Vec<u32>>,
    pub(crate) epolls: Vec<Option<Epoll>>,
    /// Streams with a mark (`TCP_NOTSENT_LOWAT`) and something unsent.
    unsent: Vec<u32>,
    /// To be woken when the stack has been driven.
    pub(crate) to_wake: Vec<Waker>,
    /// Datagrams dropped for want of room in their socket's queue.
    pub(crate) datagrams_dropped: u64,
    /// Connections reset for want of room in their listener's queue.
    pub(crate) backlog_full: u64,
}

impl Sockets {
    pub(crate) fn insert(&mut self, socket: Socket) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(socket);
                number
            }
            None => {
                self.slots.push(Some(socket));
                self.slots.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Socket> {
        self.slots.get(number as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Socket> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Socket> {
        let socket = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(socket)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.slots.iter().flatten()
    }

    /// Events of `connection`, between these two ends, ours first, are `socket`'s from now on.
    pub(crate) fn own_connection(
        &mut self,
        connection: ConnectionId,
        socket: u32,
        (local, peer): (SocketAddr, SocketAddr),
    ) {
        self.peers.insert(connection, local, peer);
        let index = connection.index();
        if self.by_connection.len() <= index {
            self.by_connection.resize(index + 1, NOBODY);
        }
        self.by_connection[index] = (connection, socket);
    }

    /// Whose it was.
    pub(crate) fn disown_connection(&mut self, connection: ConnectionId) -> Option<u32> {
        let owned = self.by_connection.get_mut(connection.index()).filter(|(own, _)| *own == connection)?;
        Some(std::mem::replace(owned, NOBODY).1)
    }

    pub(crate) fn own_listener(&mut self, listener: ListenerId, socket: u32, stack: &mut Stack) {
        // Whoever else has it may be full. It is there: it has just been made, or is another's.
        let _ = stack.hold_listener(listener, false);
        if self.by_listener.len() <= listener.index() {
            self.by_listener.resize_with(listener.index() + 1, VecDeque::new);
        }
        self.by_listener[listener.index()].push_back(socket);
    }

    /// `socket` has it no more; with the last that had it the listener is closed.
    pub(crate) fn disown_listener(&mut self, listener: ListenerId, socket: u32, stack: &mut Stack) {
        let owners = self.by_listener.get_mut(listener.index());
        let has_others = owners.is_some_and(|owners| {
            owners.retain(|owner| *owner != socket);
            !owners.is_empty()
        });
        // It is there as long as it has an owner. Whether the others have room is seen with the next connection.
        let _ = if has_others { stack.hold_listener(listener, false) } else { stack.close_listener(listener) };
    }

    pub(crate) fn own_datagrams(&mut self, id: UdpSocketId, socket: u32) {
        if self.by_datagram.len() <= id.index() {
            self.by_datagram.resize_with(id.index() + 1, Vec::new);
        }
        self.by_datagram[id.index()].push(socket);
    }

    /// `socket` has it no more; whether nobody has.
    pub(crate) fn disown_datagrams(&mut self, id: UdpSocketId, socket: u32) -> bool {
        let Some(owners) = self.by_datagram.get_mut(id.index()) else { return true };
        owners.retain(|owner| *owner != socket);
        owners.is_empty()
    }

    /// Whose a datagram from `peer` is: one's that is connected to it, else by the peer among those that share the port, or the
    /// last one's that took the port over.
    fn datagram_owner(&self, id: UdpSocketId, peer: SocketAddr) -> Option<u32> {
        let owners = self.by_datagram.get(id.index())?;
        if let [owner] = owners.as_slice() {
            return Some(*owner);
        }
        let peer_of = |owner: &u32| self.get(*owner).and_then(|socket| socket.peer);
        if let Some(connected) = owners.iter().find(|owner| peer_of(owner) == Some(peer)) {
            return Some(*connected);
        }
        let free: Vec<u32> = owners.iter().copied().filter(|owner| peer_of(owner).is_none()).collect();
        let shares = free.first().and_then(|owner| self.get(*owner)).is_some_and(|socket| socket.options.reuse_port);
        let spread = BuildHasherDefault::<DefaultHasher>::default().hash_one(peer) as usize;
        if shares { free.get(spread % free.len().max(1)).copied() } else { free.last().copied() }
    }

    fn of_connection(&self, connection: ConnectionId) -> Option<u32> {
        let (own, socket) = *self.by_connection.get(connection.index())?;
        (own == connection).then_some(socket)
    }

    fn stream(&mut self, connection: ConnectionId) -> Option<(u32, &mut Socket)> {
        let number = self.of_connection(connection)?;
        Some((number, self.get_mut(number)?))
    }

    /// Socket `number`, if it is a connection.
    pub(crate) fn stream_mut(&mut self, number: u32) -> Option<&mut Stream> {
        match &mut self.get_mut(number)?.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Something changed: those that watch the socket are told.
    pub(crate) fn notify(&mut self, number: u32, change: Change) {
        let Some(socket) = self.slots.get(number as usize).and_then(Option::as_ref) else { return };
        self.to_wake.extend_from_slice(&socket.waiters);
        for (epoll, place) in socket.watchers.iter().rev() {
            if let Some(epoll) = self.epolls.get_mut(*epoll as usize).and_then(Option::as_mut)
                && epoll.queue(*place, change)
                && (epoll.waiters > 0 || epoll.is_nested)
                && let Some(waker) = epoll.waker
            {
                self.to_wake.push(waker);
            }
        }
    }

    /// Takes an event of the stack's.
    pub(crate) fn event(&mut self, event: Event, stack: &mut Stack, now: Time) {
        match event {
            Event::Data { connection, chunk } => {
                let Some((number, socket)) = self.stream(connection) else {
                    return stack.consume(now, connection, chunk);
                };
                let Kind::Stream(stream) = &mut socket.kind else { return };
                stream.unread += chunk.len();
                stream.chunks.push_back(chunk);
                if let Some(listener) = stream.deferred_by.take() {
                    self.offer(listener, number, stack, now);
                }
                self.notify(number, Change::IN);
            }
            Event::Urgent { connection, ahead } => {
                let Some((number, socket)) = self.stream(connection) else { return };
                if let Some(chunk) = socket.urgent(ahead as usize) {
                    stack.consume(now, connection, chunk);
                }
                self.notify(number, Change::IN);
            }
            Event::Acked { connection, bytes } => {
                let Some((number, socket)) = self.stream(connection) else { return };
                let Kind::Stream(stream) = &mut socket.kind else { return };
                let was_writable = stream.is_writable();
                stream.acknowledged(bytes as usize);
                // A blocking writer waits for any room; a closing one for none to be missing.
                let waits = !socket.waiters.is_empty();
                if !was_writable || waits {
                    self.notify(number, Change::OUT);
                }
            }
            Event::Accepted { connection, listener, peer } => self.accepted(connection, listener, peer, stack, now),
            Event::Connected { connection } => {
                let Some((number, socket)) = self.stream(connection) else { return };
                if let Kind::Stream(stream) = &mut socket.kind {
                    stream.is_connecting = false;
                }
                self.notify(number, Change::ANY);
            }
            Event::PeerClosed { connection } => {
                let Some((number, socket)) = self.stream(connection) else { return };
                let mut deferred_by = None;
                if let Kind::Stream(stream) = &mut socket.kind {
                    stream.peer_closed = true;
                    deferred_by = stream.deferred_by.take();
                }
                if let Some(listener) = deferred_by {
                    self.offer(listener, number, stack, now);
                }
                self.notify(number, Change::ANY);
            }
            Event::Closed { connection, why } => {
                self.peers.remove(connection);
                let Some(number) = self.disown_connection(connection) else { return };
                if let Some(socket) = self.get_mut(number) {
                    socket.error = errno_of(why);
                    if let Kind::Stream(stream) = &mut socket.kind {
                        if stream.deferred_by.is_some() {
                            // Nobody has ever seen it.
                            self.remove(number);
                            return;
                        }
                        if stream.is_connecting {
                            // It may try again.
                            (socket.kind, socket.has_failed) = (Kind::Bound, true);
                        } else {
                            // RFC 9293 section 3.10.7.4; as Linux names it after a FIN.
                            if stream.peer_closed && why == CloseReason::ResetByPeer {
                                socket.error = Some(Errno::PIPE);
                            }
                            stream.connection = None;
                        }
                    }
                }
                self.notify(number, Change::ANY);
            }
            Event::Datagram { socket, peer, chunk } => self.received(socket, peer, chunk),
            Event::AddressConflict { .. } | Event::Timer { .. } => {}
            // A stack has no disks.
            Event::Read { .. } | Event::Written { .. } | Event::Flushed { .. } | Event::Zeroed { .. } => {}
        }
    }

    fn received(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) {
        let Some(number) = self.datagram_owner(socket, peer) else { return };
        let Some(owner) = self.get_mut(number) else { return };
        let connected = owner.peer;
        let Kind::Datagram(datagram) = &mut owner.kind else { return };
        // A connected socket has nothing from strangers.
        if connected.is_some_and(|connected| connected != peer) {
            return;
        }
        if datagram.push(peer, chunk, owner.options.receive_room) {
            self.notify(number, Change::IN);
        } else {
            self.datagrams_dropped += 1;
        }
    }

    /// A datagram did not arrive. As on Linux, a connected socket is told of lasting errors, and a socket that asked for errors is told of all.
    fn datagram_refused(&mut self, error: &UdpError) {
        let owners = self.by_datagram.get(error.socket.index()).cloned().unwrap_or_default();
        for number in owners {
            let Some(socket) = self.get_mut(number) else { continue };
            let asks = socket.options.receive_errors;
            let is_its = socket.peer.map_or(asks, |peer| peer == error.peer);
            if !is_its || !(asks || error.is_hard) {
                continue;
            }
            socket.error = errno_of(error.why);
            if let Kind::Datagram(datagram) = &mut socket.kind
                && asks
                && datagram.errors.len() < ERRORS_MAX
            {
                datagram.errors.push_back(error.clone());
            }
            self.notify(number, Change::ANY);
        }
    }

    fn accepted(
        &mut self,
        connection: ConnectionId,
        listener: ListenerId,
        peer: SocketAddr,
        stack: &mut Stack,
        now: Time,
    ) {
        let number = self.next_owner(listener);
        // The listener is held as soon as all queues are full; what was accepted until then is only a few more.
        let Some(parent) = self.get(number).filter(|socket| socket.has_queue_room(OVERRUN_MAX)) else {
            self.backlog_full += 1;
            // It is gone already, or will be.
            let _ = stack.refuse(now, connection);
            return;
        };
        let local = stack.connection_info(connection).map_or(parent.local, |(local, _, _)| local);
        let mut socket = Socket::new(parent.family, local, Kind::Stream(Stream::new(connection, false)));
        // As on Linux: what was set on the listener holds for what it accepts.
        (socket.options, socket.linger) = (parent.options, parent.linger);
        (socket.receive_timeout, socket.send_timeout) = (parent.receive_timeout, parent.send_timeout);
        socket.options.has_bound = false;
        socket.peer = Some(peer);
        let is_deferred = std::mem::take(&mut socket.options.defer_accept);
        if let Kind::Stream(stream) = &mut socket.kind {
            stream.deferred_by = is_deferred.then_some(number);
            (stream.send_room, stream.unsent_mark) = (socket.options.send_room, socket.options.unsent_mark);
        }
        let child = self.insert(socket);
        self.own_connection(connection, child, (local, peer));
        crate::sockets::settings::apply(self.get(child), stack, now);
        if !is_deferred {
            self.offer(number, child, stack, now);
        }
    }

    /// Whose the next connection of a listener is: in turn of those that have it, as long as they have room.
    fn next_owner(&mut self, listener: ListenerId) -> u32 {
        let Some(mut owners) = self.by_listener.get_mut(listener.index()).map(std::mem::take) else { return NONE };
        for _ in 0..owners.len() {
            owners.rotate_left(1);
            let has_room = |owner: &u32| self.get(*owner).is_some_and(|socket| socket.has_queue_room(0));
            if owners.back().is_some_and(has_room) {
                break;
            }
        }
        let number = owners.back().copied().unwrap_or(NONE);
        self.by_listener[listener.index()] = owners;
        number
    }

    /// Has the stack accept nothing for listening socket `number` while nobody who shares its port has room for more: as on
    /// Linux, peers try again.
    pub(crate) fn hold_if_full(&self, number: u32, stack: &mut Stack) {
        let Some(Socket { kind: Kind::Listener(own), .. }) = self.get(number) else { return };
        for id in &own.listeners {
            let mut owners = self.by_listener.get(id.index()).into_iter().flatten();
            let has_room = owners.any(|owner| self.get(*owner).is_some_and(|socket| socket.has_queue_room(0)));
            // It is there as long as it has an owner.
            let _ = stack.hold_listener(*id, !has_room);
        }
    }

    /// Connections that wait for data before `listener` has them.
    pub(crate) fn deferred_by(&self, listener: u32) -> Vec<u32> {
        let is_its = |slot: &Option<Socket>| {
            let stream = slot.as_ref().and_then(|socket| match &socket.kind {
                Kind::Stream(stream) => stream.deferred_by,
                _ => None,
            });
            stream == Some(listener)
        };
        (0..).zip(&self.slots).filter(|(_, slot)| is_its(slot)).map(|(number, _)| number).collect()
    }

    /// Puts `child` with the connections that `listener` can accept.
    fn offer(&mut self, listener: u32, child: u32, stack: &mut Stack, now: Time) {
        if let Some(Socket { kind: Kind::Listener(waits), .. }) = self.get_mut(listener) {
            waits.pending.push_back(child);
            if !waits.has_room(0) {
                self.hold_if_full(listener, stack);
            }
            self.notify(listener, Change::IN);
        } else if let Some(Socket { kind: Kind::Stream(stream), .. }) = self.remove(child)
            && let Some(connection) = stream.connection
        {
            // Its listener is gone.
            self.disown_connection(connection);
            let _ = stack.abort(now, connection);
        }
    }

    /// Has the stack handle what has come; how many frames that was.
    pub(crate) fn receive(&mut self, stack: &mut Stack, vnic: &mut dyn Vnic, now: Time) -> usize {
        let count = stack.receive_with(now, vnic, self);
        while let Some(event) = stack.next_event() {
            self.event(event, stack, now);
        }
        count
    }

    /// Counts what is not sent of stream `number`, which has a mark, until it is nothing; tells the threads that wait for it to be little.
    pub(crate) fn watch_unsent(&mut self, number: u32, stack: &Stack) {
        if self.count_unsent(number, stack) && !self.unsent.contains(&number) {
            self.unsent.push(number);
        }
    }

    /// Whether there is something unsent.
    fn count_unsent(&mut self, number: u32, stack: &Stack) -> bool {
        let Some(Socket { kind: Kind::Stream(stream), waiters, .. }) = self.get_mut(number) else { return false };
        let unsent = stream.connection.filter(|_| stream.unsent_mark > 0).and_then(|id| stack.unsent(id)).unwrap_or(0);
        let is_told = stream.count_unsent(unsent);
        if is_told || !waiters.is_empty() && stream.is_below_mark() {
            self.notify(number, Change::OUT);
        }
        unsent > 0
    }

    /// Has everything leave, and timers run out.
    pub(crate) fn transmit(&mut self, stack: &mut Stack, vnic: &mut dyn Vnic, now: Time) {
        stack.transmit(now, vnic);
        if !self.unsent.is_empty() {
            let mut unsent = std::mem::take(&mut self.unsent);
            unsent.retain(|number| self.count_unsent(*number, stack));
            self.unsent = unsent;
        }
        // Timers may have ended connections.
        while let Some(event) = stack.next_event() {
            self.event(event, stack, now);
        }
        while let Some(error) = stack.next_udp_error() {
            self.datagram_refused(&error);
        }
    }
}

impl Handler for Sockets {
    #[inline(always)]
    fn datagram(&mut self, _: &mut Stack, _: &mut dyn Vnic, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) {
        self.received(socket, peer, chunk);
    }
}
