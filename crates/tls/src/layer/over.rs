//! [`Over`]: the commands of a service whose connections are encrypted.

use super::link::Stage;
use super::tls_layer::TlsLayer;
use bytes::Bytes;
use qanat_api::{
    Chunk, CommandError, Commands, ConnectOptions, ConnectionId, FilledBlock, ListenOptions, ListenerId, Piece,
    Setting, Source,
};
use std::net::SocketAddr;
use std::rc::Rc;

/// Commands for connections that the layer encrypts go to it, all others to the stack.
///
/// What is sent is taken by the stack when the layer is asked for what is [next](TlsLayer::next).
pub struct Over<'a, C> {
    pub(super) layer: &'a mut TlsLayer,
    pub(super) below: &'a mut C,
}

impl TlsLayer {
    /// What the service gives its commands to.
    pub fn over<'a, C: Commands>(&'a mut self, below: &'a mut C) -> Over<'a, C> {
        Over { layer: self, below }
    }
}

impl<C: Commands> Over<'_, C> {
    /// Queues a piece; `None`: the connection is not encrypted.
    fn queue(&mut self, id: ConnectionId, piece: impl FnOnce() -> Piece) -> Option<Result<(), CommandError>> {
        let link = self.layer.link_mut(id)?;
        let outcome = match link.stage {
            Stage::Open if link.queue.push(piece()) => Ok(()),
            Stage::Open => Err(CommandError::Full),
            // It failed, and its end is on its way.
            Stage::Over => Ok(()),
            Stage::ShuttingDown | Stage::ShutDown | Stage::Closing => Err(CommandError::NotSending),
        };
        self.layer.mark(id);
        Some(outcome)
    }

    /// Ends a connection in a way; `None`: it is not encrypted.
    fn end(&mut self, id: ConnectionId, stage: Stage) -> Option<Result<(), CommandError>> {
        let link = self.layer.link_mut(id)?;
        let outcome = match (link.stage, stage) {
            (Stage::Open, _) | (Stage::ShuttingDown | Stage::ShutDown, Stage::Closing) => {
                // The peer was told already.
                let is_said = link.stage == Stage::ShutDown;
                link.stage = stage;
                if is_said {
                    link.close(self.below);
                }
                Ok(())
            }
            (Stage::Over, _) | (Stage::Closing, Stage::Closing) => Ok(()),
            _ => Err(CommandError::NotSending),
        };
        self.layer.mark(id);
        Some(outcome)
    }
}

impl<C: Commands> Commands for Over<'_, C> {
    qanat_api::commands_passed_on!(below);

    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        let listener = self.below.listen(local, options)?;
        if self.layer.ports.contains(&local.port()) {
            self.layer.listeners.push(listener);
        }
        Ok(listener)
    }

    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.layer.listeners.retain(|encrypted| *encrypted != listener);
        self.below.close_listener(listener)
    }

    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        if let Some(link) = self.layer.link_mut(connection) {
            link.stage = Stage::Over;
        }
        self.below.refuse(connection)
    }

    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        self.below.connect(peer, options)
    }

    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        // A handle to the same bytes.
        match self.queue(connection, || Piece::Bytes(bytes.clone())) {
            Some(outcome) => outcome,
            None => self.below.send(connection, bytes),
        }
    }

    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        match self.queue(connection, || Piece::Block(block.clone(), 0)) {
            Some(outcome) => outcome,
            None => self.below.send_block(connection, block),
        }
    }

    /// What waits in the layer to be sealed waits before anything that is given now.
    fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        let waiting = self.layer.link(connection).map_or(0, |link| link.queue.bytes() as i64);
        self.below.send_room(connection).map(|room| room - waiting)
    }

    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        match self.queue(connection, || Piece::Prepared { source: Rc::clone(&source), stamp, offset, length }) {
            Some(outcome) => outcome,
            None => self.below.send_prepared(connection, source, stamp, offset, length),
        }
    }

    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        if !chunk.frame().is_of(&self.layer.shared.pool) {
            return self.below.consume(connection, chunk);
        }
        drop(chunk);
        // A frame may outlive its connection.
        if let Some(link) = self.layer.link_mut(connection) {
            link.lent = link.lent.saturating_sub(1);
        }
        self.layer.feed(connection);
        // The frame may be another's. Those that found one meanwhile are in the list still.
        while let Some(id) = self.layer.shared.starved.pop_front() {
            if self.layer.feed(id) {
                break;
            }
        }
    }

    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        match self.end(connection, Stage::ShuttingDown) {
            Some(outcome) => outcome,
            None => self.below.shutdown(connection),
        }
    }

    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        match self.end(connection, Stage::Closing) {
            Some(outcome) => outcome,
            None => self.below.close(connection),
        }
    }

    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        if let Some(link) = self.layer.link_mut(connection) {
            link.stage = Stage::Over;
            link.drop_received(self.below);
        }
        self.below.abort(connection)
    }

    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        self.below.set(connection, setting)
    }
}
