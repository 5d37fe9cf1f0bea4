//! The emulated crossing: a service in the linked placement that enters the kernel as often as if the network were there.
//!
//! “The Case Against User-Level Networking” (Magoutis, Seltzer, Gabber 2004, section IV) puts a null system call with the same arguments
//! after each call of a library at user level. What the service is slowed down by is what its own stack saves of crossings alone, with all
//! else the same. Calls are the commands that change something, and the receipt of each event. Nothing is copied on the way.

use crate::linked_commands::Linked;
use crate::service::{Context, Service};
use crate::start_error::StartError;
use bytes::Bytes;
use qanat_api::{
    Block, Chunk, CommandError, Commands, ConnectOptions, ConnectionId, Event, FilledBlock, ListenOptions, ListenerId,
    Setting, Source, TimerId, UdpSocketId,
};
use qanat_nic::{Capabilities, Pool, Time, null_call};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A service whose calls cross. Give it to a [`Runtime`](crate::Runtime) in place of the service. It changes nothing in the other
/// placements, whose calls leave the process anyway.
#[derive(Debug)]
pub struct Crossing<'a, S>(pub &'a mut S);

impl<S: Service> Service for Crossing<'_, S> {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        self.0.start(&mut context.crossing())
    }

    #[inline]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.0.handle(event, &mut received(context));
    }

    #[inline]
    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk, context: &mut Context<'_>) {
        self.0.datagram(socket, peer, chunk, &mut received(context));
    }

    #[inline]
    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.0.turn_ended(&mut context.crossing());
    }

    fn doorbell(&mut self, token: u64, context: &mut Context<'_>) {
        self.0.doorbell(token, &mut context.crossing());
    }

    fn leave(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> bool {
        self.0.leave(connection, &mut context.crossing())
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        self.0.stop(&mut context.crossing());
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// An event has been received, by a call that has no arguments.
#[inline]
fn received<'c>(context: &'c mut Context<'_>) -> Context<'c> {
    let context = context.crossing();
    context.cross([0; 4]);
    context
}

/// The linked placement's commands, each followed by a null call.
pub(crate) struct Crossed<'a>(pub(crate) Linked<'a>);

/// A command, then the call.
macro_rules! crossed {
    ($crossed:expr, $command:ident($($argument:expr),*), $words:expr) => {{
        let words = $words;
        let result = $crossed.0.$command($($argument),*);
        null_call(words);
        result
    }};
}

fn address(address: SocketAddr) -> u64 {
    u64::from(address.port())
}

/// Where bytes are, and how many.
fn place(bytes: &[u8]) -> [u64; 2] {
    [bytes.as_ptr().addr() as u64, bytes.len() as u64]
}

impl Commands for Crossed<'_> {
    #[inline]
    fn now(&self) -> Time {
        self.0.now()
    }

    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        crossed!(self, listen(local, options), [address(local), 0, 0, 0])
    }

    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        crossed!(self, close_listener(listener), [listener.to_token(), 0, 0, 0])
    }

    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        crossed!(self, refuse(connection), [connection.to_token(), 0, 0, 0])
    }

    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        crossed!(self, connect(peer, options), [address(peer), 0, 0, 0])
    }

    #[inline]
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        let [start, length] = place(&bytes);
        crossed!(self, send(connection, bytes), [connection.to_token(), start, length, 0])
    }

    #[inline]
    fn block(&mut self, length: usize) -> Block {
        self.0.block(length)
    }

    #[inline]
    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        let [start, length] = place(block.bytes());
        crossed!(self, send_block(connection, block), [connection.to_token(), start, length, 0])
    }

    #[inline]
    fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        self.0.send_room(connection)
    }

    #[inline]
    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        let words = [connection.to_token(), stamp, offset, length];
        crossed!(self, send_prepared(connection, source, stamp, offset, length), words)
    }

    #[inline]
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        let [start, length] = place(chunk.bytes());
        crossed!(self, consume(connection, chunk), [connection.to_token(), start, length, 0]);
    }

    #[inline]
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        crossed!(self, shutdown(connection), [connection.to_token(), 0, 0, 0])
    }

    #[inline]
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        crossed!(self, close(connection), [connection.to_token(), 0, 0, 0])
    }

    #[inline]
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        crossed!(self, abort(connection), [connection.to_token(), 0, 0, 0])
    }

    #[inline]
    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        crossed!(self, set(connection, setting), [connection.to_token(), 0, 0, 0])
    }

    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        crossed!(self, bind_udp(local), [address(local), 0, 0, 0])
    }

    fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        crossed!(self, close_udp(socket), [socket.to_token(), 0, 0, 0])
    }

    #[inline]
    fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError> {
        let [start, length] = place(payload);
        crossed!(self, send_to(socket, peer, payload), [socket.to_token(), start, length, address(peer)])
    }

    #[inline]
    fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError> {
        let [start, length] = place(chunk.bytes());
        crossed!(self, send_chunk_to(socket, peer, chunk), [socket.to_token(), start, length, address(peer)])
    }

    #[inline]
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        crossed!(self, set_timer(after, token), [after.as_nanos() as u64, token, 0, 0])
    }

    #[inline]
    fn cancel_timer(&mut self, timer: TimerId) -> bool {
        crossed!(self, cancel_timer(timer), [timer.to_token(), 0, 0, 0])
    }

    #[inline]
    fn prepared_pool(&self) -> &Pool {
        self.0.prepared_pool()
    }

    #[inline]
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}
