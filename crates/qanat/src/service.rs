//! [`Service`]: one event handler; [`Context`]: where its commands go.

use crate::crossed_commands::Crossed;
use crate::kernel::state::Kernel;
use crate::linked_commands::Linked;
use crate::split::service::remotes::Remotes;
use crate::start_error::StartError;
use crate::storage::Storage;
use bytes::Bytes;
use qanat_api::{
    AreaId, Block, Chunk, CommandError, Commands, ConnectOptions, ConnectionId, Durability, Event, FilledBlock,
    Geometry, ListenOptions, ListenerId, Setting, Source, StackCapabilities, StorageCommands, TimerId, UdpSocketId,
};
use qanat_nic::{Capabilities, Pool, Time, Vnic, null_call};
use qanat_stack::Stack;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// An application of the native API. Its methods run on its runtime's thread and must not block.
pub trait Service {
    /// Called once before any event: the place to listen, connect and set timers.
    ///
    /// # Errors
    /// Why the service can't start, for the user. A refused command becomes one by `?`. The runtime stops with it.
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError>;

    /// Called for every event, in order.
    fn handle(&mut self, event: Event, context: &mut Context<'_>);

    /// Called instead of [`handle`](Service::handle) for a datagram that does not have to wait for anything. Implement it if datagrams
    /// take most of the service's time. `handle` gets all other datagrams, so it must know them too. If this method is
    /// `#[inline(always)]` and short, and hands its context on [anew](Context::anew), a datagram is never put into memory.
    #[inline(always)]
    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk, context: &mut Context<'_>) {
        self.handle(Event::Datagram { socket, peer, chunk }, context);
    }

    /// Called after the last event of a turn in which anything came. A service that does better with several events at once than with
    /// each of them does its work here.
    fn turn_ended(&mut self, _context: &mut Context<'_>) {}

    /// Called when a doorbell that the service registered ([`Runtime::watch`](crate::Runtime::watch)) is readable.
    fn doorbell(&mut self, _token: u64, _context: &mut Context<'_>) {}

    /// Called for each connection when the service is to stop and others share its listeners (`--share`). If nothing of the
    /// connection is under way, the service gives back everything received of it ([`Commands::consume`]), forgets it, and returns
    /// true. Then another service gets it as newly accepted, and what was sent on it is delivered. If the service returns false, it is
    /// asked again later.
    fn leave(&mut self, _connection: ConnectionId, _context: &mut Context<'_>) -> bool {
        false
    }

    /// Called once when the runtime is asked to stop. The service finishes what is under way. The runtime goes on until
    /// [`is_finished`](Service::is_finished) returns true or the grace period ends.
    fn stop(&mut self, _context: &mut Context<'_>) {}

    /// Whether nothing is under way any more. This is asked after `stop`.
    fn is_finished(&self) -> bool {
        true
    }
}

/// Where a service gives its [`Commands`] and [`StorageCommands`]. A context is valid during one call of the service.
pub struct Context<'a> {
    place: Place<'a>,
    /// None in programs that drive stack and device themselves.
    storage: Option<&'a mut Storage>,
}

/// Where commands go. The stack's own address tells the two apart, so the linked placement pays one test a command. Commands
/// are in line because their arguments would be moved once more otherwise.
enum Place<'a> {
    Linked(Linked<'a>),
    Elsewhere(Elsewhere<'a>),
}

/// Where commands go if the stack is not in the service's thread, or is to seem so. It is one variant of the placements, so that the other
/// one is told by the stack's address.
enum Elsewhere<'a> {
    Split(&'a mut Remotes),
    Kernel(&'a mut Kernel),
    Crossed(Crossed<'a>),
}

impl<'a> Context<'a> {
    /// A context for one call of a service. It is for programs that drive stack and device themselves, as a simulator with its own
    /// clock does. There are no storage areas.
    pub fn new(stack: &'a mut Stack, vnic: &'a mut dyn Vnic, now: Time) -> Context<'a> {
        Context { place: Place::Linked(Linked { stack, vnic, now }), storage: None }
    }

    #[inline(always)]
    pub(crate) fn of_linked(
        stack: &'a mut Stack,
        vnic: &'a mut dyn Vnic,
        storage: &'a mut Storage,
        now: Time,
    ) -> Context<'a> {
        Context { place: Place::Linked(Linked { stack, vnic, now }), storage: Some(storage) }
    }

    pub(crate) fn of_remote(remote: &'a mut Remotes, storage: &'a mut Storage, now: Time) -> Context<'a> {
        remote.turn_begins(now);
        Context { place: Place::Elsewhere(Elsewhere::Split(remote)), storage: Some(storage) }
    }

    pub(crate) fn of_kernel(kernel: &'a mut Kernel, storage: &'a mut Storage, now: Time) -> Context<'a> {
        kernel.turn_begins(now);
        Context { place: Place::Elsewhere(Elsewhere::Kernel(kernel)), storage: Some(storage) }
    }

    /// The same context, made anew, to be handed to a function that is not in line. Only the new one has to be in memory then.
    #[inline(always)]
    pub fn anew(&mut self) -> Context<'_> {
        let place = match &mut self.place {
            Place::Linked(linked) => Place::Linked(linked.anew()),
            Place::Elsewhere(Elsewhere::Split(remote)) => Place::Elsewhere(Elsewhere::Split(remote)),
            Place::Elsewhere(Elsewhere::Kernel(kernel)) => Place::Elsewhere(Elsewhere::Kernel(kernel)),
            Place::Elsewhere(Elsewhere::Crossed(Crossed(linked))) => {
                Place::Elsewhere(Elsewhere::Crossed(Crossed(linked.anew())))
            }
        };
        Context { place, storage: self.storage.as_deref_mut() }
    }

    /// The same context for a service whose calls cross ([`Crossing`](crate::Crossing)), if the stack is in its thread.
    #[inline]
    pub(crate) fn crossing(&mut self) -> Context<'_> {
        let context = self.anew();
        let place = match context.place {
            Place::Linked(linked) => Place::Elsewhere(Elsewhere::Crossed(Crossed(linked))),
            elsewhere @ Place::Elsewhere(_) => elsewhere,
        };
        Context { place, ..context }
    }

    /// The call after a command that is not the stack's, if calls cross.
    #[inline]
    pub(crate) fn cross(&self, arguments: [u64; 4]) {
        if let Place::Elsewhere(Elsewhere::Crossed(_)) = &self.place {
            null_call(arguments);
        }
    }

    fn storage(&mut self) -> Result<&mut Storage, CommandError> {
        self.storage.as_deref_mut().ok_or(CommandError::Stale)
    }
}

/// Gives a command to the placement.
macro_rules! to_placement {
    ($context:expr, $command:ident($($argument:expr),*)) => {
        match $context {
            Place::Linked(linked) => linked.$command($($argument),*),
            Place::Elsewhere(Elsewhere::Split(remotes)) => remotes.$command($($argument),*),
            Place::Elsewhere(Elsewhere::Kernel(kernel)) => kernel.$command($($argument),*),
            Place::Elsewhere(Elsewhere::Crossed(crossed)) => crossed.$command($($argument),*),
        }
    };
}

impl Commands for Context<'_> {
    #[inline(always)]
    fn now(&self) -> Time {
        to_placement!(&self.place, now())
    }

    #[inline(always)]
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        to_placement!(&mut self.place, listen(local, options))
    }

    #[inline(always)]
    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        to_placement!(&mut self.place, close_listener(listener))
    }

    #[inline(always)]
    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        to_placement!(&mut self.place, refuse(connection))
    }

    #[inline(always)]
    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        to_placement!(&mut self.place, connect(peer, options))
    }

    #[inline(always)]
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        to_placement!(&mut self.place, send(connection, bytes))
    }

    #[inline(always)]
    fn block(&mut self, length: usize) -> Block {
        to_placement!(&mut self.place, block(length))
    }

    #[inline(always)]
    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        to_placement!(&mut self.place, send_block(connection, block))
    }

    #[inline(always)]
    fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        to_placement!(&self.place, send_room(connection))
    }

    #[inline(always)]
    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        to_placement!(&mut self.place, send_prepared(connection, source, stamp, offset, length))
    }

    #[inline(always)]
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        to_placement!(&mut self.place, consume(connection, chunk))
    }

    #[inline(always)]
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        to_placement!(&mut self.place, shutdown(connection))
    }

    #[inline(always)]
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        to_placement!(&mut self.place, close(connection))
    }

    #[inline(always)]
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        to_placement!(&mut self.place, abort(connection))
    }

    #[inline(always)]
    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        to_placement!(&mut self.place, set(connection, setting))
    }

    #[inline(always)]
    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        to_placement!(&mut self.place, bind_udp(local))
    }

    #[inline(always)]
    fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        to_placement!(&mut self.place, close_udp(socket))
    }

    #[inline(always)]
    fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError> {
        to_placement!(&mut self.place, send_to(socket, peer, payload))
    }

    #[inline(always)]
    fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError> {
        to_placement!(&mut self.place, send_chunk_to(socket, peer, chunk))
    }

    #[inline(always)]
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        to_placement!(&mut self.place, set_timer(after, token))
    }

    #[inline(always)]
    fn cancel_timer(&mut self, timer: TimerId) -> bool {
        to_placement!(&mut self.place, cancel_timer(timer))
    }

    #[inline(always)]
    fn prepared_pool(&self) -> &Pool {
        to_placement!(&self.place, prepared_pool())
    }

    #[inline(always)]
    fn stack_capabilities(&self) -> StackCapabilities {
        match &self.place {
            Place::Elsewhere(Elsewhere::Kernel(kernel)) => kernel.stack_capabilities(),
            Place::Elsewhere(Elsewhere::Split(remotes)) => remotes.stack_capabilities(),
            _ => StackCapabilities::default(),
        }
    }

    #[inline(always)]
    fn capabilities(&self) -> Capabilities {
        to_placement!(&self.place, capabilities())
    }
}

/// Gives a command to the areas, and has it cross if calls do.
macro_rules! to_storage {
    ($context:expr, $command:ident($($argument:expr),*), $words:expr) => {{
        let words = $words;
        let result = $context.storage()?.$command($($argument),*);
        $context.cross(words);
        result
    }};
}

impl StorageCommands for Context<'_> {
    #[inline]
    fn geometry(&self, area: AreaId) -> Result<Geometry, CommandError> {
        self.storage.as_deref().ok_or(CommandError::Stale)?.geometry(area)
    }

    #[inline]
    fn area_block(&mut self, area: AreaId) -> Result<Block, CommandError> {
        self.storage()?.area_block(area)
    }

    #[inline]
    fn read(&mut self, area: AreaId, offset: u64, length: usize, token: u64) -> Result<(), CommandError> {
        to_storage!(self, read(area, offset, length, token), [area.to_token(), offset, length as u64, token])
    }

    #[inline]
    fn write(
        &mut self,
        area: AreaId,
        offset: u64,
        block: Block,
        durability: Durability,
        token: u64,
    ) -> Result<(), CommandError> {
        let words = [area.to_token(), offset, block.len() as u64, token];
        to_storage!(self, write(area, offset, block, durability, token), words)
    }

    #[inline]
    fn flush(&mut self, area: AreaId, token: u64) -> Result<(), CommandError> {
        to_storage!(self, flush(area, token), [area.to_token(), token, 0, 0])
    }

    #[inline]
    fn write_zeroes(&mut self, area: AreaId, offset: u64, bytes: u64, token: u64) -> Result<(), CommandError> {
        to_storage!(self, write_zeroes(area, offset, bytes, token), [area.to_token(), offset, bytes, token])
    }
}
