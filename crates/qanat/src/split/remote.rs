//! What stands for the stack in a service's process: commands become messages, messages become events.

use super::handshake::{Attached, LARGE_BLOCK_BYTES, SMALL_BLOCK_BYTES};
use super::streams::{Finish, PIECES_MAX, Piece, Stream};
use super::timers::Timers;
use super::{bell, code};
use bytes::Bytes;
use qanat_abi::message::{RELEASES_MAX, Range, Window};
use qanat_abi::{Command, Consumer, ControlMemory, Event as Said, Id, Message, Mismatch, Producer, Rings};
use qanat_nic::{Capabilities, Frame, LentFrames, Pool, ReceiveChecksum, Region, Time};
use qanat_stack::{
    Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, Event, Keepalive, ListenOptions, ListenerId,
    Source, TimerId, UdpSocketId,
};
use qanat_wire::ethernet::MacAddress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a net core may take for an answer: it is never busy for more than a fraction of it.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Commands that wait for room in the ring before datagrams are dropped. (What else waits is bounded by what there is:
/// connections, frames.)
const WAITING_MAX: usize = 1_024;
/// Bits of a connection's generation that tell one net core from the next.
const EPOCH_SHIFT: u32 = 26;

/// What a service's process has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteFigures {
    /// Events taken.
    pub events: u64,
    /// Commands given.
    pub commands: u64,
    /// Times the net core was woken.
    pub bells: u64,
    /// Datagrams dropped because transmit memory, or the command ring, was full.
    pub datagrams_dropped: u64,
    /// Times a net core was lost.
    pub net_cores_lost: u64,
}

/// The memory shared with one net core.
pub(super) struct Link {
    pub socket: OwnedFd,
    events: Consumer<ControlMemory>,
    commands: Producer<ControlMemory>,
    lent: LentFrames,
    small: Pool,
    large: Pool,
    small_bytes: usize,
    /// Commands the ring had no room for.
    waiting: VecDeque<Command>,
    /// Datagrams' blocks, free once the command at that position has been taken.
    datagrams: VecDeque<(u32, Frame)>,
}

/// The net core does not keep to the rules, or is gone.
pub(super) struct Lost;

impl Link {
    /// Maps what came beside a net core's answer.
    pub(super) fn open(socket: OwnedFd, attached: &Attached, files: &[OwnedFd]) -> Result<Link, Mismatch> {
        let [control, received, small, large] = files else {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into());
        };
        let rings = Rings::open(control.as_fd())?;
        let lent = LentFrames::map(received.as_fd(), attached.receive_frames, attached.frame_size)?;
        let pool = |file: &OwnedFd, count: u32, size: u32| -> std::io::Result<Pool> {
            let region = Region::of_file(file.as_fd(), count, size)?;
            region.pool(count).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
        };
        let small = pool(small, attached.small_blocks, SMALL_BLOCK_BYTES)?;
        let large = pool(large, attached.large_blocks, LARGE_BLOCK_BYTES)?;
        lent.pool().region().copy_on_write_to(&small);
        let small_bytes = small.region().length();
        Ok(Link {
            socket,
            events: Consumer::new(rings.events),
            commands: Producer::new(rings.commands),
            lent,
            small,
            large,
            small_bytes,
            waiting: VecDeque::new(),
            datagrams: VecDeque::new(),
        })
    }

    fn give(&mut self, command: Command) {
        if !self.waiting.is_empty() || !matches!(self.commands.push(command.encode()), Ok(true)) {
            self.waiting.push_back(command);
        }
    }

    /// Moves what waits into the ring and tells the net core. Whether it had to be woken.
    fn flush(&mut self) -> Result<bool, Lost> {
        while let Some(command) = self.waiting.front() {
            if !self.commands.push(command.encode()).map_err(|_| Lost)? {
                break;
            }
            self.waiting.pop_front();
        }
        if !self.commands.publish() {
            return Ok(false);
        }
        bell::ring(&self.socket);
        Ok(true)
    }

    /// Frees blocks of datagrams that have been sent.
    fn reclaim(&mut self, fresh: bool) -> Result<(), Lost> {
        if self.datagrams.is_empty() {
            return Ok(());
        }
        let consumed = self.commands.consumed(fresh).map_err(|_| Lost)?;
        while let Some((position, _)) = self.datagrams.front()
            && consumed.wrapping_sub(*position).cast_signed() >= 0
        {
            self.datagrams.pop_front();
        }
        Ok(())
    }

    /// A block for a datagram.
    fn block(&mut self, length: usize) -> Option<Frame> {
        let pool = if length <= SMALL_BLOCK_BYTES as usize { &self.small } else { &self.large };
        if let Some(block) = pool.allocate(0) {
            return Some(block);
        }
        self.reclaim(true).ok()?;
        let pool = if length <= SMALL_BLOCK_BYTES as usize { &self.small } else { &self.large };
        pool.allocate(0)
    }

    /// Where a frame is in transmit memory as a whole; `None`: elsewhere.
    fn offset(&self, frame: &Frame) -> Option<u32> {
        if frame.is_of(&self.small) {
            return u32::try_from(frame.offset_in_region()).ok();
        }
        frame.is_of(&self.large).then(|| u32::try_from(self.small_bytes + frame.offset_in_region()).ok())?
    }

    /// Sends a block as a datagram.
    fn send_block(&mut self, socket: u16, peer: SocketAddr, block: Frame) {
        let (Some(offset), Ok(length)) = (self.offset(&block), u16::try_from(block.len())) else { return };
        self.give(Command::SendTo { socket, peer, offset, length });
        let position = self.commands.position().wrapping_add(self.waiting.len() as u32);
        self.datagrams.push_back((position, block));
    }

    /// Tells of frames the service has dropped.
    fn release_dropped(&mut self) {
        let mut frames = [0; RELEASES_MAX];
        let mut count = 0;
        while let Some(frame) = self.lent.dropped() {
            frames[count] = frame;
            count += 1;
            if count == RELEASES_MAX {
                self.give(Command::Release { count: count as u8, frames });
                count = 0;
            }
        }
        if count > 0 {
            self.give(Command::Release { count: count as u8, frames });
        }
    }
}

/// A listener or socket of the service's, which outlives net cores. Its place is its handle: none is used twice.
#[derive(Clone, Copy)]
struct Place {
    local: Option<SocketAddr>,
    backlog: usize,
    /// The net core's handle, while there is one.
    remote: Option<Id>,
}

/// The service's stack.
pub struct Remote {
    link: Option<Link>,
    attached: Attached,
    epoch: u32,
    streams: Vec<Stream>,
    /// Connections that wait for transmit memory.
    blocked: VecDeque<u32>,
    listeners: Vec<Place>,
    sockets: Vec<Place>,
    timers: Timers,
    /// Events taken while an answer was waited for.
    early: VecDeque<Said>,
    /// Ends that a lost net core means.
    ends: VecDeque<Event>,
    requests: u32,
    nothing: Pool,
    figures: RemoteFigures,
}

impl Remote {
    pub(super) fn new() -> std::io::Result<Remote> {
        let nothing = Region::new(1, SMALL_BLOCK_BYTES)?.pool(0);
        Ok(Remote {
            link: None,
            attached: Attached::default(),
            epoch: 0,
            streams: Vec::new(),
            blocked: VecDeque::new(),
            listeners: Vec::new(),
            sockets: Vec::new(),
            timers: Timers::default(),
            early: VecDeque::new(),
            ends: VecDeque::new(),
            requests: 0,
            nothing: nothing.ok_or(std::io::ErrorKind::InvalidInput)?,
            figures: RemoteFigures::default(),
        })
    }

    pub(super) fn figures(&self) -> RemoteFigures {
        self.figures
    }

    pub(super) fn attached(&self) -> &Attached {
        &self.attached
    }

    pub(super) fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(|link| link.socket.as_fd())
    }

    /// A net core's end: every connection is closed, listeners and sockets wait for the next.
    pub(super) fn lost(&mut self) {
        if self.link.take().is_none() {
            return;
        }
        self.figures.net_cores_lost += 1;
        self.early.clear();
        self.blocked.clear();
        for (slot, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.open) {
            let connection = ConnectionId::new(slot as u32, stream.generation);
            self.ends.push_back(Event::Closed { connection, why: CloseReason::Aborted });
            stream.end();
        }
        for place in self.listeners.iter_mut().chain(&mut self.sockets) {
            place.remote = None;
        }
        self.epoch += 1;
    }

    /// The next net core: listeners and sockets are made anew there.
    pub(super) fn attach(&mut self, link: Link, attached: Attached) -> Result<(), CommandError> {
        (self.link, self.attached) = (Some(link), attached);
        for index in 0..self.listeners.len() {
            if let Some(local) = self.listeners[index].local {
                let backlog = self.listeners[index].backlog as u32;
                let id = self.ask(|request| Command::Listen { request, local, backlog })?;
                self.listeners[index].remote = Some(id);
            }
        }
        for index in 0..self.sockets.len() {
            if let Some(local) = self.sockets[index].local {
                let id = self.ask(|request| Command::BindUdp { request, local })?;
                self.sockets[index].remote = Some(id);
            }
        }
        Ok(())
    }

    fn give(&mut self, command: Command) {
        if let Some(link) = &mut self.link {
            self.figures.commands += 1;
            link.give(command);
        }
    }

    /// A command that is answered: waits for it. Events that come before are kept.
    fn ask(&mut self, command: impl FnOnce(u32) -> Command) -> Result<Id, CommandError> {
        self.requests = self.requests.wrapping_add(1);
        let request = self.requests;
        self.give(command(request));
        let deadline = Instant::now() + ANSWER_PATIENCE;
        loop {
            let link = self.link.as_mut().ok_or(CommandError::Unreachable)?;
            let Ok(rang) = link.flush() else { return Err(CommandError::Unreachable) };
            self.figures.bells += u64::from(rang);
            while let Ok(Some(words)) = link.events.pop() {
                match Said::decode(words) {
                    Ok(Said::Answer { request: of, error, id }) if of == request => {
                        return code::to_error(error).map_or(Ok(id), Err);
                    }
                    Ok(said) => self.early.push_back(said),
                    Err(_) => return Err(CommandError::Unreachable),
                }
            }
            if Instant::now() > deadline {
                return Err(CommandError::Unreachable);
            }
            if link.events.falls_asleep() {
                let (mut fds, patience) = ([PollFd::new(&link.socket, PollFlags::IN)], Duration::from_millis(100));
                let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
                let _ = poll(&mut fds, Some(&patience));
                link.events.wakes();
                if !bell::silence(&link.socket) {
                    return Err(CommandError::Unreachable);
                }
            }
        }
    }

    fn local_id(&self, id: Id) -> ConnectionId {
        ConnectionId::new(id.slot, id.generation.wrapping_add(self.epoch << EPOCH_SHIFT))
    }

    fn remote_id(&self, id: ConnectionId) -> Id {
        Id { slot: id.index() as u32, generation: id.generation().wrapping_sub(self.epoch << EPOCH_SHIFT) }
    }

    fn stream(&mut self, id: ConnectionId) -> Result<&mut Stream, CommandError> {
        let stream = self.streams.get_mut(id.index()).ok_or(CommandError::Stale)?;
        if stream.open && stream.generation == id.generation() { Ok(stream) } else { Err(CommandError::Stale) }
    }

    /// The next event.
    pub(super) fn next_event(&mut self, now: Time) -> Result<Option<Event>, Lost> {
        loop {
            if let Some(end) = self.ends.pop_front() {
                return Ok(Some(end));
            }
            let said = match (self.early.pop_front(), &mut self.link) {
                (Some(said), _) => Some(said),
                (None, Some(link)) => match link.events.pop().map_err(|_| Lost)? {
                    Some(words) => Some(Said::decode(words).map_err(|_| Lost)?),
                    None => None,
                },
                (None, None) => None,
            };
            let Some(said) = said else {
                let expired = self.timers.expired(now);
                return Ok(expired.map(|(id, token)| Event::Timer { id, token }));
            };
            self.figures.events += 1;
            if let Some(event) = self.understand(said)? {
                return Ok(Some(event));
            }
        }
    }

    fn take(&mut self, window: Window) -> Result<Chunk, Lost> {
        let link = self.link.as_mut().ok_or(Lost)?;
        let frame = link.lent.take(window.frame, window.start.into(), window.length.into()).ok_or(Lost)?;
        Ok(Chunk::new(frame))
    }

    fn understand(&mut self, said: Said) -> Result<Option<Event>, Lost> {
        Ok(Some(match said {
            Said::Accepted { connection, listener, peer } => {
                let connection = self.local_id(connection);
                self.begin(connection, true);
                let of = |place: &Place| place.remote.is_some_and(|id| id.slot == u32::from(listener));
                match self.listeners.iter().position(of) {
                    Some(index) => {
                        let listener = ListenerId::new(index as u32, 0);
                        Event::Accepted { connection, listener, peer }
                    }
                    None => {
                        // Of a listener just closed.
                        _ = self.abort(connection);
                        return Ok(None);
                    }
                }
            }
            Said::Connected { connection } => {
                let connection = self.local_id(connection);
                if let Ok(stream) = self.stream(connection) {
                    stream.connected = true;
                }
                Event::Connected { connection }
            }
            Said::Data { connection, window } => {
                let (connection, chunk) = (self.local_id(connection), self.take(window)?);
                if self.stream(connection).is_ok_and(|stream| stream.deaf) {
                    return Ok(None);
                }
                Event::Data { connection, chunk }
            }
            Said::Acked { connection, bytes } => {
                let connection = self.local_id(connection);
                if let Ok(stream) = self.stream(connection) {
                    stream.acknowledged(bytes as usize);
                    self.pump(connection);
                }
                Event::Acked { connection, bytes }
            }
            Said::PeerClosed { connection } => Event::PeerClosed { connection: self.local_id(connection) },
            Said::Closed { connection, why } => {
                let connection = self.local_id(connection);
                if let Ok(stream) = self.stream(connection) {
                    stream.end();
                }
                Event::Closed { connection, why: code::to_reason(why) }
            }
            Said::AddressConflict { address } => Event::AddressConflict { address },
            Said::Datagram { socket, peer, window } => {
                let chunk = self.take(window)?;
                let of = |place: &Place| place.remote.is_some_and(|id| id.slot == u32::from(socket));
                let Some(index) = self.sockets.iter().position(of) else { return Ok(None) };
                let socket = UdpSocketId::new(index as u32, 0);
                Event::Datagram { socket, peer, chunk }
            }
            // Of a question whose asker has gone.
            Said::Answer { .. } => return Ok(None),
        }))
    }

    fn begin(&mut self, connection: ConnectionId, connected: bool) {
        if self.streams.len() <= connection.index() {
            self.streams.resize_with(connection.index() + 1, Stream::default);
        }
        self.streams[connection.index()].begin(connection.generation(), connected);
    }

    /// After the events of a turn: what waits for memory is tried again, what the service dropped is given back.
    pub(super) fn end_turn(&mut self) -> Result<(), Lost> {
        let Some(link) = &mut self.link else { return Ok(()) };
        link.events.release();
        link.release_dropped();
        link.reclaim(false)?;
        for _ in 0..self.blocked.len() {
            let Some(slot) = self.blocked.pop_front() else { break };
            let Some(stream) = self.streams.get_mut(slot as usize) else { continue };
            stream.blocked = false;
            let connection = ConnectionId::new(slot, stream.generation);
            if stream.open {
                self.pump(connection);
            }
        }
        let Some(link) = &mut self.link else { return Ok(()) };
        self.figures.bells += u64::from(link.flush()?);
        Ok(())
    }

    /// Gives the net core as much as memory and acknowledgements allow, then the end if it was asked for.
    fn pump(&mut self, connection: ConnectionId) {
        let to = self.remote_id(connection);
        let Some(stream) = self.streams.get_mut(connection.index()) else { return };
        let Some(link) = &mut self.link else { return };
        while link.waiting.len() < WAITING_MAX {
            let Some((is_large, offset, length)) = stream.fill_block(&link.small, &link.large) else { break };
            let offset = if is_large { link.small_bytes + offset } else { offset };
            let range = Range { offset: offset as u32, length: length as u32 };
            self.figures.commands += 1;
            link.give(Command::Send { connection: to, range });
        }
        if !stream.has_waiting() {
            match stream.finish.take() {
                Some(Finish::Shutdown) => link.give(Command::Shutdown { connection: to }),
                Some(Finish::Close) => link.give(Command::Close { connection: to }),
                None => {}
            }
        } else if !stream.is_in_flight_enough() && !stream.blocked {
            stream.blocked = true;
            self.blocked.push_back(connection.index() as u32);
        }
    }

    /// Whether there is something to do without an event.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        if !self.ends.is_empty() || !self.early.is_empty() {
            return Some(Time::ZERO);
        }
        self.timers.next_deadline()
    }

    /// Whether commands or bytes wait for room that nobody rings for.
    pub(super) fn is_held_back(&self) -> bool {
        !self.blocked.is_empty() || self.link.as_ref().is_some_and(|link| !link.waiting.is_empty())
    }

    pub(super) fn falls_asleep(&mut self) -> bool {
        self.link.as_mut().is_none_or(|link| link.events.falls_asleep())
    }

    pub(super) fn wakes(&mut self) {
        if let Some(link) = &self.link {
            link.events.wakes();
        }
    }

    /// Silences the bell; false: the net core is gone.
    pub(super) fn look_at_socket(&mut self) -> bool {
        self.link.as_ref().is_none_or(|link| bell::silence(&link.socket))
    }
}

/// The commands of [`Context`](crate::Context). Cold: the linked placement's way is laid out first.
impl Remote {
    #[cold]
    pub(crate) fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        let backlog = options.backlog as u32;
        let id = self.ask(|request| Command::Listen { request, local, backlog })?;
        let place = Place { local: Some(local), backlog: options.backlog, remote: Some(id) };
        self.listeners.push(place);
        Ok(ListenerId::new(self.listeners.len() as u32 - 1, 0))
    }

    #[cold]
    pub(crate) fn close_listener(&mut self, listener: ListenerId) -> Result<(), CommandError> {
        let place = self.listeners.get_mut(listener.index()).filter(|place| place.local.is_some());
        let remote = place.map(|place| (place.local.take(), place.remote.take()).1).ok_or(CommandError::Stale)?;
        if let Some(listener) = remote {
            self.give(Command::CloseListener { listener });
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        let id = self.ask(|request| Command::BindUdp { request, local })?;
        self.sockets.push(Place { local: Some(local), backlog: 0, remote: Some(id) });
        Ok(UdpSocketId::new(self.sockets.len() as u32 - 1, 0))
    }

    #[cold]
    pub(crate) fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        let place = self.sockets.get_mut(socket.index()).filter(|place| place.local.is_some());
        let remote = place.map(|place| (place.local.take(), place.remote.take()).1).ok_or(CommandError::Stale)?;
        if let Some(socket) = remote {
            self.give(Command::CloseUdp { socket });
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, CommandError> {
        if let Some(local) = options.local {
            self.give(Command::ConnectFrom { local });
        }
        let id = self.ask(|request| Command::Connect { request, peer })?;
        let connection = self.local_id(id);
        self.begin(connection, false);
        Ok(connection)
    }

    fn put(&mut self, connection: ConnectionId, piece: Piece) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        if !stream.connected || stream.ended {
            return Err(CommandError::NotSending);
        }
        if stream.piece_count() >= PIECES_MAX {
            return Err(CommandError::Full);
        }
        stream.put(piece);
        // One that waits has its turn; what is given in one turn may share a block.
        if !stream.blocked {
            stream.blocked = true;
            self.blocked.push_back(connection.index() as u32);
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), CommandError> {
        self.put(connection, Piece::Bytes(bytes))
    }

    #[cold]
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

    #[cold]
    pub(crate) fn consume(&mut self, connection: ConnectionId, chunk: Chunk) {
        let known = self.stream(connection).is_ok();
        let to = self.remote_id(connection);
        let Some(link) = &mut self.link else { return };
        // Dropped otherwise, and given back as such: its connection is gone, or its net core is.
        if known && let Some(frame) = link.lent.give_back(chunk.into_frame()) {
            self.give(Command::Consume { connection: to, frame });
        }
    }

    fn finish(&mut self, connection: ConnectionId, finish: Finish) -> Result<(), CommandError> {
        let stream = self.stream(connection)?;
        if finish == Finish::Shutdown && (stream.ended || !stream.connected) {
            return Err(CommandError::NotSending);
        }
        (stream.ended, stream.finish) = (true, Some(finish));
        stream.deaf |= finish == Finish::Close;
        self.pump(connection);
        Ok(())
    }

    #[cold]
    pub(crate) fn shutdown(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.finish(connection, Finish::Shutdown)
    }

    #[cold]
    pub(crate) fn close(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.finish(connection, Finish::Close)
    }

    /// Something of a connection that needs no more than to be said.
    fn tell(&mut self, connection: ConnectionId, command: impl FnOnce(Id) -> Command) -> Result<(), CommandError> {
        self.stream(connection)?;
        let to = self.remote_id(connection);
        self.give(command(to));
        Ok(())
    }

    #[cold]
    pub(crate) fn abort(&mut self, connection: ConnectionId) -> Result<(), CommandError> {
        self.tell(connection, |connection| Command::Abort { connection })
    }

    #[cold]
    pub(crate) fn set_no_delay(&mut self, connection: ConnectionId, on: bool) -> Result<(), CommandError> {
        self.tell(connection, |connection| Command::SetNoDelay { connection, on })
    }

    #[cold]
    pub(crate) fn set_cork(&mut self, connection: ConnectionId, on: bool) -> Result<(), CommandError> {
        // What was given before it goes under the old rule.
        self.pump(connection);
        self.tell(connection, |connection| Command::SetCork { connection, on })
    }

    #[cold]
    pub(crate) fn set_keepalive(
        &mut self,
        connection: ConnectionId,
        keepalive: Option<Keepalive>,
    ) -> Result<(), CommandError> {
        let ms = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX).max(1);
        let (idle_ms, interval_ms, probes_max) =
            keepalive.map_or((0, 0, 0), |keepalive| (ms(keepalive.idle), ms(keepalive.interval), keepalive.probes_max));
        self.tell(connection, |connection| Command::SetKeepalive { connection, idle_ms, interval_ms, probes_max })
    }

    #[cold]
    pub(crate) fn set_user_timeout(
        &mut self,
        connection: ConnectionId,
        timeout: Option<Duration>,
    ) -> Result<(), CommandError> {
        self.tell(connection, |connection| Command::SetUserTimeout { connection, timeout })
    }

    #[cold]
    pub(crate) fn advertise_user_timeout(
        &mut self,
        connection: ConnectionId,
        timeout: Duration,
    ) -> Result<(), CommandError> {
        self.tell(connection, |connection| Command::AdvertiseUserTimeout { connection, timeout })
    }

    #[cold]
    pub(crate) fn set_pacing_rate(
        &mut self,
        connection: ConnectionId,
        bytes_per_second: Option<u64>,
    ) -> Result<(), CommandError> {
        self.tell(connection, |connection| Command::SetPacingRate { connection, bytes_per_second })
    }

    /// The net core's slot of a socket; `None`: there is no net core now, and the datagram is lost.
    fn socket_slot(&self, socket: UdpSocketId) -> Result<Option<u16>, CommandError> {
        let place =
            self.sockets.get(socket.index()).filter(|place| place.local.is_some()).ok_or(CommandError::Stale)?;
        Ok(place.remote.and_then(|id| u16::try_from(id.slot).ok()))
    }

    #[cold]
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

    #[cold]
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
        } else if chunk.frame().is_of(link.lent.pool()) {
            let (start, length) = (chunk.frame().headroom() as u16, chunk.len() as u16);
            if let Some(frame) = link.lent.give_back(chunk.into_frame()) {
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

    #[cold]
    pub(crate) fn set_timer(&mut self, now: Time, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        self.timers.set(now, after, token)
    }

    #[cold]
    pub(crate) fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.timers.cancel(timer)
    }

    /// Prepared content stays with the service: none is kept ready in a card's memory.
    #[cold]
    pub(crate) fn prepared_pool(&self) -> &Pool {
        &self.nothing
    }

    #[cold]
    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            mac: MacAddress(self.attached.mac),
            mtu: self.attached.mtu,
            transmit_checksum: false,
            receive_checksum: ReceiveChecksum::Trust,
            transmit_buffers_max: 1,
            segmentation_bytes_max: 0,
            transmit_headroom: 0,
        }
    }
}
