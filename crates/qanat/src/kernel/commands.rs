//! The commands of [`Context`](crate::Context) in the kernel placement.

use super::endpoint::Owner;
use super::state::Kernel;
use super::stream::{Finish, Stream};
use crate::no_device;
use bytes::Bytes;
use qanat_api::{
    Block, Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, FilledBlock, ListenOptions, ListenerId,
    Piece, Setting, Source, StackCapabilities, TimerId, UdpSocketId,
};
use qanat_nic::sockets::{SocketOption, connecting_socket, set_option};
use qanat_nic::{Capabilities, Pool, Time};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

/// What packets are long as a rule; the kernel knows better, and cuts what is longer.
const MTU: u16 = 1_500;

impl Kernel {
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        let sockets = self.open_endpoints(true, local, options.backlog)?;
        let (slot, generation) = self.listeners.add(Vec::new());
        let listener = ListenerId::new(slot, generation);
        let endpoints = self.add_endpoints(sockets, Owner::Listener(listener));
        self.listeners.at(slot).into_iter().for_each(|place| place.clone_from(&endpoints));
        Ok(listener)
    }

    pub(crate) fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        self.listeners.get((listener.index(), listener.generation())).ok_or(CommandError::Stale)?;
        let endpoints = self.listeners.remove(listener.index() as u32).unwrap_or_default();
        self.close_endpoints(endpoints);
        Ok(())
    }

    pub(crate) fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        let sockets = self.open_endpoints(false, local, 0)?;
        let (slot, generation) = self.sockets.add(Vec::new());
        let socket = UdpSocketId::new(slot, generation);
        let endpoints = self.add_endpoints(sockets, Owner::Datagrams(socket));
        self.sockets.at(slot).into_iter().for_each(|place| place.clone_from(&endpoints));
        Ok(socket)
    }

    pub(crate) fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        self.sockets.get((socket.index(), socket.generation())).ok_or(CommandError::Stale)?;
        let endpoints = self.sockets.remove(socket.index() as u32).unwrap_or_default();
        self.close_endpoints(endpoints);
        Ok(())
    }

    pub(crate) fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        self.stack_capabilities().check(&options)?;
        let socket = connecting_socket(peer, options.local).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE) => CommandError::InUse,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => CommandError::Full,
            _ => CommandError::Unreachable,
        })?;
        let id = self.add_stream(socket, true);
        if let Some(stream) = self.streams.at(id.index() as u32) {
            if let Some(window) = options.receive_window {
                let _ = set_option(stream.socket.as_fd(), SocketOption::WindowClamp(window));
            }
            self.ring.connect(stream.socket.as_fd(), id.index() as u32, peer);
        }
        Ok(id)
    }

    /// A connection that has not ended.
    #[inline]
    fn stream(&mut self, connection: ConnectionId) -> Result<&mut Stream, CommandError> {
        let stream = self.streams.get_mut((connection.index(), connection.generation()));
        stream.filter(|stream| stream.end.is_none()).ok_or(CommandError::Stale)
    }

    #[inline]
    fn put(&mut self, connection: ConnectionId, piece: Piece) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        if stream.finish.is_some() {
            return Err(CommandError::NotSending);
        }
        if !stream.queue.push(piece) {
            return Err(CommandError::Full);
        }
        self.touch(connection.index() as u32);
        Ok(())
    }

    #[inline]
    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        self.put(connection, Piece::Bytes(bytes))
    }

    pub(crate) fn block(&mut self, length: usize) -> Block {
        Block::own(length)
    }

    #[inline]
    pub(crate) fn send_block(&mut self, connection: ConnectionId, block: FilledBlock) -> Result<(), CommandError> {
        self.put(connection, Piece::Block(block, 0))
    }

    /// The kernel knows its windows, and does not tell.
    #[expect(clippy::unused_self, reason = "as in the other placements")]
    pub(crate) fn send_room(&self, _connection: ConnectionId) -> Option<i64> {
        None
    }

    #[inline]
    pub(crate) fn send_prepared(
        &mut self,
        connection: ConnectionId,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), CommandError> {
        let piece = Piece::Prepared { source, stamp, offset, length };
        self.put(connection, piece)
    }

    #[inline]
    pub(crate) fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        drop(chunk);
        let Some(stream) = self.streams.get_mut((connection.index(), connection.generation())) else { return };
        stream.held = stream.held.saturating_sub(1);
        if !stream.is_receiving {
            self.touch(connection.index() as u32);
        }
    }

    pub(crate) fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        if stream.finish.is_some() {
            return Err(CommandError::NotSending);
        }
        stream.finish = Some(Finish::Shutdown);
        self.touch(connection.index() as u32);
        Ok(())
    }

    pub(crate) fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        // One that is not there yet never will be.
        if stream.is_connecting && stream.queue.bytes() == 0 {
            stream.end = Some(CloseReason::Aborted);
        }
        stream.finish = Some(Finish::Close);
        self.touch(connection.index() as u32);
        Ok(())
    }

    pub(crate) fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        stream.end = Some(CloseReason::Aborted);
        stream.queue.clear();
        self.touch(connection.index() as u32);
        Ok(())
    }

    pub(crate) fn refuse(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.abort(connection)
    }

    pub(crate) fn set(&mut self, connection: ConnectionId, setting: Setting) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        let option = match setting {
            // What is given in a turn leaves in one send anyway: this costs no system call.
            Setting::Cork(on) => {
                stream.is_corked = on;
                self.touch(connection.index() as u32);
                return Ok(());
            }
            Setting::NoDelay(on) if stream.has_no_delay == on => return Ok(()),
            Setting::NoDelay(on) => {
                stream.has_no_delay = on;
                SocketOption::NoDelay(on)
            }
            Setting::Keepalive(times) => {
                SocketOption::Keepalive(times.map(|times| (times.idle, times.interval, times.probes_max)))
            }
            Setting::UserTimeout(time) => SocketOption::UserTimeout(time),
            Setting::AdvertisedUserTimeout(_) => return Err(CommandError::Unsupported),
            Setting::PacingRate(rate) => SocketOption::PacingRate(rate),
            Setting::SynRetransmissions(Some(most)) => SocketOption::SynRetransmissions(most),
            Setting::ReceiveWindowMax(Some(most)) => SocketOption::WindowClamp(most),
            // As the kernel is configured: it is.
            Setting::SynRetransmissions(None) | Setting::ReceiveWindowMax(None) => return Ok(()),
            Setting::Congestion(algorithm) => SocketOption::Congestion(algorithm.name()),
        };
        if set_option(stream.socket.as_fd(), option).is_err() {
            self.figures.settings_refused += 1;
            return Err(CommandError::Unsupported);
        }
        Ok(())
    }

    pub(crate) fn set_timer(&mut self, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        self.timers.set(self.now, after, token)
    }

    pub(crate) fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.timers.cancel(timer)
    }

    pub(crate) fn prepared_pool(&self) -> &Pool {
        &self.nothing
    }

    #[expect(clippy::unused_self, reason = "as in the other placements")]
    pub(crate) fn capabilities(&self) -> Capabilities {
        no_device::capabilities([0; 6], MTU)
    }

    #[expect(clippy::unused_self, reason = "as in the other placements")]
    pub(crate) fn stack_capabilities(&self) -> StackCapabilities {
        StackCapabilities {
            acknowledges: false,
            tells_send_room: false,
            fast_open: false,
            maximum_segment: false,
            receive_window: true,
            urgent: false,
            advertised_user_timeout: false,
            address_conflicts: false,
        }
    }
}
