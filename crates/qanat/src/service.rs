//! [`Service`]: one event handler; [`Context`]: the commands it may issue.

use crate::split::Remotes;
use crate::{
    Block, Bytes, Chunk, CommandError, ConnectOptions, ConnectionId, Event, FilledBlock, Keepalive, ListenOptions,
    ListenerId, Pool, Source, Time, TimerId, UdpSocketId,
};
use qanat_nic::Vnic;
use qanat_nic::breakdown::{Phase, span};
use qanat_stack::Stack;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// An application of the native API. Its methods run on its runtime's thread and must not block.
pub trait Service {
    /// Called once before any event: the place to listen, connect and set timers.
    ///
    /// # Errors
    /// A message for the user; the runtime stops with it.
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String>;

    /// Called for every event, in order.
    fn handle(&mut self, event: Event, context: &mut Context<'_>);

    /// Called instead of [`handle`](Service::handle) for a datagram that needs not wait for anything: for a service whose time
    /// they take. `handle` is called for all others, so it must know them too. Make it `#[inline(always)]` and short, and what it
    /// hands to other functions [anew](Context::anew): then a datagram is never put into memory.
    #[inline(always)]
    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk, context: &mut Context<'_>) {
        self.handle(Event::Datagram { socket, peer, chunk }, context);
    }

    /// Called at the end of a turn in which anything came, after its last event: for a service that does better with several at once than with each.
    fn turn_ended(&mut self, _context: &mut Context<'_>) {}

    /// Called when a doorbell the service registered ([`Runtime::watch`](crate::Runtime::watch)) is readable.
    fn doorbell(&mut self, _token: u64, _context: &mut Context<'_>) {}

    /// Called when the service is to stop and others share its listeners (`--share`): gives a connection up, if nothing of it
    /// is under way, by giving back everything received of it ([`Context::consume`]) and forgetting it, and says so. Another
    /// service has it then, as one newly accepted; what was sent on it is delivered. Called again later otherwise.
    fn leave(&mut self, _connection: ConnectionId, _context: &mut Context<'_>) -> bool {
        false
    }

    /// Called once when the runtime is asked to stop: finish what is under way. The runtime goes on until
    /// [`is_finished`](Service::is_finished) or the grace period ends.
    fn stop(&mut self, _context: &mut Context<'_>) {}

    /// Whether nothing is under way any more, after `stop`.
    fn is_finished(&self) -> bool {
        true
    }
}

/// The commands of the native API, valid during one call of the service.
pub struct Context<'a> {
    place: Place<'a>,
    now: Time,
}

/// Where commands go. The stack's own address tells the two apart, so the linked placement pays one test a command; commands
/// are in line, or their arguments would be moved once more.
enum Place<'a> {
    Linked { stack: &'a mut Stack, vnic: &'a mut dyn Vnic },
    Split(&'a mut Remotes),
}

/// Calls what does the command in either placement.
macro_rules! either {
    ($context:ident, $stack:ident, $vnic:pat => $linked:expr, $remote:ident => $split:expr) => {
        match &mut $context.place {
            Place::Linked { stack: $stack, vnic: $vnic } => $linked,
            Place::Split($remote) => $split,
        }
    };
}

impl<'a> Context<'a> {
    /// A context for one call of a service, for whoever drives stack and device itself: a simulator with its own clock.
    pub fn new(stack: &'a mut Stack, vnic: &'a mut dyn Vnic, now: Time) -> Context<'a> {
        Context { place: Place::Linked { stack, vnic }, now }
    }

    pub(crate) fn of_remote(remote: &'a mut Remotes, now: Time) -> Context<'a> {
        Context { place: Place::Split(remote), now }
    }

    /// The same, made anew: for who hands it to a function that is not in line. That one must be in memory, this one then need
    /// not be.
    #[inline(always)]
    pub fn anew(&mut self) -> Context<'_> {
        let place = match &mut self.place {
            Place::Linked { stack, vnic } => Place::Linked { stack, vnic: &mut **vnic },
            Place::Split(remote) => Place::Split(remote),
        };
        Context { place, now: self.now }
    }

    /// Time of the current poll.
    #[inline(always)]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Accepts connections on `local` (an unspecified address: all own addresses).
    ///
    /// # Errors
    /// [`CommandError::InUse`], [`CommandError::Full`], [`CommandError::Unreachable`] for a foreign address.
    #[inline(always)]
    pub fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        either!(self, stack, _ => stack.listen(local, options), remote => remote.listen(local, options))
    }

    /// Stops accepting; connections accepted already go on.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.close_listener(listener), remote => remote.close_listener(listener))
    }

    /// Resets a connection just `Accepted`.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.refuse(self.now, connection), remote => remote.abort(connection))
    }

    /// Starts a connection; `Connected` or `Closed` follows.
    ///
    /// # Errors
    /// [`CommandError::Full`], [`CommandError::InUse`] (no port left), [`CommandError::Unreachable`].
    #[inline(always)]
    pub fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        either!(self, stack, _ => stack.connect(self.now, peer, options), remote => remote.connect(peer, options))
    }

    /// Sends lent bytes after those given before. They are not copied into a socket buffer: the stack keeps the handle
    /// and lets go of it when they are `Acked`.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::NotSending`], [`CommandError::Full`].
    #[inline(always)]
    pub fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.send(self.now, connection, bytes), remote => remote.send(connection, bytes))
    }

    /// Memory to fill and send without a copy: for `length` bytes, or fewer (at most 65,536 of a net core's transmit memory, and
    /// when none of that is free, the process's own, which is copied when sent).
    pub fn block(&mut self, length: usize) -> Block {
        match &mut self.place {
            Place::Linked { .. } => Block::own(length),
            Place::Split(remote) => remote.block(length),
        }
    }

    /// Sends a filled block after what was given before. Who keeps a clone may send it again, and on other connections.
    ///
    /// # Errors
    /// As [`send`](Context::send).
    pub fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.send(self.now, connection, block.into_bytes()), remote => remote.send_block(connection, block))
    }

    /// Sends `length` bytes of a prepared object from `offset` on.
    ///
    /// # Errors
    /// As [`send`](Context::send).
    #[inline(always)]
    pub fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.send_prepared(self.now, connection, source, stamp, offset, length), remote => remote.send_prepared(connection, source, stamp, offset, length))
    }

    /// Gives received bytes back: the receive window opens by as much.
    #[inline(always)]
    pub fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        either!(self, stack, _ => stack.consume(self.now, connection, chunk), remote => remote.consume(connection, chunk))
    }

    /// Sends FIN after everything given to `send`; receiving goes on.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::NotSending`].
    #[inline(always)]
    pub fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.shutdown(self.now, connection), remote => remote.shutdown(connection))
    }

    /// Sends what was given to `send`, then FIN, and receives no more. `Closed` follows when done.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.close(self.now, connection), remote => remote.close(connection))
    }

    /// Sends RST. `Closed` follows.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.abort(self.now, connection), remote => remote.abort(connection))
    }

    /// Nagle's algorithm off (`true`) or on, for this connection.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn set_no_delay(&mut self, connection: ConnectionId, no_delay: bool) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.set_no_delay(self.now, connection, no_delay), remote => remote.set_no_delay(connection, no_delay))
    }

    /// Cork: holds back what does not fill a segment, until uncorked or closed.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn set_cork(&mut self, connection: ConnectionId, cork: bool) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.set_cork(self.now, connection, cork), remote => remote.set_cork(connection, cork))
    }

    /// Keepalive on with these times, or off, for this connection.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn set_keepalive(
        &mut self,
        connection: ConnectionId,
        keepalive: Option<Keepalive>,
    ) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.set_keepalive(self.now, connection, keepalive), remote => remote.set_keepalive(connection, keepalive))
    }

    /// Longest time sent data may stay unacknowledged before the connection ends; `None`: the retransmission limit alone.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn set_user_timeout(
        &mut self,
        connection: ConnectionId,
        timeout: Option<Duration>,
    ) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.set_user_timeout(self.now, connection, timeout), remote => remote.set_user_timeout(connection, timeout))
    }

    /// Tells the peer how long this side waits for acknowledgements (RFC 5482's option), so that it may wait as long.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn advertise_user_timeout(&mut self, connection: ConnectionId, timeout: Duration) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.advertise_user_timeout(self.now, connection, timeout), remote => remote.advertise_user_timeout(connection, timeout))
    }

    /// Sends at most so many payload bytes per second; `None`: no limit.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn set_pacing_rate(
        &mut self,
        connection: ConnectionId,
        bytes_per_second: Option<u64>,
    ) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.set_pacing_rate(self.now, connection, bytes_per_second), remote => remote.set_pacing_rate(connection, bytes_per_second))
    }

    /// Opens a UDP socket.
    ///
    /// # Errors
    /// As [`listen`](Context::listen).
    #[inline(always)]
    pub fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        either!(self, stack, _ => stack.bind_udp(local), remote => remote.bind_udp(local))
    }

    /// Closes a UDP socket.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    #[inline(always)]
    pub fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        either!(self, stack, _ => stack.close_udp(socket), remote => remote.close_udp(socket))
    }

    /// Sends a datagram. It is lost, and counted, if the device has no room (as any datagram may be).
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::TooLong`], [`CommandError::Unreachable`].
    #[inline(always)]
    pub fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError> {
        let _stack = span(Phase::StackOut);
        either!(self, stack, vnic => stack.send_to(self.now, &mut **vnic, socket, peer, payload), remote => remote.send_to(socket, peer, payload))
    }

    /// Sends a datagram's payload on, or back, in the frame it came in, without a copy. Lost as by
    /// [`send_to`](Context::send_to).
    ///
    /// # Errors
    /// As [`send_to`](Context::send_to).
    #[inline(always)]
    pub fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError> {
        let _stack = span(Phase::StackOut);
        either!(self, stack, vnic => stack.send_chunk_to(self.now, &mut **vnic, socket, peer, chunk), remote => remote.send_chunk_to(socket, peer, chunk))
    }

    /// Asks for a `Timer` event with `token` after `after`.
    ///
    /// # Errors
    /// [`CommandError::Full`].
    #[inline(always)]
    pub fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        either!(self, stack, _ => stack.set_timer(self.now, after, token), remote => remote.set_timer(self.now, after, token))
    }

    /// Forgets a timer; whether it was still pending.
    #[inline(always)]
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        either!(self, stack, _ => stack.cancel_timer(timer), remote => remote.cancel_timer(timer))
    }

    /// Frames set aside for prepared content.
    #[inline(always)]
    pub fn prepared_pool(&self) -> &Pool {
        match &self.place {
            Place::Linked { vnic, .. } => vnic.prepared_pool(),
            Place::Split(remote) => remote.prepared_pool(),
        }
    }

    /// What the device does and bears.
    #[inline(always)]
    pub fn capabilities(&self) -> qanat_nic::Capabilities {
        match &self.place {
            Place::Linked { vnic, .. } => vnic.capabilities(),
            Place::Split(remote) => remote.capabilities(),
        }
    }
}
