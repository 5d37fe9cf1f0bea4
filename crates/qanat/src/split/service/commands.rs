//! The commands of [`Context`](crate::Context) in the split placement, on one net core.

use crate::no_device;
use crate::split::service::link::{Lost, WAITING_MAX};
use crate::split::service::remote::Remote;
use crate::split::service::streams::{Finish, PIECES_MAX, Piece};
use bytes::Bytes;
use qanat_abi::message::Window;
use qanat_abi::{Command, Id};
use qanat_api::{
    Block, Chunk, CommandError, ConnectOptions, ConnectionId, Filled, FilledBlock, ListenOptions, ListenerId, Setting,
    Source, StackCapabilities, TimerId, UdpSocketId,
};
use qanat_nic::{Capabilities, Frame, Pool, Time};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

impl Remote {
    pub(crate) fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        let backlog = options.backlog as u32;
        let id = self.ask(|request| Command::Listen { request, local, backlog })?;
        Ok(self.listeners.add(local, backlog, Some(id)))
    }

    pub(crate) fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        if let Some(listener) = self.listeners.remove(listener)? {
            self.give(Command::CloseListener { listener });
        }
        Ok(())
    }

    pub(crate) fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        let id = self.ask(|request| Command::BindUdp { request, local })?;
        Ok(self.sockets.add(local, 0, Some(id)))
    }

    pub(crate) fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        if let Some(socket) = self.sockets.remove(socket)? {
            self.give(Command::CloseUdp { socket });
        }
        Ok(())
    }

    pub(crate) fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        self.stack_capabilities().check(&options)?;
        if let Some(local) = options.local {
            self.give(Command::ConnectFrom { local });
        }
        let id = self.ask(|request| Command::Connect { request, peer })?;
        let connection = self.local_id(id);
        match self.begin(connection, false) {
            Ok(()) => Ok(connection),
            Err(Lost) => {
                self.broken = true;
                Err(CommandError::Unreachable)
            }
        }
    }

    #[inline]
    fn put(&mut self, connection: ConnectionId, piece: Piece) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        // The stack keeps what is given to a connection under way until it is established.
        if stream.ended {
            return Err(CommandError::NotSending);
        }
        if stream.piece_count() >= PIECES_MAX {
            return Err(CommandError::Full);
        }
        stream.put(piece);
        // What is given in one turn may share a block.
        self.queue(connection);
        Ok(())
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        self.put(connection, Piece::Bytes(bytes))
    }

    pub(crate) fn block(&mut self, length: usize) -> Block {
        let frame = self.link.as_mut().and_then(|link| link.block(length));
        frame.map_or_else(|| Block::own(length), Block::transmit)
    }

    #[inline]
    pub(crate) fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        let is_ours = |frame: &Frame| self.link.as_ref().is_some_and(|link| link.offset(frame).is_some());
        match block.0 {
            Filled::Transmit(frame) if is_ours(&frame) => self.put(connection, Piece::Block(frame)),
            // Of the process itself, or of a net core that is gone.
            other => self.put(connection, Piece::Bytes(FilledBlock(other).into_bytes())),
        }
    }

    pub(crate) fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        self.put(connection, Piece::Prepared { source, stamp, offset, length })
    }

    #[inline]
    pub(crate) fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        let Some(stream) = self.streams.get_mut(connection.index()) else { return };
        let Some(link) = &mut self.link else { return };
        // Dropped otherwise, and given back as such: its connection is gone, or its net core is.
        if stream.open
            && stream.generation == connection.generation()
            && let Some(frame) = link.received.give_back(chunk.into_frame())
        {
            stream.held = stream.held.saturating_sub(1);
            let before = stream.consumed.replace(frame);
            self.queue(connection);
            if let Some(frame) = before {
                self.give(Command::Consume { connection: self.remote_id(connection), frame });
            }
        }
    }

    fn finish(&mut self, connection: ConnectionId, finish: Finish) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        if finish == Finish::Shutdown && stream.ended {
            return Err(CommandError::NotSending);
        }
        (stream.ended, stream.finish) = (true, Some(finish));
        stream.deaf |= finish == Finish::Close;
        self.pump(connection);
        Ok(())
    }

    pub(crate) fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.finish(connection, Finish::Shutdown)
    }

    pub(crate) fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.finish(connection, Finish::Close)
    }

    /// Something of a connection that needs no more than to be said.
    #[inline]
    fn tell(&mut self, connection: ConnectionId, command: impl FnOnce(Id) -> Command) -> Result<(), CommandError> {
        self.stream(connection)?;
        let to = self.remote_id(connection);
        self.give(command(to));
        Ok(())
    }

    pub(crate) fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.tell(connection, |connection| Command::Abort { connection })
    }

    pub(crate) fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        // What was given before a cork goes under the old rule.
        if matches!(setting, Setting::Cork(_)) {
            self.pump(connection);
        }
        self.tell(connection, |connection| Command::Set { connection, setting })
    }

    /// The net core's slot of a socket; `None`: there is no net core now, and the datagram is lost.
    fn socket_slot(&self, socket: UdpSocketId) -> Result<Option<u16>, CommandError> {
        Ok(self.sockets.remote(socket)?.and_then(|id| u16::try_from(id.slot).ok()))
    }

    pub(crate) fn send_to(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        let slot = self.socket_slot(socket)?;
        let headers = if peer.is_ipv4() { 28 } else { 48 };
        if payload.len() + headers > usize::from(self.attached.mtu) {
            return Err(CommandError::TooLong);
        }
        let sent = slot.zip(self.link.as_mut()).and_then(|(slot, link)| {
            let mut block = link.block(payload.len()).filter(|_| link.waiting.len() < WAITING_MAX)?;
            block.append(payload.len())?.copy_from_slice(payload);
            link.send_block(slot, peer, block);
            Some(())
        });
        self.figures.datagrams_dropped += u64::from(sent.is_none());
        Ok(())
    }

    pub(crate) fn send_chunk_to(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
    ) -> Result<(), CommandError> {
        let slot = self.socket_slot(socket)?;
        let (Some(slot), Some(link)) = (slot, &mut self.link) else {
            self.figures.datagrams_dropped += 1;
            return Ok(());
        };
        if link.waiting.len() >= WAITING_MAX {
            self.figures.datagrams_dropped += 1;
        } else if link.received.has(chunk.frame()) {
            let (start, length) = (chunk.frame().headroom() as u16, chunk.len() as u16);
            if let Some(frame) = link.received.give_back(chunk.into_frame()) {
                self.give(Command::SendChunkTo { socket: slot, peer, window: Window { frame, start, length } });
            }
        } else if link.offset(chunk.frame()).is_some() {
            // An answer written over a copy of the question, in transmit memory already.
            self.figures.commands += 1;
            link.send_block(slot, peer, chunk.into_frame());
        } else {
            // Of a net core that is gone.
            return self.send_to(socket, peer, chunk.bytes());
        }
        Ok(())
    }

    pub(crate) fn set_timer(&mut self, now: Time, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        self.timers.set(now, after, token)
    }

    pub(crate) fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.timers.cancel(timer)
    }

    /// Prepared content stays with the service: none is kept ready in a card's memory.
    pub(crate) fn prepared_pool(&self) -> &Pool {
        &self.nothing
    }

    /// What does not cross to a net core.
    #[expect(clippy::unused_self, reason = "as in the other placements")]
    pub(crate) fn stack_capabilities(&self) -> StackCapabilities {
        StackCapabilities {
            tells_send_room: false,
            fast_open: false,
            maximum_segment: false,
            receive_window: false,
            urgent: false,
            ..StackCapabilities::default()
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        no_device::capabilities(self.attached.mac, self.attached.mtu)
    }
}
