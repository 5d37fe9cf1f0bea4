//! [`Double`]: commands answered from memory, for tests of services. It keeps what it was told, and hands out handles. The test makes
//! the events. [`StorageDouble`] is a storage area in memory.

mod storage;

pub use storage::StorageDouble;

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

/// One piece of what was given to send on a connection.
pub enum Sent {
    /// Given by [`Commands::send`] or [`Commands::send_block`].
    Bytes(Bytes),
    /// Given by [`Commands::send_prepared`].
    Prepared {
        /// The owner of the bytes.
        source: Rc<dyn Source>,
        /// The stamp as it was given.
        stamp: u64,
        /// The first byte's place in the source.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
}

impl Sent {
    /// How many bytes it is.
    pub fn length(&self) -> u64 {
        match self {
            Sent::Bytes(bytes) => bytes.len() as u64,
            Sent::Prepared { length, .. } => *length,
        }
    }
}

/// What a connection was told. The default is a new connection: nothing.
#[derive(Default)]
pub struct Told {
    /// What was given to send. The test may take pieces away, as a peer that acknowledges them would.
    pub sent: Vec<Sent>,
    /// How many received bytes were given back.
    pub consumed: usize,
    /// The settings made, in order.
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
///
/// ```
/// use bytes::Bytes;
/// use qanat_api::double::{Double, Told};
/// use qanat_api::{CommandError, Commands, ConnectionId};
/// use qanat_nic::{Region, Time};
///
/// let pool = Region::new(1, 2_048).unwrap().pool(1).unwrap();
/// let mut double = Double::new(Time::ZERO, pool);
/// // A connection that was accepted: the test puts it there.
/// let connection = ConnectionId::new(0, 1);
/// double.connections.insert(connection, Told::default());
/// double.pieces_max = 1;
///
/// assert_eq!(double.send(connection, Bytes::from_static(b"first")), Ok(()));
/// assert_eq!(double.send(connection, Bytes::from_static(b"second")), Err(CommandError::Full));
/// let told = &double.connections[&connection];
/// assert_eq!(told.sent.iter().map(|sent| sent.length()).sum::<u64>(), 5);
///
/// // A handle that it did not give out, and that the test did not put there, is stale.
/// assert_eq!(double.close(ConnectionId::new(9, 0)), Err(CommandError::Stale));
/// ```
pub struct Double {
    /// The time it tells.
    pub now: Time,
    /// The pool of prepared frames it has.
    pub prepared: Pool,
    /// The connections: those made by [`connect`](Commands::connect), and accepted ones that the test puts here.
    pub connections: HashMap<ConnectionId, Told>,
    /// The listeners, and where they listen.
    pub listeners: HashMap<ListenerId, SocketAddr>,
    /// The UDP sockets, and their addresses.
    pub sockets: HashMap<UdpSocketId, SocketAddr>,
    /// The datagrams sent: the socket, the peer, the payload.
    pub datagrams: Vec<(UdpSocketId, SocketAddr, Vec<u8>)>,
    /// The timers set: when they are due, their handles, their tokens.
    pub timers: Vec<(Time, TimerId, u64)>,
    /// Pieces a connection takes before it is full.
    pub pieces_max: usize,
    /// Bytes of each connection that may wait to be taken away before its [room](Commands::send_room) is less than nothing; `None`: it is not
    /// told.
    pub window: Option<i64>,
    /// Handles given so far.
    handles: u32,
}

impl Double {
    /// A double with this pool of prepared frames, at `now`.
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
            window: None,
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

    fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        let waiting: u64 = self.connections.get(&connection)?.sent.iter().map(Sent::length).sum();
        Some(self.window? - waiting as i64)
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
            transmit_headroom: 24,
        }
    }
}
