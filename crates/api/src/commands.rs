//! [`Commands`]: what a service may ask for.

use crate::block::{Block, FilledBlock};
use crate::capabilities::StackCapabilities;
use crate::chunk::Chunk;
use crate::error::CommandError;
use crate::handle::{ConnectionId, ListenerId, TimerId, UdpSocketId};
use crate::options::{ConnectOptions, ListenOptions};
use crate::setting::Setting;
use crate::source::Source;
use bytes::Bytes;
use qanat_nic::{Capabilities, Pool, Time};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The commands of the native API. Each placement of the stack implements them. For tests, [`Double`](crate::double::Double) does.
///
/// A command never blocks. What it starts is reported later by an [`Event`](crate::Event).
///
/// A service that takes `&mut impl Commands` (or `&mut dyn Commands`) runs in each placement, and in tests:
///
/// ```
/// use bytes::Bytes;
/// use qanat_api::{CommandError, Commands, ConnectOptions, ConnectionId, Setting};
///
/// /// Connects, has small requests sent at once, and sends the first.
/// fn ask(commands: &mut impl Commands, request: Bytes) -> Result<ConnectionId, CommandError> {
///     let server = "192.0.2.1:7".parse().expect("an address");
///     let connection = commands.connect(server, ConnectOptions::default())?;
///     commands.set(connection, Setting::NoDelay(true))?;
///     // What is given before the connection is established leaves when it is.
///     commands.send(connection, request)?;
///     Ok(connection)
/// }
///
/// # use qanat_api::double::Double;
/// # use qanat_nic::{Region, Time};
/// # let pool = Region::new(1, 2_048).unwrap().pool(1).unwrap();
/// let mut double = Double::new(Time::ZERO, pool);
/// let connection = ask(&mut double, Bytes::from_static(b"question"))?;
/// assert_eq!(double.connections[&connection].settings, [Setting::NoDelay(true)]);
/// # Ok::<(), CommandError>(())
/// ```
pub trait Commands {
    /// The time of the current turn. It does not change while an event is handled.
    fn now(&self) -> Time;

    /// Accepts connections on `local` (an unspecified address: all own addresses).
    ///
    /// # Errors
    /// [`CommandError::InUse`], [`CommandError::Full`], [`CommandError::Unreachable`] for a foreign address.
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError>;

    /// Stops accepting; connections accepted already go on.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError>;

    /// Resets a connection just `Accepted`.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError>;

    /// Starts a connection; `Connected` or `Closed` follows.
    ///
    /// # Errors
    /// [`CommandError::Full`], [`CommandError::InUse`] (no port left), [`CommandError::Unreachable`].
    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError>;

    /// Sends lent bytes after those given before. They are not copied into a socket buffer: the stack keeps the handle
    /// and lets go of it when they are `Acked`.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::NotSending`], [`CommandError::Full`].
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError>;

    /// Memory to fill and send without a copy: for `length` bytes, or fewer (at most 65,536 of a net core's transmit memory, and
    /// when none of that is free, the process's own, which is copied when sent).
    fn block(&mut self, length: usize) -> Block;

    /// Sends a filled block after what was given before. A service that keeps a clone may send it again, on other connections too.
    ///
    /// # Errors
    /// As [`send`](Commands::send).
    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError>;

    /// Bytes that would be sent at once if they were given now: what the windows of peer and network leave. Negative: so many wait already.
    /// Who makes what is sent just in time gives about as much. `None`: it is not known in this placement, or the connection is gone.
    fn send_room(&self, _connection: ConnectionId) -> Option<i64> {
        None
    }

    /// Sends `length` bytes of a prepared object from `offset` on.
    ///
    /// # Errors
    /// As [`send`](Commands::send).
    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError>;

    /// Gives received bytes back. The receive window opens by as much.
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk);

    /// Sends FIN after everything given to `send`; receiving goes on.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::NotSending`].
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError>;

    /// Sends what was given to `send`, then FIN, and receives no more. `Closed` follows when done. A connection that is not established yet
    /// ends at once, and what was given to it may be lost (RFC 9293 section 3.10.4): shut it down instead.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError>;

    /// Sends RST. `Closed` follows.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError>;

    /// Changes how a connection behaves.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError>;

    /// Opens a UDP socket.
    ///
    /// # Errors
    /// As [`listen`](Commands::listen).
    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError>;

    /// Closes a UDP socket.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError>;

    /// Sends a datagram. It is lost, and counted, if the device has no room (as any datagram may be).
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::TooLong`], [`CommandError::Unreachable`].
    fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError>;

    /// Sends a datagram's payload on, or back, in the frame it came in, without a copy. Lost as by
    /// [`send_to`](Commands::send_to).
    ///
    /// # Errors
    /// As [`send_to`](Commands::send_to).
    fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError>;

    /// Asks for a `Timer` event with `token` after `after`.
    ///
    /// # Errors
    /// [`CommandError::Full`].
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError>;

    /// Forgets a timer. Returns whether it was still pending.
    fn cancel_timer(&mut self, timer: TimerId) -> bool;

    /// Frames set aside for prepared content.
    fn prepared_pool(&self) -> &Pool;

    /// What can be had in this placement of the stack, and what can't.
    fn stack_capabilities(&self) -> StackCapabilities {
        StackCapabilities::default()
    }

    /// What the device can do, and its limits.
    fn capabilities(&self) -> Capabilities;
}
