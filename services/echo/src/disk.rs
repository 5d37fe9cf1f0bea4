//! The echo by way of a disk: what comes is stored, made durable, read again, and sent from where the disk put it.
//!
//! ```text
//!  Data ─► write (durable) ─► Written ─► read ─► Read ─► send_block ─► Acked ─► the next
//! ```
//! It is the example of the storage API, and what a durable answer costs at least.

use crate::figures::Figures;
use qanat::{
    AreaId, Block, Chunk, CommandError, Commands, ConnectionId, Context, Durability, Event, ListenOptions, Service,
    StartError, StorageCommands, StorageError,
};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

/// A stream. One piece of it at a time is on its way through the disk and back to the peer; the rest waits, and keeps the window closed.
#[derive(Default)]
struct Stream {
    /// Whose it is; none: nobody's.
    connection: Option<ConnectionId>,
    peer_closed: bool,
    /// All was sent, and the connection told to close.
    is_closing: bool,
    waiting: VecDeque<Chunk>,
    /// Of the first that waits, bytes that have gone.
    gone: usize,
    /// Bytes of the piece that is on its way and not acknowledged yet.
    under_way: usize,
    /// The disk has it.
    is_on_disk: bool,
    /// Where the piece is stored.
    offset: u64,
}

/// The service.
pub struct DiskEcho {
    port: u16,
    area: AreaId,
    /// Each connection has a buffer of the area's at most, so none of them waits for another's.
    connections_max: usize,
    figures: Figures,
    streams: Vec<Stream>,
    /// Requests under way whose connection is gone: each has a buffer still.
    orphans: usize,
    /// Where the next piece is stored.
    next: u64,
}

impl DiskEcho {
    /// Listens at `port` when it starts, and stores what comes in `area`, over and over from its beginning. `connections_max`: of the
    /// area's buffers and of its depth, the smaller number.
    pub fn new(port: u16, area: AreaId, connections_max: usize) -> DiskEcho {
        DiskEcho { port, area, connections_max, figures: Figures::default(), streams: Vec::new(), orphans: 0, next: 0 }
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    fn stream(&mut self, connection: ConnectionId) -> Option<&mut Stream> {
        self.streams.get_mut(connection.index()).filter(|stream| stream.connection == Some(connection))
    }

    fn orphan_ended(&mut self) -> Result<(), CommandError> {
        self.orphans -= 1;
        Ok(())
    }

    /// Stores what has come, if nothing is on its way.
    fn store(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> Result<(), CommandError> {
        let (area, next) = (self.area, self.next);
        let Some(stream) = self.stream(connection).filter(|stream| stream.under_way == 0) else { return Ok(()) };
        if stream.waiting.is_empty() {
            let closes = stream.peer_closed && !std::mem::replace(&mut stream.is_closing, stream.peer_closed);
            return if closes { context.close(connection) } else { Ok(()) };
        }
        let geometry = context.geometry(area)?;
        let mut block = context.area_block(area)?;
        while let Some(first) = stream.waiting.front()
            && block.room() > 0
        {
            stream.gone += block.append(first.bytes().get(stream.gone..).unwrap_or_default());
            if stream.gone >= first.len() {
                stream.gone = 0;
                stream.waiting.pop_front().into_iter().for_each(|chunk| context.consume(connection, chunk));
            }
        }
        stream.under_way = block.len();
        // A write is of whole blocks.
        let whole = block.len().next_multiple_of(geometry.block_bytes as usize);
        block.append_with(whole - block.len(), |rest| rest.fill(0));
        stream.offset = if next + whole as u64 > geometry.bytes() { 0 } else { next };
        let offset = stream.offset;
        self.next = offset + whole as u64;
        let given = context.write(area, offset, block, Durability::Durable, connection.to_token());
        self.is_given(connection, given)
    }

    /// What came of a command to the disk: if it was taken, the disk has the piece until the command's event.
    fn is_given(&mut self, connection: ConnectionId, given: Result<(), CommandError>) -> Result<(), CommandError> {
        self.stream(connection).into_iter().for_each(|stream| stream.is_on_disk = given.is_ok());
        given
    }

    /// It is durable: reads it again.
    fn stored(
        &mut self,
        connection: ConnectionId,
        result: Result<(), StorageError>,
        context: &mut Context<'_>,
    ) -> Result<(), CommandError> {
        let area = self.area;
        let Some(stream) = self.stream(connection) else { return self.orphan_ended() };
        stream.is_on_disk = false;
        if result.is_err() {
            return Err(CommandError::NotSending);
        }
        let length = stream.under_way.next_multiple_of(context.geometry(area)?.block_bytes as usize);
        let given = context.read(area, stream.offset, length, connection.to_token());
        self.is_given(connection, given)
    }

    /// It is here again: sends it.
    fn read(
        &mut self,
        connection: ConnectionId,
        result: Result<Block, StorageError>,
        context: &mut Context<'_>,
    ) -> Result<(), CommandError> {
        let Some(stream) = self.stream(connection) else { return self.orphan_ended() };
        stream.is_on_disk = false;
        let mut block = result.map_err(|_| CommandError::NotSending)?;
        block.truncate(stream.under_way);
        let bytes = block.len() as u64;
        context.send_block(connection, block.filled())?;
        self.figures.echoed += 1;
        self.figures.bytes += bytes;
        Ok(())
    }

    fn accepted(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> Result<(), CommandError> {
        if self.figures.connections as usize + self.orphans >= self.connections_max {
            self.figures.dropped += 1;
            return context.refuse(connection);
        }
        self.figures.connections += 1;
        if self.streams.len() <= connection.index() {
            self.streams.resize_with(connection.index() + 1, Stream::default);
        }
        if let Some(stream) = self.streams.get_mut(connection.index()) {
            *stream = Stream { connection: Some(connection), ..Stream::default() };
        }
        Ok(())
    }

    fn on(&mut self, event: Event, context: &mut Context<'_>) -> Option<(ConnectionId, Result<(), CommandError>)> {
        Some(match event {
            Event::Accepted { connection, .. } => (connection, self.accepted(connection, context)),
            Event::Data { connection, chunk } => {
                match self.stream(connection) {
                    Some(stream) => stream.waiting.push_back(chunk),
                    None => context.consume(connection, chunk),
                }
                (connection, self.store(connection, context))
            }
            Event::PeerClosed { connection } => {
                self.stream(connection).into_iter().for_each(|stream| stream.peer_closed = true);
                (connection, self.store(connection, context))
            }
            Event::Written { token, result, block, .. } => {
                // Its buffer is free before the next is needed.
                drop(block);
                let connection = ConnectionId::from_token(token);
                (connection, self.stored(connection, result, context))
            }
            Event::Read { token, result, .. } => {
                let connection = ConnectionId::from_token(token);
                (connection, self.read(connection, result, context))
            }
            Event::Acked { connection, bytes } => {
                let stream = self.stream(connection)?;
                stream.under_way = stream.under_way.saturating_sub(bytes as usize);
                (connection, self.store(connection, context))
            }
            Event::Closed { connection, .. } => {
                let stream = std::mem::take(self.stream(connection)?);
                self.orphans += usize::from(stream.is_on_disk);
                self.figures.connections -= 1;
                return None;
            }
            _ => return None,
        })
    }
}

impl Service for DiskEcho {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.port));
        context.listen(local, ListenOptions::default()).map_err(StartError::at(local))?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Some((connection, Err(_))) = self.on(event, context) {
            // What can't be stored, read or sent is not answered.
            self.figures.dropped += 1;
            let _ = context.abort(connection);
        }
    }
}
