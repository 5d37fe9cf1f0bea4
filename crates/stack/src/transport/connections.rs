//! Commands on TCP's connections and listeners.

use crate::stack::Stack;
use crate::tables::flow::{FlowKey, FlowTable};
use crate::tcp::{self, Connection, ConnectionInfo, Disposition, Env, OpenParameters, ReceiveMemory, State};
use crate::transport::listener::Listener;
use crate::transport::tables::{Slot, env};
use bytes::Bytes;
use qanat_api::{
    Chunk, CommandError, ConnectOptions, ConnectionId, FastOpenRequest, ListenOptions, ListenerId, Source,
};
use qanat_nic::Time;
use qanat_wire::tcp::SequenceNumber;
use std::net::SocketAddr;
use std::rc::Rc;

/// Ports tried before an active open gives up.
const PORTS_TRIED_MAX: u32 = 8_192;

/// What another process must know to take a connection over.
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

    /// Receives nothing more for a connection, as if memory were full (`true`), or again as usual. This is for a caller that shares
    /// a stack out among several services, one of which holds too much.
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

    /// Bytes given to a connection and never sent. Gives `None` if it is gone.
    pub fn unsent(&self, connection: ConnectionId) -> Option<u64> {
        Some(self.transport.connections.get(connection.index(), connection.generation())?.tcp.unsent())
    }

    /// Bytes that a connection would send at once if it were given them now; negative: so many wait already. Gives `None` if it is gone.
    pub fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        let tcp = &self.transport.connections.get(connection.index(), connection.generation())?.tcp;
        Some(i64::from(tcp.usable_window()) - tcp.unsent() as i64)
    }

    /// What another process must know to take a connection over. Gives `None` if it is gone, or about to be.
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
