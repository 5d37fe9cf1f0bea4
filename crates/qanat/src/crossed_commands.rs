//! [`Crossed`]: commands in the linked placement, each followed by a way into the kernel and back.

use crate::linked_commands::Linked;
use bytes::Bytes;
use qanat_api::{
    Block, Chunk, CommandError, Commands, ConnectOptions, ConnectionId, FilledBlock, ListenOptions, ListenerId,
    Setting, Source, TimerId, UdpSocketId,
};
use qanat_nic::{Capabilities, Pool, Time, null_call};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

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
