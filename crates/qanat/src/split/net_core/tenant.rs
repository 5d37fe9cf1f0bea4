//! A service attached to a net core, from the net core's side: what it is lent, what it may ask of its card's stack.
//!
//! The service is not trusted. Each command is copied out of the ring once, decoded, checked against what was lent, and
//! done; one that cannot come from an honest client library is an [`Offence`], and its service is cut off. What it may keep
//! is bounded: received frames by its own card's (nobody else receives into them), events by [`EVENTS_WAITING_MAX`], after
//! which its card is not read until it takes some. Nothing it does makes the net core wait: its socket is written to without
//! blocking, whatever it has set on it.

pub(crate) mod export;

use crate::split::code;
use crate::split::doorbell;
use crate::split::handshake::ServiceStatus;
use crate::split::memory::{self, Extent, Files, Memory, ServiceFiles};
use crate::split::net_core::accept::Owners;
use crate::split::net_core::lending::{Copies, Lending, Lent};
use bytes::Bytes;
use qanat_abi::{
    BadMessage, Command, Consumer, ControlMemory, Event as AbiEvent, Id, Message, Producer, Rings, Violation,
    message::Window,
};
use qanat_nic::{Time, Vnic};
use qanat_stack::{
    Chunk, CommandError, ConnectOptions, ConnectionId, Event, Handover, ListenOptions, ListenerId, Stack, UdpSocketId,
};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Commands of one service before the others' turn.
const COMMANDS_PER_TURN: usize = 64;
/// Connections one service gives up before the others' turn: all its frames are looked through for each.
const YIELDS_PER_TURN: usize = 4;
/// Events of one service before the others' turn.
pub(crate) const EVENTS_PER_TURN: usize = 256;
/// Events that wait for room in the ring before its card is read no more.
pub(crate) const EVENTS_WAITING_MAX: usize = 16_384;
/// Events of a shared stack that wait for one service: then it gets no more connections, if others can have them.
const SLOW: usize = 1_024;
/// With so many it is cut off. An honest service never has so many: connections, frames and blocks bound them, except for
/// acknowledgements of single bytes.
const BACKLOG_MAX: usize = 262_144;
/// Answers that wait for room; beyond it no commands are taken.
const ANSWERS_WAITING_MAX: usize = 64;
/// So much of what is to be sent is prefetched. The processor itself goes on from there.
const LINE_BYTES: usize = 64;
const LINES_AHEAD: usize = 4;

/// Why a service is cut off.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Offence {
    #[error(transparent)]
    Ring(#[from] Violation),
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// A frame given back that it does not hold, or as another's.
    #[error("frame {0} given back, which it does not hold")]
    NotLent(u32),
    /// A window beyond what was lent.
    #[error("a window of frame {} beyond what was lent", .0.frame)]
    Window(Window),
    /// A range beyond its transmit memory.
    #[error("a range at {0} beyond its transmit memory")]
    Range(u32),
    /// It takes no events, of a stack that others need.
    #[error("it takes no events, and shares a card")]
    Deaf,
}

/// Counts.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Figures {
    events: u64,
    commands: u64,
    bells: u64,
    datagrams_without_credit: u64,
    datagrams_refused: u64,
    turns_held_back: u64,
    connections_moved: u64,
}

/// What a service's commands and events are about: its card's stack, of which it may have a share only.
pub(crate) struct House<'a> {
    pub now: Time,
    pub vnic: &'a mut dyn Vnic,
    pub stack: &'a mut Stack,
    pub owners: &'a mut Owners,
    /// Whose turn it is.
    pub seat: usize,
    /// Others have a share, too.
    pub is_shared: bool,
    /// Connections it gives up.
    pub yielded: &'a mut Vec<ConnectionId>,
}

impl House<'_> {
    /// A connection a service names; another's is as good as gone.
    #[inline]
    fn own(&self, id: Id) -> ConnectionId {
        let connection = connection_id(id);
        match !self.is_shared || self.owners.is_of(connection, self.seat) {
            true => connection,
            false => ConnectionId::new(u32::MAX, 0),
        }
    }

    /// A listener, or a share in one of another's.
    fn listen(&mut self, local: SocketAddr, options: ListenOptions) -> Result<ListenerId, CommandError> {
        let joined = self.is_shared.then(|| self.owners.join_listener(local, self.seat)).flatten();
        if let Some(id) = joined {
            return Ok(id);
        }
        let id = self.stack.listen(local, options)?;
        self.owners.add_listener(id, local, self.seat);
        Ok(id)
    }

    fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        let joined = self.is_shared.then(|| self.owners.join_socket(local, self.seat)).flatten();
        if let Some(id) = joined {
            return Ok(id);
        }
        let id = self.stack.bind_udp(local)?;
        self.owners.add_socket(id, local, self.seat);
        Ok(id)
    }

    /// Of a stack that is one service's: others may come.
    fn note_owner(&mut self, event: &Event) {
        match event {
            Event::Accepted { connection, .. } => self.owners.give(*connection, self.seat),
            Event::Closed { connection, .. } => self.owners.forget(*connection),
            _ => {}
        }
    }
}

/// An attached service.
pub(crate) struct Tenant {
    socket: OwnedFd,
    name: String,
    process: i32,
    user: u32,
    events: Producer<ControlMemory>,
    commands: Consumer<ControlMemory>,
    /// Answers the ring had no room for.
    answers: VecDeque<AbiEvent>,
    /// Events the ring had no room for, if the stack is shared: else they wait in the stack.
    waiting: VecDeque<AbiEvent>,
    /// Of the last event: most data acknowledges something.
    acked: Option<(ConnectionId, u32)>,
    /// It holds more frames than it may, and nothing more is received for it.
    is_starved: bool,
    /// Its transmit memory, read-only here. One handle each: a piece of it is a count more, not an allocation.
    small: Bytes,
    large: Bytes,
    files: Arc<Files>,
    lending: Lending,
    /// By slot.
    sockets: Vec<Option<UdpSocketId>>,
    /// Local address of the next connect.
    connect_from: Option<SocketAddr>,
    figures: Figures,
}

impl Tenant {
    /// Makes the memory shared with a service on `socket`; `lease` is closed when it is given back.
    pub(crate) fn new(
        socket: OwnedFd,
        (name, process, user): (String, i32, u32),
        extent: Extent,
        lease: Option<OwnedFd>,
    ) -> io::Result<(Tenant, ServiceFiles)> {
        let (rings, control) = Rings::create(extent.ring_messages)?;
        let (Memory { blocks: [small, large], files }, handed) = memory::make(control, extent, lease)?;
        let tenant = Tenant {
            socket,
            name,
            process,
            user,
            events: Producer::new(rings.events),
            commands: Consumer::new(rings.commands),
            answers: VecDeque::with_capacity(ANSWERS_WAITING_MAX),
            waiting: VecDeque::new(),
            acked: None,
            is_starved: false,
            small,
            large,
            files,
            lending: Lending::new(extent.receive_frames),
            sockets: Vec::new(),
            connect_from: None,
            figures: Figures::default(),
        };
        Ok((tenant, handed))
    }

    /// Takes and does the next command. Whether there was one.
    #[inline]
    pub(crate) fn obey(&mut self, house: &mut House<'_>) -> Result<bool, Offence> {
        if self.answers.len() >= ANSWERS_WAITING_MAX {
            return Ok(false);
        }
        let Some(words) = self.commands.pop() else { return Ok(false) };
        self.figures.commands += 1;
        self.command(house, Command::decode(words)?)?;
        Ok(true)
    }

    /// Its commands of this turn. Whether there were any.
    pub(crate) fn take_commands(&mut self, house: &mut House<'_>) -> Result<bool, Offence> {
        self.wake_service();
        let mut busy = false;
        for _ in 0..COMMANDS_PER_TURN {
            if !self.obey(house)? {
                break;
            }
            busy = true;
            if house.yielded.len() >= YIELDS_PER_TURN {
                break;
            }
        }
        self.commands.release();
        Ok(busy)
    }

    /// Moves answers and events into the ring, as far as there is room.
    pub(crate) fn tell(&mut self, house: &mut House<'_>) -> Result<bool, Offence> {
        let mut told = self.tell_answers()?;
        // Most data acknowledges something: told in one message, which is told before whatever else comes.
        let mut acked: Option<(ConnectionId, u32)> = None;
        for _ in 0..EVENTS_PER_TURN {
            if !self.events.has_room(2)? {
                break;
            }
            let Some(event) = house.stack.next_event() else { break };
            told = true;
            if let Some((of, bytes)) = acked.take() {
                if let Event::Data { connection, chunk } = event {
                    let bytes = if of == connection { bytes } else { self.say_acked(of, bytes)? };
                    self.say_data(house, connection, chunk, bytes)?;
                    continue;
                }
                self.say_acked(of, bytes)?;
            }
            match event {
                Event::Acked { connection, bytes } => acked = Some((connection, bytes)),
                Event::Data { connection, chunk } => self.say_data(house, connection, chunk, 0)?,
                event => {
                    house.note_owner(&event);
                    if let Some(said) = self.event(event) {
                        self.say(said)?;
                    }
                }
            }
        }
        if let Some((connection, bytes)) = acked {
            self.say_acked(connection, bytes)?;
        }
        self.events.publish();
        Ok(told)
    }

    /// Is told of an event of a shared stack: in the ring, or behind those that wait for room there.
    pub(crate) fn hear(&mut self, house: &mut House<'_>, event: Event) {
        let acked = self.acked.take();
        let said = match (event, acked) {
            (Event::Acked { connection, bytes }, None) => return self.acked = Some((connection, bytes)),
            (Event::Data { connection, chunk }, acked) => {
                let own = acked.filter(|(of, _)| *of == connection).map_or(0, |(_, bytes)| bytes);
                acked.filter(|(of, _)| *of != connection).into_iter().for_each(|acked| self.put_acked(acked));
                match self.lend_stream(house, connection, chunk) {
                    Some(window) => Some(AbiEvent::Data { connection: id(connection), window, acked: own }),
                    // As in `say_data`.
                    None => {
                        _ = house.stack.abort(house.now, connection);
                        return;
                    }
                }
            }
            (event, acked) => {
                acked.into_iter().for_each(|acked| self.put_acked(acked));
                match event {
                    Event::Acked { connection, bytes } => return self.acked = Some((connection, bytes)),
                    event => self.event(event),
                }
            }
        };
        said.into_iter().for_each(|said| self.put(said));
    }

    fn put_acked(&mut self, (connection, bytes): (ConnectionId, u32)) {
        self.put(AbiEvent::Acked { connection: id(connection), bytes });
    }

    fn put(&mut self, said: AbiEvent) {
        self.figures.events += 1;
        let is_first = self.answers.is_empty() && self.waiting.is_empty();
        // A ring that is out of order is an offence when it is told next.
        if !is_first || !matches!(self.events.push(said.encode()), Ok(true)) {
            self.waiting.push_back(said);
        }
    }

    /// Takes back what was lent of a connection that it gives up, in order: it has not looked at any of it. What is to be told
    /// of it is told no more.
    pub(crate) fn reclaim(&mut self, connection: ConnectionId) -> Vec<Chunk> {
        let of = id(connection);
        self.acked = self.acked.filter(|(acked, _)| *acked != connection);
        self.waiting.retain(|said| match said {
            AbiEvent::Data { connection, .. }
            | AbiEvent::Acked { connection, .. }
            | AbiEvent::PeerClosed { connection } => *connection != of,
            _ => true,
        });
        self.lending.reclaim(connection)
    }

    /// Has a connection that another gave up, with what that one did not look at.
    pub(crate) fn adopt(&mut self, connection: ConnectionId, listener: ListenerId, it: &Handover, rest: Vec<Chunk>) {
        self.figures.connections_moved += 1;
        let own = id(connection);
        self.acked.take().into_iter().for_each(|acked| self.put_acked(acked));
        self.put(AbiEvent::Accepted { connection: own, listener: listener.index() as u16, peer: it.peer });
        let unacknowledged = u32::try_from(it.unacknowledged).unwrap_or(u32::MAX);
        self.put(AbiEvent::Moved { connection: own, unacknowledged });
        for chunk in rest {
            // In the same frames, or copies, which are nobody's now: there is a place for each.
            if let Some(window) = self.lending.lend(chunk, Some(connection)) {
                self.put(AbiEvent::Data { connection: own, window, acked: 0 });
            }
        }
        if it.has_peer_closed {
            self.put(AbiEvent::PeerClosed { connection: own });
        }
    }

    /// Is told how many others share a listener with it.
    pub(crate) fn tell_others(&mut self, count: u32) {
        self.answers.push_back(AbiEvent::Moved { connection: Id::NONE, unacknowledged: count });
    }

    /// What it was told of a shared stack is to be seen.
    pub(crate) fn has_heard(&mut self) -> Result<(), Offence> {
        self.acked.take().into_iter().for_each(|acked| self.put_acked(acked));
        self.tell_answers()?;
        self.events.publish();
        if self.waiting.len() > BACKLOG_MAX { Err(Offence::Deaf) } else { Ok(()) }
    }

    /// It takes fewer events than it has.
    pub(crate) fn is_slow(&self) -> bool {
        self.waiting.len() > SLOW
    }

    /// It is one of so many services from now on.
    pub(crate) fn share(&mut self, services: u32) {
        self.lending.share(services);
    }

    /// It may hold all there are: to see what credits are good for.
    #[cfg(test)]
    pub(crate) fn without_credits(&mut self) {
        self.lending.without_credits();
    }

    /// Where small messages may be copied if it keeps many.
    pub(crate) fn use_copies(&mut self, copies: &Copies) {
        self.lending.use_copies(copies);
    }

    /// Whether it has just begun, or ceased, to hold more frames than it may.
    pub(crate) fn starves(&mut self) -> Option<bool> {
        let ((frames, _), credits) = (self.lending.counts(), self.lending.credits());
        let is_over = if self.is_starved { frames > credits / 4 * 3 } else { frames > credits };
        (is_over != self.is_starved).then(|| {
            self.is_starved = is_over;
            is_over
        })
    }

    pub(crate) fn is_starved(&self) -> bool {
        self.is_starved
    }

    fn tell_answers(&mut self) -> Result<bool, Offence> {
        let mut told = false;
        for queue in [&mut self.answers, &mut self.waiting] {
            while let Some(said) = queue.front() {
                if !self.events.push(said.encode())? {
                    return Ok(told);
                }
                queue.pop_front();
                told = true;
            }
        }
        Ok(told)
    }

    /// There is room.
    #[inline]
    fn say(&mut self, said: AbiEvent) -> Result<(), Offence> {
        self.figures.events += 1;
        self.events.push(said.encode())?;
        Ok(())
    }

    /// Bytes still to be told of: none.
    fn say_acked(&mut self, connection: ConnectionId, bytes: u32) -> Result<u32, Offence> {
        self.say(AbiEvent::Acked { connection: id(connection), bytes })?;
        Ok(0)
    }

    #[inline]
    fn say_data(
        &mut self,
        house: &mut House<'_>,
        connection: ConnectionId,
        chunk: Chunk,
        acked: u32,
    ) -> Result<(), Offence> {
        match self.lend_stream(house, connection, chunk) {
            Some(window) => self.say(AbiEvent::Data { connection: id(connection), window, acked }),
            None => {
                // Never: received data is in received frames. But bytes must not be left out of a stream.
                _ = house.stack.abort(house.now, connection);
                Ok(())
            }
        }
    }

    /// Whether events wait for room in the ring: nobody rings when there is some again.
    pub(crate) fn is_held_back(&self) -> bool {
        !self.answers.is_empty() || !self.waiting.is_empty()
    }

    /// What is said of an event; `None`: nothing, the event is lost and counted.
    fn event(&mut self, event: Event) -> Option<AbiEvent> {
        Some(match event {
            Event::Accepted { connection, listener, peer } => {
                AbiEvent::Accepted { connection: id(connection), listener: listener.index() as u16, peer }
            }
            Event::Connected { connection } => AbiEvent::Connected { connection: id(connection) },
            Event::PeerClosed { connection } => AbiEvent::PeerClosed { connection: id(connection) },
            Event::Closed { connection, why } => {
                AbiEvent::Closed { connection: id(connection), why: code::of_reason(why) }
            }
            Event::AddressConflict { address, holder } => AbiEvent::AddressConflict { address, holder },
            Event::Datagram { socket, peer, chunk } => {
                let copy = self.lending.copy_of(&chunk);
                if copy.is_none() && self.lending.is_full_of_datagrams() {
                    self.figures.datagrams_without_credit += 1;
                    return None;
                }
                let window = self.lending.lend(copy.unwrap_or(chunk), None)?;
                AbiEvent::Datagram { socket: socket.index() as u16, peer, window }
            }
            // The service's timers are its own affair; data and acknowledgements are `tell`'s; nobody asks for urgent ones.
            Event::Timer { .. } | Event::Data { .. } | Event::Acked { .. } | Event::Urgent { .. } => return None,
            // A stack has no disks.
            Event::Read { .. } | Event::Written { .. } | Event::Flushed { .. } | Event::Zeroed { .. } => return None,
        })
    }

    /// Lends bytes of a stream, or a copy of them: then their frame is free.
    #[inline]
    fn lend_stream(&mut self, house: &mut House<'_>, connection: ConnectionId, chunk: Chunk) -> Option<Window> {
        let copy = self.lending.copy_of(&chunk);
        if copy.is_some() {
            house.stack.release_frame(house.now, connection);
        }
        self.lending.lend(copy.unwrap_or(chunk), Some(connection))
    }

    fn take_back(&mut self, frame: u32) -> Result<Lent, Offence> {
        self.lending.take_back(frame).ok_or(Offence::NotLent(frame))
    }

    fn command(&mut self, house: &mut House<'_>, command: Command) -> Result<(), Offence> {
        // A handle that is gone is no offence: its end may have crossed the command on the way.
        match command {
            Command::SendChunkTo { socket, peer, window } => {
                return self.send_chunk_to(house, socket, peer, window);
            }
            Command::Consume { connection, frame } => self.consume(house, connection_id(connection), frame)?,
            Command::Send { connection, range, consumed } => {
                if let Some(frame) = consumed {
                    self.consume(house, connection_id(connection), frame)?;
                }
                let connection = house.own(connection);
                let bytes = self.transmit_memory(range.offset, range.length)?;
                // The service has just written them: they are to be here when they are sent, at the end of the turn.
                bytes.chunks(LINE_BYTES).take(LINES_AHEAD).for_each(qanat_nic::prefetch);
                match house.stack.send(house.now, connection, bytes) {
                    Ok(()) | Err(CommandError::Stale) => {}
                    // Bytes that cannot be queued must not be left out of the middle of a stream.
                    Err(_) => _ = house.stack.abort(house.now, connection),
                }
            }
            Command::SendTo { socket, peer, offset, length } => {
                let bytes = self.transmit_memory(offset, length.into())?;
                let sent = match self.socket(socket) {
                    Some(socket) => house.stack.send_to(house.now, house.vnic, socket, peer, &bytes),
                    None => Err(CommandError::Stale),
                };
                self.figures.datagrams_refused += u64::from(sent.is_err());
            }
            Command::Release { count, frames } => {
                for frame in frames.into_iter().take(count.into()) {
                    self.take_back(frame)?;
                }
            }
            Command::Listen { .. } | Command::BindUdp { .. } | Command::Connect { .. } => self.open(house, command),
            Command::ConnectFrom { local } => self.connect_from = Some(local),
            Command::Yield { connection } => house.yielded.push(connection_id(connection)),
            Command::CloseListener { listener } => {
                let listener = ListenerId::new(listener.slot, listener.generation);
                if house.owners.leave_listener(listener, house.seat) {
                    _ = house.stack.close_listener(listener);
                }
            }
            Command::CloseUdp { socket } => {
                let socket = UdpSocketId::new(socket.slot, socket.generation);
                if let Some(own) = self.sockets.get_mut(socket.index()).filter(|own| **own == Some(socket)) {
                    *own = None;
                }
                if house.owners.leave_socket(socket, house.seat) {
                    _ = house.stack.close_udp(socket);
                }
            }
            command => adjust(house, command),
        }
        Ok(())
    }

    fn consume(&mut self, house: &mut House<'_>, connection: ConnectionId, frame: u32) -> Result<(), Offence> {
        let lent = self.take_back(frame)?;
        if lent.stream != Some(connection) {
            return Err(Offence::NotLent(frame));
        }
        match self.lending.is_copy(&lent.chunk) {
            false => house.stack.consume(house.now, connection, lent.chunk),
            true => house.stack.consume_released(house.now, connection, lent.chunk.len() as u32),
        }
        Ok(())
    }

    /// Commands that make something, and are answered.
    fn open(&mut self, house: &mut House<'_>, command: Command) {
        let (request, outcome) = match command {
            Command::Listen { request, local, backlog } => {
                let outcome = house.listen(local, ListenOptions { backlog: backlog as usize });
                (request, outcome.map(|id| (id.index(), id.generation())))
            }
            Command::BindUdp { request, local } => {
                let outcome = house.bind_udp(local);
                if let Ok(id) = outcome {
                    if self.sockets.len() <= id.index() {
                        self.sockets.resize(id.index() + 1, None);
                    }
                    self.sockets[id.index()] = Some(id);
                }
                (request, outcome.map(|id| (id.index(), id.generation())))
            }
            Command::Connect { request, peer } => {
                let options = ConnectOptions { local: self.connect_from.take(), ..ConnectOptions::default() };
                let outcome = house.stack.connect(house.now, peer, options);
                if let Ok(connection) = outcome {
                    house.owners.give(connection, house.seat);
                }
                (request, outcome.map(|id| (id.index(), id.generation())))
            }
            _ => return,
        };
        self.answers.push_back(match outcome {
            Ok((slot, generation)) => AbiEvent::Answer { request, error: 0, id: Id { slot: slot as u32, generation } },
            Err(error) => AbiEvent::Answer { request, error: code::of_error(error), id: Id::default() },
        });
    }

    fn send_chunk_to(
        &mut self,
        house: &mut House<'_>,
        socket: u16,
        peer: SocketAddr,
        window: Window,
    ) -> Result<(), Offence> {
        let mut chunk = self.take_back(window.frame)?.chunk;
        let (start, length) = (chunk.frame().headroom(), chunk.len());
        let skipped = usize::from(window.start).checked_sub(start).ok_or(Offence::Window(window))?;
        if skipped + usize::from(window.length) > length {
            return Err(Offence::Window(window));
        }
        if skipped > 0 {
            chunk.trim_front(skipped);
        }
        if chunk.len() > usize::from(window.length) {
            chunk.truncate(window.length.into());
        }
        let sent = match self.socket(socket) {
            Some(socket) if self.lending.is_only_read(&chunk) => {
                house.stack.send_to(house.now, house.vnic, socket, peer, chunk.bytes())
            }
            Some(socket) => house.stack.send_chunk_to(house.now, house.vnic, socket, peer, chunk),
            None => Err(CommandError::Stale),
        };
        self.figures.datagrams_refused += u64::from(sent.is_err());
        Ok(())
    }

    fn socket(&self, slot: u16) -> Option<UdpSocketId> {
        self.sockets.get(usize::from(slot)).copied().flatten()
    }

    /// A range of the service's transmit memory: within the small blocks, or within the large ones after them.
    fn transmit_memory(&self, offset: u32, length: u32) -> Result<Bytes, Offence> {
        let (start, length) = (offset as usize, length as usize);
        let (memory, start) = match start.checked_sub(self.small.len()) {
            None => (&self.small, start),
            Some(start) => (&self.large, start),
        };
        if start + length > memory.len() {
            return Err(Offence::Range(offset));
        }
        Ok(memory.slice(start..start + length))
    }

    /// Wakes the service if it sleeps and was told something.
    #[inline]
    fn wake_service(&mut self) {
        if self.events.must_wake() {
            self.figures.bells += 1;
            doorbell::ring(&self.socket);
        }
    }

    /// Silences the bell; false: the service is gone.
    pub(crate) fn look_at_socket(&mut self) -> bool {
        doorbell::silence(&self.socket)
    }

    pub(crate) fn falls_asleep(&mut self) -> bool {
        self.wake_service();
        self.commands.falls_asleep()
    }

    pub(crate) fn wakes(&mut self) {
        self.commands.wakes();
    }

    pub(crate) fn socket_fd(&self) -> &OwnedFd {
        &self.socket
    }

    /// Answers the service's first command, which is to be this, before it comes.
    #[cfg(feature = "harness")]
    pub(crate) fn expect_listen(&mut self, house: &mut House<'_>, local: SocketAddr) -> Result<bool, Offence> {
        self.open(house, Command::Listen { request: 1, local, backlog: 0 });
        self.tell(house)
    }

    /// Received frames, and copies, it holds.
    #[cfg(any(test, feature = "harness"))]
    pub(crate) fn lent_count(&self) -> u32 {
        let (frames, copies) = self.lending.counts();
        frames + copies
    }

    /// Nothing was received for it, because it takes no events.
    pub(crate) fn note_held_back(&mut self) {
        self.figures.turns_held_back += 1;
    }

    /// How it is; with so many connections, and so many events waiting in the stack.
    pub(crate) fn status(&mut self, vnic: &dyn Vnic, connections: u64, waiting: u64) -> ServiceStatus {
        let statistics = vnic.statistics();
        ServiceStatus {
            name: self.name.clone(),
            process: self.process,
            user: self.user,
            credits_used: self.lending.counts().0,
            credits: self.lending.credits(),
            copies_used: self.lending.counts().1,
            events_waiting: (self.events.depth().unwrap_or(u32::MAX), waiting + self.waiting.len() as u64),
            connections,
            events: self.figures.events,
            event_batches: self.events.batches(),
            commands: self.figures.commands,
            bells: self.figures.bells,
            datagrams_without_credit: self.figures.datagrams_without_credit,
            datagrams_refused: self.figures.datagrams_refused,
            turns_held_back: self.figures.turns_held_back,
            connections_moved: self.figures.connections_moved,
            receive_no_buffer: statistics.receive_no_buffer,
        }
    }
}

/// Commands that change a connection.
fn adjust(house: &mut House<'_>, command: Command) {
    let now = house.now;
    // Refused by the stack as it would be to a linked service, which is told at once; here its end is on the way.
    let _ = match command {
        Command::Shutdown { connection } => house.stack.shutdown(now, house.own(connection)),
        Command::Close { connection } => house.stack.close(now, house.own(connection)),
        Command::Abort { connection } => house.stack.abort(now, house.own(connection)),
        Command::Set { connection, setting } => house.stack.set(now, house.own(connection), setting),
        _ => Ok(()),
    };
}

fn id(connection: ConnectionId) -> Id {
    Id { slot: connection.index() as u32, generation: connection.generation() }
}

fn connection_id(id: Id) -> ConnectionId {
    ConnectionId::new(id.slot, id.generation)
}
