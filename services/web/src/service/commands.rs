//! The commands the service issues, as a trait: the tests answer them from memory.

use qanat::{
    Bytes, Chunk, CommandError, ConnectionId, Context, ListenOptions, ListenerId, Pool, Source, Time, TimerId,
};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The part of [`Context`] this service uses; see there.
pub trait Commands {
    fn now(&self) -> Time;
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError>;
    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError>;
    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError>;
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError>;
    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError>;
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk);
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError>;
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError>;
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError>;
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError>;
    fn prepared_pool(&self) -> Pool;
    /// MTU, and headroom a frame must keep for the driver.
    fn frame_limits(&self) -> (u16, u16);
}

impl Commands for Context<'_> {
    #[inline]
    fn now(&self) -> Time {
        Context::now(self)
    }
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        Context::listen(self, local, options)
    }
    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        Context::close_listener(self, listener)
    }
    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        Context::refuse(self, connection)
    }
    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        Context::send(self, connection, bytes)
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
        Context::send_prepared(self, connection, source, stamp, offset, length)
    }
    #[inline]
    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        Context::consume(self, connection, chunk);
    }
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        Context::shutdown(self, connection)
    }
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        Context::close(self, connection)
    }
    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        Context::abort(self, connection)
    }
    fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        Context::set_timer(self, after, token)
    }
    fn prepared_pool(&self) -> Pool {
        Context::prepared_pool(self).clone()
    }
    fn frame_limits(&self) -> (u16, u16) {
        let capabilities = self.capabilities();
        (capabilities.mtu, capabilities.transmit_headroom)
    }
}
