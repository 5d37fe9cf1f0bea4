//! [`Kernel`]: what stands for the stack in the kernel placement.

use super::endpoint::Endpoint;
use super::error::KernelError;
use super::figures::KernelFigures;
use super::options::KernelOptions;
use super::prepared::Prepared;
use super::stream::Stream;
use super::table::Table;
use super::way_back::WayBack;
use crate::timers::Timers;
use qanat_api::{ConnectionId, Event};
use qanat_nic::sockets::{Completion, SocketEngine, SocketEngineKind, SocketRingError};
use qanat_nic::{Pool, Region, Time};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// Bytes of a frame.
const FRAME_BYTES: u32 = 4_096;
/// Frames that datagrams are sent from.
const TRANSMIT_FRAMES: u32 = 1_024;

/// Everything that one service has of the kernel.
pub(crate) struct Kernel {
    pub(super) ring: SocketEngine,
    /// Why it is not by io_uring, if that was to be seen.
    pub(super) no_ring: Option<SocketRingError>,
    pub(super) options: KernelOptions,
    pub(super) prepared: Prepared,
    pub(super) now: Time,
    /// What the service is told next.
    pub(super) events: VecDeque<Event>,
    pub(super) endpoints: Table<Endpoint>,
    /// Endpoints of each listener.
    pub(super) listeners: Table<Vec<u32>>,
    /// Endpoints of each socket for datagrams.
    pub(super) sockets: Table<Vec<u32>>,
    pub(super) streams: Table<Stream>,
    /// Streams that something has changed for.
    pub(super) touched: Vec<u32>,
    /// Streams that there was no frame for.
    pub(super) starved: VecDeque<ConnectionId>,
    /// Streams whose service hears no more, and until when their peers may go on speaking.
    pub(super) lingering: VecDeque<(Time, ConnectionId)>,
    pub(super) way_back: WayBack,
    pub(super) timers: Timers,
    /// Datagrams are sent from these.
    pub(super) transmit: Pool,
    /// Prepared content stays with the service.
    pub(super) nothing: Pool,
    pub(super) figures: KernelFigures,
    /// Descriptors of the service's that the ring watches.
    watched: Vec<RawFd>,
    /// One of them has rung, and the service has not been told.
    has_heard_others: bool,
}

impl Kernel {
    pub(super) fn new(options: KernelOptions) -> Result<Kernel, KernelError> {
        raise_descriptors();
        let prepared = Prepared::open(&options)?;
        let frames = options.frames.clamp(64, 32_768);
        let pool = |count: u32| {
            let region = Region::new(count, FRAME_BYTES).map_err(KernelError::Memory)?;
            region.pool(count).ok_or_else(|| KernelError::Memory(std::io::ErrorKind::OutOfMemory.into()))
        };
        let transmit = pool(TRANSMIT_FRAMES)?;
        let nothing = Region::new(1, FRAME_BYTES).map_err(KernelError::Memory)?.pool(0);
        let (ring, no_ring) = match options.engine {
            Some(SocketEngineKind::Ring) => (SocketEngine::ring(pool(frames)?)?, None),
            Some(SocketEngineKind::Poll) => (SocketEngine::poll(pool(frames)?).map_err(KernelError::Poll)?, None),
            None => match SocketEngine::ring(pool(frames)?) {
                Ok(ring) => (ring, None),
                Err(error) => (SocketEngine::poll(pool(frames)?).map_err(KernelError::Poll)?, Some(error)),
            },
        };
        Ok(Kernel {
            ring,
            no_ring,
            options,
            prepared,
            now: Time::ZERO,
            events: VecDeque::new(),
            endpoints: Table::default(),
            listeners: Table::default(),
            sockets: Table::default(),
            streams: Table::default(),
            touched: Vec::new(),
            starved: VecDeque::new(),
            lingering: VecDeque::new(),
            way_back: WayBack::default(),
            timers: Timers::default(),
            nothing: nothing.unwrap_or_else(|| transmit.clone()),
            transmit,
            figures: KernelFigures::default(),
            watched: Vec::new(),
            has_heard_others: false,
        })
    }

    /// A turn begins, or a call outside of one.
    pub(crate) fn turn_begins(&mut self, now: Time) {
        self.now = now;
    }

    pub(super) fn close_unused_ports(&mut self) {
        self.prepared.close_all();
    }

    /// What has happened is asked for, if anything has.
    pub(super) fn look(&mut self) {
        if self.ring.wants_enter() {
            self.ring.enter();
        }
    }

    /// The same by an engine that is not told of it in memory: what has happened is seen only by a call.
    pub(super) fn look_now(&mut self) {
        match self.ring.kind() {
            SocketEngineKind::Ring => self.look(),
            SocketEngineKind::Poll => self.ring.sleep(Duration::ZERO),
        }
    }

    /// The next event.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            // Before completions, of which a flood has no end.
            if let Some((id, token)) = self.timers.expired(self.now) {
                return Some(Event::Timer { id, token });
            }
            let completion = self.ring.next_completion()?;
            self.completed(completion);
        }
    }

    fn completed(&mut self, completion: Completion) {
        match completion {
            Completion::Accepted { token, outcome, goes_on } => self.accepted(token, outcome, goes_on),
            Completion::Received { token, outcome, goes_on } => self.received(token, outcome, goes_on),
            Completion::Datagram { token, outcome, goes_on } => self.datagram(token, outcome, goes_on),
            Completion::Sent { token, outcome } => self.sent(token, outcome),
            Completion::DatagramSent { outcome } => match outcome {
                Ok(()) => self.figures.datagrams_sent += 1,
                Err(_) => self.figures.datagrams_lost += 1,
            },
            Completion::Readable { other } => {
                self.watched.retain(|watched| *watched != other);
                self.has_heard_others = true;
            }
            Completion::Connected { token, outcome } => self.connected(token, outcome),
        }
    }

    /// A turn ends: what the service has asked for is started.
    pub(super) fn end_turn(&mut self) {
        self.feed_starved();
        self.end_lingering();
        self.wake_endpoints();
        while let Some(slot) = self.touched.pop() {
            self.advance(slot);
        }
        if self.ring.wants_enter() {
            self.ring.enter();
        }
    }

    /// When there is something to do without a completion.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let lingering = self.lingering.front().map(|(at, _)| *at);
        self.timers.next_deadline().into_iter().chain(lingering).chain(self.next_endpoint_wake()).min()
    }

    /// Something has happened that nobody has looked at.
    pub(super) fn has_news(&mut self) -> bool {
        !self.events.is_empty() || self.ring.wants_enter() || self.ring.has_completions()
    }

    /// Sleeps until something has happened, here or at one of the others.
    pub(super) fn sleep<'a>(&mut self, others: impl Iterator<Item = BorrowedFd<'a>>, most: Duration) {
        for other in others {
            if !self.watched.contains(&other.as_raw_fd()) {
                self.watched.push(other.as_raw_fd());
                self.ring.watch(other);
            }
        }
        self.ring.sleep(most);
    }

    pub(super) fn others_rang(&self) -> bool {
        self.has_heard_others
    }

    /// The service is told now.
    pub(super) fn others_are_heard(&mut self) {
        self.has_heard_others = false;
    }

    /// One of the others is about to be closed: the next that has its number is another one.
    pub(super) fn forget_other(&mut self, other: BorrowedFd<'_>) {
        let number = other.as_raw_fd();
        if self.watched.contains(&number) {
            self.watched.retain(|watched| *watched != number);
            self.ring.forget(number);
            // At once, for whoever does not come again for long: the kernel holds it until then.
            self.ring.enter();
        }
    }

    /// The runtime ends: descriptors may be others next time.
    pub(super) fn forget_others(&mut self) {
        self.watched.drain(..).for_each(|other| self.ring.forget(other));
    }

    pub(super) fn figures(&self) -> KernelFigures {
        KernelFigures {
            connections: self.streams.count() as u64,
            enters: self.ring.calls(),
            frames_in_use: (self.ring.pool().frame_count() - self.ring.frames_free()).into(),
            ..self.figures
        }
    }
}

/// Each connection is a descriptor: as many as the system lets this process have.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    // What there is does; a listener that finds none free is counted.
    let _ = setrlimit(Resource::Nofile, raised);
}
