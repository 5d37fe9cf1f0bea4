//! [`Over`]: the commands of a service whose connections may be streams.

use super::carrier::Carrier;
use super::http2_layer::Http2Layer;
use super::shared::Ground;
use super::slots::Slot;
use crate::error::ErrorCode::{self, Internal, RefusedStream};
use bytes::Bytes;
use qanat_api::{
    Chunk, CommandError, Commands, ConnectOptions, ConnectionId, FilledBlock, ListenOptions, ListenerId, Piece,
    Setting, Source,
};
use std::net::SocketAddr;
use std::rc::Rc;

/// Commands for streams go to the layer, all others below.
///
/// What is sent on streams is taken below when the layer is asked for what is [next](Http2Layer::next).
pub struct Over<'a, C> {
    layer: &'a mut Http2Layer,
    below: &'a mut C,
}

impl Http2Layer {
    /// What the service gives its commands to.
    pub fn over<'a, C: Commands>(&'a mut self, below: &'a mut C) -> Over<'a, C> {
        Over { layer: self, below }
    }

    /// A stream ends at once.
    fn reset(&mut self, id: ConnectionId, code: ErrorCode) -> Result<(), CommandError> {
        let stream = self.slots.stream(id).ok_or(CommandError::Stale)?;
        let (carrier, number) = (stream.carrier, stream.number);
        self.with(carrier, |carrier, ground| carrier.reset(number, code, ground));
        self.mark(carrier);
        Ok(())
    }
}

impl<C: Commands> Over<'_, C> {
    /// Queues a piece of a stream; `None`: it is no stream.
    fn queue(&mut self, id: ConnectionId, piece: impl FnOnce() -> Piece) -> Option<Result<(), CommandError>> {
        let stream = match self.layer.slots.get_mut(id) {
            Some(Slot::Stream(stream)) => stream,
            Some(Slot::Carrier(..)) => return Some(Err(CommandError::NotSending)),
            _ => return None,
        };
        if stream.is_closing {
            return Some(Err(CommandError::NotSending));
        }
        if stream.is_over {
            // More than its head promised: nobody gets it.
            return Some(Ok(()));
        }
        if !stream.queue.push(piece()) {
            return Some(Err(CommandError::Full));
        }
        self.layer.wake(id);
        Some(Ok(()))
    }

    /// The connection below, for what is done with whole connections alone.
    fn whole(&self, id: ConnectionId) -> Result<ConnectionId, CommandError> {
        self.layer.below(id).ok_or(CommandError::Stale)
    }
}

impl<C: Commands> Commands for Over<'_, C> {
    qanat_api::commands_passed_on!(below);

    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        self.below.listen(local, options)
    }

    fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.below.close_listener(listener)
    }

    fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        match self.layer.below(connection) {
            Some(whole) => self.below.refuse(whole),
            // It may ask again.
            None => self.layer.reset(connection, RefusedStream),
        }
    }

    fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        let below = self.below.connect(peer, options)?;
        Ok(self.layer.slots.insert_plain(below, None))
    }

    fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        // A handle to the same bytes.
        match self.queue(connection, || Piece::Bytes(bytes.clone())) {
            Some(outcome) => outcome,
            None => self.below.send(self.whole(connection)?, bytes),
        }
    }

    fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        match self.queue(connection, || Piece::Block(block.clone(), 0)) {
            Some(outcome) => outcome,
            None => self.below.send_block(self.whole(connection)?, block),
        }
    }

    /// What waits on a stream waits before anything that is given now.
    fn send_room(&self, connection: ConnectionId) -> Option<i64> {
        let Some(stream) = self.layer.slots.stream(connection) else {
            return self.below.send_room(self.layer.below(connection)?);
        };
        let carrier = self.layer.slots.carrier(stream.carrier)?;
        let room = self.below.send_room(carrier.below)?;
        Some(room.min(carrier.window).min(stream.window) - stream.queue.bytes() as i64)
    }

    fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        let part = || Piece::Prepared { source: Rc::clone(&source), stamp, offset, length };
        if let Some(outcome) = self.queue(connection, part) {
            return outcome;
        }
        let whole = self.whole(connection)?;
        self.below.send_prepared(whole, source, stamp, offset, length)
    }

    fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        if !chunk.frame().is_of(&self.layer.shared.pool)
            && let Some(whole) = self.layer.below(connection)
        {
            self.below.consume(whole, chunk);
        }
    }

    /// A stream has no half that could stay open: all of the request came, or is dropped.
    fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        match self.layer.below(connection) {
            Some(whole) if self.layer.slots.carrier(connection).is_none() => self.below.shutdown(whole),
            _ => self.close(connection),
        }
    }

    /// A carrier takes no more requests, and ends when those that there are have been answered.
    fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let go_away = |carrier: &mut Carrier, ground: &mut Ground<'_>| {
            carrier.go_away();
            carrier.dispatch_all(ground);
        };
        if self.layer.with(connection, go_away).is_some() {
            self.layer.mark(connection);
            return Ok(());
        }
        if let Some(whole) = self.layer.below(connection) {
            return self.below.close(whole);
        }
        self.layer.slots.stream_mut(connection).ok_or(CommandError::Stale)?.is_closing = true;
        self.layer.wake(connection);
        Ok(())
    }

    fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let Some(whole) = self.layer.below(connection) else { return self.layer.reset(connection, Internal) };
        self.layer.with(connection, |carrier, _| Carrier::forsake(carrier));
        self.below.abort(whole)
    }

    fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        match self.layer.slots.stream(connection) {
            // It is the affair of the whole connection.
            Some(_) => Ok(()),
            None => self.below.set(self.whole(connection)?, setting),
        }
    }
}
