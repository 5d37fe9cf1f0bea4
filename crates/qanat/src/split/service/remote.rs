//! What stands for one net core's stack in a service's process: commands become messages, messages become events.

use crate::split::code;
use crate::split::doorbell;
use crate::split::doorbell::Heard;
use crate::split::handshake::{Attached, CONNECTIONS_MAX, Reply, SMALL_BLOCK_BYTES};
use crate::split::service::link::{Link, Lost, WAITING_MAX};
use crate::split::service::places::Places;
use crate::split::service::streams::{Finish, Lent, Stream};
use crate::timers::Timers;
use qanat_abi::message::{Range, Window};
use qanat_abi::{Command, Event as AbiEvent, Id, Message};
use qanat_control::protocol::understand;
use qanat_nic::{Pool, Region, Time};
use qanat_stack::{Chunk, CloseReason, CommandError, ConnectionId, Event, ListenerId, UdpSocketId};
use qanat_wire::ethernet::MacAddress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long a net core may take for an answer: it is never busy for more than a fraction of it.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Events that come while an answer is waited for: more than the net core's ring and its stack may hold.
const EARLY_MAX: usize = 65_536;
/// Bits of a connection's generation that tell one net core from the next.
const EPOCH_SHIFT: u32 = 26;

/// What a service's process has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteFigures {
    /// Events taken.
    pub events: u64,
    /// Commands given.
    pub commands: u64,
    /// In so many batches, to the net core there is now.
    pub command_batches: u64,
    /// Times the net core was woken.
    pub bells: u64,
    /// Datagrams dropped because transmit memory, or the command ring, was full.
    pub datagrams_dropped: u64,
    /// Times a net core was lost.
    pub net_cores_lost: u64,
}

/// The service's stack.
pub struct Remote {
    pub(crate) link: Option<Link>,
    pub(crate) attached: Attached,
    epoch: u32,
    /// By the net core's slot: as many as were asked for, whatever it says.
    pub(crate) streams: Vec<Stream>,
    connections_max: usize,
    /// Connections whose turn comes at the end of this one.
    queued: VecDeque<u32>,
    pub(crate) listeners: Places<ListenerId>,
    pub(crate) sockets: Places<UdpSocketId>,
    pub(crate) timers: Timers,
    /// Events not yet passed on: taken while an answer was waited for, or the ends that a lost net core means.
    pub(crate) early: VecDeque<Event>,
    /// Memory of connections given up to others, from which the net core may still send.
    pub(crate) kept: Vec<Lent>,
    /// How many others share a listener, as far as asked for.
    pub(crate) others: Option<u32>,
    /// What the last message said besides.
    pub(crate) second: Option<Event>,
    /// The net core broke the rules while an answer was waited for.
    pub(crate) broken: bool,
    requests: u32,
    /// Why there is to be no other net core in this one's place.
    pub(crate) last_word: Option<String>,
    pub(crate) nothing: Pool,
    /// The service has others, whose cards may have addresses that this one's has not.
    is_one_of_several: bool,
    pub(crate) figures: RemoteFigures,
    /// Addresses of the card that are other hosts', and whose.
    lost_addresses: Vec<(IpAddr, MacAddress)>,
}

impl Remote {
    /// For so many connections at most.
    pub(crate) fn new(connections_max: usize, is_one_of_several: bool) -> std::io::Result<Remote> {
        let nothing = Region::new(1, SMALL_BLOCK_BYTES)?.pool(0);
        Ok(Remote {
            link: None,
            attached: Attached::default(),
            epoch: 0,
            streams: Vec::new(),
            connections_max: connections_max.clamp(1, CONNECTIONS_MAX as usize),
            queued: VecDeque::new(),
            listeners: Places::default(),
            sockets: Places::default(),
            timers: Timers::default(),
            early: VecDeque::new(),
            kept: Vec::new(),
            others: None,
            second: None,
            broken: false,
            requests: 0,
            last_word: None,
            nothing: nothing.ok_or(std::io::ErrorKind::InvalidInput)?,
            is_one_of_several,
            figures: RemoteFigures::default(),
            lost_addresses: Vec::new(),
        })
    }

    pub(crate) fn figures(&self) -> RemoteFigures {
        let batches = self.link.as_ref().map_or(0, Link::batches);
        RemoteFigures { command_batches: batches, ..self.figures }
    }

    pub(crate) fn attached(&self) -> &Attached {
        &self.attached
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(|link| link.socket.as_fd())
    }

    /// A net core's end: every connection is closed, listeners and sockets wait for the next.
    pub(crate) fn lost(&mut self) {
        if self.link.take().is_none() {
            return;
        }
        self.second = None;
        self.kept.clear();
        self.figures.net_cores_lost += 1;
        self.broken = false;
        self.queued.clear();
        for (slot, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.open) {
            let connection = ConnectionId::new(slot as u32, stream.generation);
            self.early.push_back(Event::Closed { connection, why: CloseReason::Aborted });
            stream.end();
        }
        self.listeners.net_core_is_lost();
        self.sockets.net_core_is_lost();
        self.epoch += 1;
    }

    /// The next net core: listeners and sockets are made anew there.
    pub(crate) fn attach(&mut self, link: Link, attached: Attached) -> Result<(), CommandError> {
        // Of a shared card's slots any may be ours.
        self.connections_max = self.connections_max.max(attached.connections.min(CONNECTIONS_MAX) as usize);
        (self.link, self.attached) = (Some(link), attached);
        for (handle, local, backlog) in self.listeners.all() {
            if !self.is_for(local) {
                continue;
            }
            let id = self.ask(|request| Command::Listen { request, local, backlog })?;
            self.listeners.found(handle, id);
        }
        for (handle, local, _) in self.sockets.all() {
            if !self.is_for(local) {
                continue;
            }
            let id = self.ask(|request| Command::BindUdp { request, local })?;
            self.sockets.found(handle, id);
        }
        Ok(())
    }

    fn has_lost(&self, address: IpAddr) -> bool {
        self.lost_addresses.iter().any(|(lost, _)| *lost == address)
    }

    /// The first address of the card that was found to be another host's, and whose, once none of them is left.
    pub(crate) fn lost_address(&self) -> Option<(IpAddr, MacAddress)> {
        let own = &self.attached.addresses;
        let are_all_lost = !own.is_empty() && own.iter().all(|(address, _)| self.has_lost(*address));
        self.lost_addresses.first().copied().filter(|_| are_all_lost)
    }

    /// Whether the card has that address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.attached.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Whether something at that address is to be made here, and not on another net core alone.
    fn is_for(&self, local: SocketAddr) -> bool {
        !self.is_one_of_several || local.ip().is_unspecified() || self.has(local.ip())
    }

    /// Whether a chunk is in memory that is shared with this net core.
    pub(crate) fn has_frame(&self, chunk: &Chunk) -> bool {
        let frame = chunk.frame();
        self.link.as_ref().is_some_and(|link| link.received.has(frame) || link.offset(frame).is_some())
    }

    #[inline]
    pub(crate) fn give(&mut self, command: Command) {
        if let Some(link) = &mut self.link {
            self.figures.commands += 1;
            link.give(command);
        }
    }

    /// A command that is answered: waits for it. Events that come before are kept.
    pub(crate) fn ask(&mut self, command: impl FnOnce(u32) -> Command) -> Result<Id, CommandError> {
        self.requests = self.requests.wrapping_add(1);
        let request = self.requests;
        self.give(command(request));
        let outcome = self.answer(request);
        self.broken |= outcome.is_err();
        let (error, id) = outcome.map_err(|Lost| CommandError::Unreachable)?;
        code::to_error(error).map_or(Ok(id), Err)
    }

    fn answer(&mut self, request: u32) -> Result<(u8, Id), Lost> {
        let deadline = Instant::now() + ANSWER_PATIENCE;
        loop {
            let link = self.link.as_mut().ok_or(Lost)?;
            link.flush()?;
            self.figures.bells += u64::from(link.wake());
            while let Some(said) = self.hear()? {
                if let AbiEvent::Answer { request: of, error, id } = said
                    && of == request
                {
                    return Ok((error, id));
                }
                let first = self.understand(said)?;
                self.early.extend(first.into_iter().chain(self.second.take()));
            }
            let link = self.link.as_mut().ok_or(Lost)?;
            if Instant::now() > deadline || self.early.len() > EARLY_MAX {
                return Err(Lost);
            }
            if link.events.falls_asleep() {
                let (mut fds, patience) = ([PollFd::new(&link.socket, PollFlags::IN)], Duration::from_millis(100));
                let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
                let _ = poll(&mut fds, Some(&patience));
                link.events.wakes();
                if !doorbell::silence(&link.socket) {
                    return Err(Lost);
                }
            }
        }
    }

    /// What the net core says next.
    #[inline]
    fn hear(&mut self) -> Result<Option<AbiEvent>, Lost> {
        let Some(link) = &mut self.link else { return Ok(None) };
        let Some(words) = link.events.pop() else { return Ok(None) };
        link.ask_for_next();
        self.figures.events += 1;
        AbiEvent::decode(words).map(Some).map_err(|_| Lost)
    }

    #[inline]
    pub(crate) fn local_id(&self, id: Id) -> ConnectionId {
        ConnectionId::new(id.slot, id.generation.wrapping_add(self.epoch << EPOCH_SHIFT))
    }

    #[inline]
    pub(crate) fn remote_id(&self, id: ConnectionId) -> Id {
        Id { slot: id.index() as u32, generation: id.generation().wrapping_sub(self.epoch << EPOCH_SHIFT) }
    }

    #[inline]
    pub(crate) fn stream(&mut self, id: ConnectionId) -> Result<&mut Stream, CommandError> {
        let stream = self.streams.get_mut(id.index()).ok_or(CommandError::Stale)?;
        if stream.open && stream.generation == id.generation() { Ok(stream) } else { Err(CommandError::Stale) }
    }

    /// The next event.
    pub(crate) fn next_event(&mut self, now: Time) -> Result<Option<Event>, Lost> {
        if let Some(event) = self.early.pop_front() {
            return Ok(Some(event));
        }
        if let Some(event) = self.second.take() {
            return Ok(Some(event));
        }
        if self.broken {
            return Err(Lost);
        }
        while let Some(said) = self.hear()? {
            if let Some(event) = self.understand(said)? {
                return Ok(Some(event));
            }
        }
        let expired = self.timers.expired(now);
        Ok(expired.map(|(id, token)| Event::Timer { id, token }))
    }

    #[inline]
    fn take(&mut self, window: Window) -> Result<Chunk, Lost> {
        let link = self.link.as_mut().ok_or(Lost)?;
        let frame = link.received.take(window).ok_or(Lost)?;
        Ok(Chunk::new(frame))
    }

    fn understand(&mut self, said: AbiEvent) -> Result<Option<Event>, Lost> {
        if self.is_of_yielded(&said) {
            return Ok(None);
        }
        Ok(Some(match said {
            AbiEvent::Accepted { connection, listener, peer } => {
                let connection = self.local_id(connection);
                self.begin(connection, true)?;
                match self.listeners.handle_of(listener.into()) {
                    Some(listener) => Event::Accepted { connection, listener, peer },
                    None => {
                        // Of a listener just closed.
                        _ = self.abort(connection);
                        return Ok(None);
                    }
                }
            }
            AbiEvent::Connected { connection } => {
                let connection = self.local_id(connection);
                if let Ok(stream) = self.stream(connection) {
                    stream.connected = true;
                }
                Event::Connected { connection }
            }
            AbiEvent::Data { connection, window, acked } => {
                let (connection, chunk) = (self.local_id(connection), self.take(window)?);
                let is_deaf = self.stream(connection).is_ok_and(|stream| {
                    stream.held += u32::from(!stream.deaf);
                    stream.deaf
                });
                let data = (!is_deaf).then_some(Event::Data { connection, chunk });
                if acked == 0 {
                    return Ok(data);
                }
                self.second = data;
                self.acknowledged(connection, acked)
            }
            AbiEvent::Acked { connection, bytes } => {
                let connection = self.local_id(connection);
                self.acknowledged(connection, bytes)
            }
            AbiEvent::PeerClosed { connection } => Event::PeerClosed { connection: self.local_id(connection) },
            AbiEvent::Closed { connection, why } => {
                let connection = self.local_id(connection);
                let to = self.remote_id(connection);
                if let Ok(stream) = self.stream(connection) {
                    let consumed = stream.consumed.take();
                    stream.end();
                    if let Some(frame) = consumed {
                        self.give(Command::Consume { connection: to, frame });
                    }
                }
                Event::Closed { connection, why: code::to_reason(why) }
            }
            AbiEvent::Moved { connection, unacknowledged } => {
                self.moved(connection, unacknowledged);
                return Ok(None);
            }
            AbiEvent::AddressConflict { address, holder } => {
                // Those formed from advertised prefixes are replaced, and not named by the card.
                if self.has(address) && !self.has_lost(address) {
                    self.lost_addresses.push((address, holder));
                }
                Event::AddressConflict { address, holder }
            }
            AbiEvent::Datagram { socket, peer, window } => {
                let chunk = self.take(window)?;
                let Some(socket) = self.sockets.handle_of(socket.into()) else { return Ok(None) };
                Event::Datagram { socket, peer, chunk }
            }
            // Of a question whose asker has gone.
            AbiEvent::Answer { .. } => return Ok(None),
        }))
    }

    /// Blocks come home, which what waits may have.
    #[inline]
    fn acknowledged(&mut self, connection: ConnectionId, bytes: u32) -> Event {
        let mut bytes = bytes;
        if let Ok(stream) = self.stream(connection) {
            bytes = stream.acknowledged(bytes as usize) as u32;
            if stream.has_waiting() {
                self.queue(connection);
            }
        }
        Event::Acked { connection, bytes }
    }

    /// Its turn comes at the end of this one.
    #[inline]
    pub(crate) fn queue(&mut self, connection: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(connection.index()).filter(|stream| !stream.queued) {
            stream.queued = true;
            self.queued.push_back(connection.index() as u32);
        }
    }

    /// A new connection; no more of them than were asked for.
    pub(crate) fn begin(&mut self, connection: ConnectionId, connected: bool) -> Result<(), Lost> {
        if connection.index() >= self.connections_max {
            return Err(Lost);
        }
        if self.streams.len() <= connection.index() {
            self.streams.resize_with(connection.index() + 1, Stream::default);
        }
        self.streams[connection.index()].begin(connection.generation(), connected);
        Ok(())
    }

    /// After the events of a turn: what waits for memory is tried again, what the service dropped is given back.
    pub(crate) fn end_turn(&mut self) -> Result<(), Lost> {
        let Some(link) = &mut self.link else { return Ok(()) };
        link.events.release();
        link.release_dropped();
        link.reclaim(false)?;
        for _ in 0..self.queued.len() {
            let Some(slot) = self.queued.pop_front() else { break };
            let Some(stream) = self.streams.get_mut(slot as usize) else { continue };
            stream.queued = false;
            let connection = ConnectionId::new(slot, stream.generation);
            if stream.open {
                self.pump(connection);
            }
        }
        self.link.as_mut().map_or(Ok(()), Link::flush)
    }

    /// Wakes the net core if it sleeps and was told something.
    #[inline]
    pub(crate) fn wake_net_core(&mut self) {
        if let Some(link) = &mut self.link {
            self.figures.bells += u64::from(link.wake());
        }
    }

    /// Gives the net core as much as memory and acknowledgements allow, then the end if it was asked for.
    pub(crate) fn pump(&mut self, connection: ConnectionId) {
        let to = self.remote_id(connection);
        let Some(stream) = self.streams.get_mut(connection.index()) else { return };
        let Some(link) = &mut self.link else { return };
        while link.waiting.len() < WAITING_MAX {
            let Some((is_large, offset, length)) = stream.fill_block(&link.small, &link.large) else { break };
            let offset = if is_large { link.small_bytes + offset } else { offset };
            let range = Range { offset: offset as u32, length: length as u32 };
            self.figures.commands += 1;
            link.give(Command::Send { connection: to, range, consumed: stream.consumed.take() });
        }
        if let Some(frame) = stream.consumed.take() {
            self.figures.commands += 1;
            link.give(Command::Consume { connection: to, frame });
        }
        if !stream.has_waiting() {
            match stream.finish.take() {
                Some(Finish::Shutdown) => link.give(Command::Shutdown { connection: to }),
                Some(Finish::Close) => link.give(Command::Close { connection: to }),
                None => {}
            }
        } else if !stream.is_in_flight_enough() {
            self.queue(connection);
        }
    }

    /// Whether there is something to do without an event.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if !self.early.is_empty() || self.second.is_some() || self.broken {
            return Some(Time::ZERO);
        }
        self.timers.next_deadline()
    }

    /// Whether commands or bytes wait for room that nobody rings for.
    pub(crate) fn is_held_back(&self) -> bool {
        !self.queued.is_empty() || self.link.as_ref().is_some_and(|link| !link.waiting.is_empty())
    }

    pub(crate) fn falls_asleep(&mut self) -> bool {
        self.wake_net_core();
        self.link.as_mut().is_none_or(|link| link.events.falls_asleep())
    }

    pub(crate) fn wakes(&mut self) {
        if let Some(link) = &self.link {
            link.events.wakes();
        }
    }

    /// Silences the bell; false: the net core is gone.
    pub(crate) fn look_at_socket(&mut self) -> bool {
        let Some(link) = &self.link else { return true };
        match doorbell::listen(&link.socket) {
            Heard::Rings => true,
            Heard::Words(words) => {
                if let Ok(Reply::Ended(why)) = understand(&words) {
                    self.last_word = Some(why.chars().filter(|letter| !letter.is_control()).collect());
                }
                false
            }
            Heard::Nobody => false,
        }
    }
}
