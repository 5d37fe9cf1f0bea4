//! [`Linked`]: commands in the linked placement, where the stack is in the service's thread.

use bytes::Bytes;
use qanat_api::{
    Block, Chunk, CommandError, Commands, ConnectOptions, ConnectionId, Filled, FilledBlock, ListenOptions, ListenerId,
    Setting, Source, TimerId, UdpSocketId,
};
use qanat_nic::breakdown::{Phase, span};
use qanat_nic::{Capabilities, Pool, Time, Vnic};
use qanat_stack::Stack;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Stack and device, during one call of the service.
pub(crate) struct Linked<'a> {
    pub stack: &'a mut Stack,
    pub vnic: &'a mut dyn Vnic,
    pub now: Time,
}

impl Linked<'_> {
    /// The same, made anew.
    #[inline(always)]
    pub(crate) fn anew(&mut self) -> Linked<'_> {
        Linked { stack: &mut *self.stack, vnic: &mut *self.vnic, now: self.now }
    }
}

impl Commands for Linked<'_> {
    #[inline(always)]
    fn now(&self) -> Time {
        self.now
    }

    #[inline(always)]
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        self.stack.listen(local, options)
    }

    #[inline(always)]
    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.stack.close_listener(listener)
    }

    #[inline(always)]
    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.stack.refuse(self.now, connection)
    }

    #[inline(always)]
    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        self.stack.connect(self.now, peer, options)
    }

    #[inline(always)]
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        self.stack.send(self.now, connection, bytes)
    }

    #[inline(always)]
    fn block(&mut self, length: usize) -> Block {
        Block::own(length)
    }

    #[inline(always)]
    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        match block.0 {
            Filled::Own(bytes) => self.stack.send(self.now, connection, bytes),
            // A frame of a disk's: its bytes stay where they are.
            Filled::Transmit(frame) => {
                let length = frame.len() as u64;
                self.stack.send_prepared(self.now, connection, frame, 0, 0, length)
            }
        }
    }

    #[inline(always)]
    fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        self.stack.send_room(connection)
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
        self.stack.send_prepared(self.now, connection, source, stamp, offset, length)
    }

    #[inline(always)]
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        self.stack.consume(self.now, connection, chunk);
    }

    #[inline(always)]
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.stack.shutdown(self.now, connection)
    }

    #[inline(always)]
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.stack.close(self.now, connection)
    }

    #[inline(always)]
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.stack.abort(self.now, connection)
    }

    #[inline(always)]
    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        self.stack.set(self.now, connection, setting)
    }

    #[inline(always)]
    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        self.stack.bind_udp(local)
    }

    #[inline(always)]
    fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        self.stack.close_udp(socket)
    }

    #[inline(always)]
    fn send_to(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: &[u8]) -> Result<(), CommandError> {
        let _stack = span(Phase::StackOut);
        self.stack.send_to(self.now, self.vnic, socket, peer, payload)
    }

    #[inline(always)]
    fn send_chunk_to(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> Result<(), CommandError> {
        let _stack = span(Phase::StackOut);
        self.stack.send_chunk_to(self.now, self.vnic, socket, peer, chunk)
    }

    #[inline(always)]
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        self.stack.set_timer(self.now, after, token)
    }

    #[inline(always)]
    fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.stack.cancel_timer(timer)
    }

    #[inline(always)]
    fn prepared_pool(&self) -> &Pool {
        self.vnic.prepared_pool()
    }

    #[inline(always)]
    fn capabilities(&self) -> Capabilities {
        self.vnic.capabilities()
    }
}
