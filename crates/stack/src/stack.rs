//! The stack as a whole.

use crate::{
    Chunk, Config, ConnectOptions, ConnectionId, Event, ListenOptions, ListenerId, Source, TimerId, UdpSocketId,
};
use bytes::Bytes;
use qanat_nic::{Time, Vnic};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// The handle's object is gone.
    Stale,
    /// A limit of [`Config`] is reached.
    Full,
    /// The address or port is taken.
    InUse,
    /// Not one of the stack's own addresses, or no route to the peer.
    Unreachable,
    /// The connection's sending side is shut down, or it is not yet connected.
    NotSending,
    /// Longer than the protocol allows.
    TooLong,
}

/// One stack: one thread, one queue pair.
pub struct Stack {}

#[allow(unused_variables, missing_docs, clippy::todo, reason = "replaced by the implementation")]
impl Stack {
    /// `entropy` seeds ISNs, ports and hashes; it has no default, so that nothing is predictable by accident.
    pub fn new(config: Config, entropy: [u8; 32], vnic: &dyn Vnic, now: Time) -> Stack {
        todo!()
    }
    pub fn receive(&mut self, now: Time, vnic: &mut dyn Vnic) -> usize {
        todo!()
    }
    pub fn transmit(&mut self, now: Time, vnic: &mut dyn Vnic) {
        todo!()
    }
    pub fn next_deadline(&self) -> Option<Time> {
        todo!()
    }
    pub fn next_event(&mut self) -> Option<Event> {
        todo!()
    }
    pub fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        todo!()
    }
    pub fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        todo!()
    }
    pub fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        todo!()
    }
    pub fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        options: ConnectOptions,
    ) -> Result<ConnectionId, CommandError> {
        todo!()
    }
    pub fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        todo!()
    }
    pub fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        todo!()
    }
    pub fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        todo!()
    }
    pub fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        todo!()
    }
    pub fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        todo!()
    }
    pub fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        todo!()
    }
    pub fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        todo!()
    }
    pub fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        todo!()
    }
    pub fn send_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        todo!()
    }
    pub fn set_timer(&mut self, now: Time, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        todo!()
    }
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        todo!()
    }
}
