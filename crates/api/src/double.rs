//! [`Double`]: commands answered from memory, for tests of services. It keeps what it was told, and hands out handles; the events are
//! the test's to give.

use crate::{
    Block, Chunk, CommandError, Commands, ConnectOptions, ConnectionId, FilledBlock, ListenOptions, ListenerId,
    Setting, Source, TimerId, UdpSocketId,
};
use bytes::Bytes;
use qanat_nic::{Capabilities, Pool, ReceiveChecksum, Time};
use qanat_wire::ethernet::MacAddress;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What was given to send on a connection, a piece at a time.
pub enum Sent {
    /// By [`Commands::send`] or [`Commands::send_block`].
    Bytes(Bytes),
    /// By [`Commands::send_prepared`].
    Prepared {
        /// Who has the bytes.
        source: Rc<dyn Source>,
        /// As given.
        stamp: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Sent {
    /// Bytes.
    pub fn length(&self) -> u64 {
        match self {
            Sent::Bytes(bytes) => bytes.len() as u64,
            Sent::Prepared { length, .. } => *length,
        }
    }
}

/// What a connection was told.
#[derive(Default)]
pub struct Told {
    /// Given to send, and not taken away by the test yet.
    pub sent: Vec<Sent>,
    /// Bytes given back.
    pub consumed: usize,
    /// Changes of its behaviour, in order.
    pub settings: Vec<Setting>,
    /// Its sending side is shut down.
    pub is_shut_down: bool,
    /// It was closed.
    pub is_closed: bool,
    /// It was reset.
    pub is_aborted: bool,
    /// It was refused.
    pub is_refused: bool,
}

/// A stack that does nothing but remember.
pub struct Double {
    /// The time it tells.
    pub now: Time,
    /// The pool of prepared frames it has.
    pub prepared: Pool,
    /// Connections there are: made by [`connect`](Commands::connect), or put here as accepted ones.
    pub connections: HashMap<ConnectionId, Told>,
    /// Where it listens.
    pub listeners: HashMap<ListenerId, SocketAddr>,
    /// UDP sockets there are.
    pub sockets: HashMap<UdpSocketId, SocketAddr>,
    /// Datagrams sent: from which socket, whereto, what.
    pub datagrams: Vec<(UdpSocketId, SocketAddr, Vec<u8>)>,
    /// Timers set: when, their handles, their tokens.
    pub timers: Vec<(Time, TimerId, u64)>,
    /// Pieces a connection takes before it is full.
    pub pieces_max: usize,
    /// Handles given so far.
    handles: u32,
}

impl Double {
    /// One with this pool of prepared frames, at `now`.
    pub fn new(now: Time, prepared: Pool) -> Double {
        Double {
            now,
            prepared,
            connections: HashMap::new(),
            listeners: HashMap::new(),
            sockets: HashMap::new(),
            datagrams: Vec::new(),
            timers: Vec::new(),
            pieces_max: usize::MAX,
            handles: 0,
        }
    }

    fn handle(&mut self) -> u32 {
        self.handles += 1;
        self.handles - 1
    }

    fn told(&mut self, connection: ConnectionId) -> Result<&mut Told, CommandError> {
        self.connections.get_mut(&connection).ok_or(CommandError::Stale)
    }

    fn give(&mut self, connection: ConnectionId, piece: Sent) -> Result<(), CommandError> {
        let most = self.pieces_max;
        let told = self.told(connection)?;
        if told.is_closed || told.is_shut_down || told.is_aborted {
            return Err(CommandError::NotSending);
        }
        if told.sent.len() >= most {
            return Err(CommandError::Full);
        }
        told.sent.push(piece);
        Ok(())
    }
}

impl Commands for Double {
    fn now(&self) -> Time {
        self.now
    }

    fn listen(&mut self, local: SocketAddr, _: ListenOptions) -> Result<ListenerId, CommandError> {
        let listener = ListenerId::new(self.handle(), 0);
        self.listeners.insert(listener, local);
        Ok(listener)
    }

    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.listeners.remove(&listener).map(|_| ()).ok_or(CommandError::Stale)
    }

    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.told(connection)?.is_refused = true;
        Ok(())
    }

    fn connect(&mut self, _: SocketAddr, _: ConnectOptions) -> Result<ConnectionId, CommandError> {
        let connection = ConnectionId::new(self.handle(), 0);
        self.connections.insert(connection, Told::default());
        Ok(connection)
    }

    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        self.give(connection, Sent::Bytes(bytes))
    }

    fn block(&mut self, length: usize) -> Block {
        Block::own(length)
    }

    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        self.give(connection, Sent::Bytes(block.into_bytes()))
    }

    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        self.give(connection, Sent::Prepared { source, stamp, offset, length })
    }

    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        if let Ok(told) = self.told(connection) {
            told.consumed += chunk.len();
        }
    }

    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.told(connection)?.is_shut_down = true;
        Ok(())
    }

    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.told(connection)?.is_closed = true;
        Ok(())
    }

    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.told(connection)?.is_aborted = true;
        Ok(())
    }

    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        self.told(connection)?.settings.push(setting);
        Ok(())
    }

    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        let socket = UdpSocketId::new(self.handle(), 0);
        self.sockets.insert(socket, local);
        Ok(socket)
    }

    fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        self.sockets.remove(&socket).map(|_| ()).ok_or(CommandError::Stale)
    }

    fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError> {
        if !self.sockets.contains_key(&socket) {
            return Err(CommandError::Stale);
        }
        self.datagrams.push((socket, peer, payload.to_vec()));
        Ok(())
    }

    fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError> {
        self.send_to(socket, peer, chunk.bytes())
    }

    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        let timer = TimerId::new(self.handle(), 0);
        self.timers.push((self.now + after, timer, token));
        Ok(timer)
    }

    fn cancel_timer(&mut self, timer: TimerId) -> bool {
        let before = self.timers.len();
        self.timers.retain(|(_, pending, _)| *pending != timer);
        self.timers.len() < before
    }

    fn prepared_pool(&self) -> &Pool {
        &self.prepared
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            mtu: 1_500,
            transmit_checksum: false,
            receive_checksum: ReceiveChecksum::Trust,
            transmit_buffers_max: 1,
            segmentation_bytes_max: 0,
            transmit_headroom: 24,
        }
    }
}
