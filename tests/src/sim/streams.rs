//! A service that sends and receives known streams, and checks everything it is told about them.

use super::pattern::{self, PatternSource};
use crate::random::Random;
use qanat::{
    Bytes, Chunk, CloseReason, CommandError, Commands, ConnectOptions, ConnectionId, Context, Event, ListenOptions,
    Service, Source, StartError,
};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The server's port.
pub const PORT: u16 = 7;
/// Client ports: flow `f`, attempt `a` is `FIRST + f * ATTEMPTS_MAX + a`.
const CLIENT_PORT_FIRST: u16 = 20_000;
/// Attempts to connect.
const ATTEMPTS_MAX: u16 = 32;
/// Bytes handed to the stack and not acknowledged, unless told otherwise.
const AHEAD_BYTES_MAX: u64 = 256 * 1024;

/// The port from which flow `index` is first tried.
pub fn client_port(index: usize) -> u16 {
    CLIENT_PORT_FIRST + index as u16 * ATTEMPTS_MAX
}

/// The flow a client's port belongs to.
pub fn flow_of_port(port: u16) -> usize {
    usize::from(port.saturating_sub(CLIENT_PORT_FIRST) / ATTEMPTS_MAX)
}

/// How a side takes what it receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drain {
    /// Gives every chunk back at once.
    Promptly,
    /// Keeps chunks until so many bytes have come or so much time has passed, then gives all back.
    Hold {
        /// Bytes.
        bytes: u64,
        /// After the first chunk.
        time: Duration,
    },
}

/// How a flow ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Each side shuts down when it has handed over everything (so either may be half closed for long).
    Shutdown,
    /// As `Shutdown`, but a side that has received everything closes at once instead.
    Close,
    /// Side `side` aborts when it has received so many bytes (or its peer's FIN).
    Abort {
        /// 0: the client.
        side: usize,
        /// Bytes.
        after_bytes: u64,
    },
}

/// What a flow is to do. Index 0 is the client's side or direction.
#[derive(Clone, Copy, Debug)]
pub struct FlowPlan {
    /// Bytes to send.
    pub bytes: [u64; 2],
    /// Longest piece handed over at once.
    pub piece_bytes_max: u64,
    /// How each side receives.
    pub drains: [Drain; 2],
    /// Whether each side sends from a prepared source instead of lent bytes.
    pub prepared: [bool; 2],
    /// How it ends.
    pub ending: Ending,
    /// When the client connects.
    pub start: Duration,
}

impl FlowPlan {
    /// A flow of `bytes`, plainly.
    pub fn plain(bytes: [u64; 2]) -> FlowPlan {
        FlowPlan {
            bytes,
            piece_bytes_max: 64 * 1024,
            drains: [Drain::Promptly; 2],
            prepared: [false; 2],
            ending: Ending::Shutdown,
            start: Duration::ZERO,
        }
    }

    /// Any flow of at most `bytes_max` in each direction.
    pub fn any(random: &mut Random, bytes_max: u64) -> FlowPlan {
        let bytes = [0, 1].map(|_| match random.between(0, 5) {
            0 => 0,
            1 => random.between(1, 100),
            2 => random.between(1, bytes_max / 10 + 1),
            _ => random.between(bytes_max / 2, bytes_max),
        });
        let drains = [0, 1].map(|_| match random.between(0, 2) {
            0 => Drain::Hold {
                bytes: random.between(1, 100_000),
                time: Duration::from_micros(random.pick(&[10, 1_000, 50_000, 1_000_000])),
            },
            _ => Drain::Promptly,
        });
        let ending = match random.between(0, 7) {
            0 => {
                let side = random.between(0, 1) as usize;
                Ending::Abort { side, after_bytes: random.between(0, bytes[1 - side]) }
            }
            1..=3 => Ending::Close,
            _ => Ending::Shutdown,
        };
        FlowPlan {
            bytes,
            piece_bytes_max: random.pick(&[1, 7, 100, 1_460, 5_000, 100_000]).max(bytes_max / 500),
            drains,
            prepared: [random.one_in(3), random.one_in(3)],
            ending,
            start: Duration::from_micros(random.pick(&[0, 0, 100, 20_000, 1_000_000])),
        }
    }

    /// The name of the stream that `side` of flow `index` sends.
    pub fn salt(index: usize, side: usize) -> u64 {
        pattern::mix((index as u64) << 1 | side as u64)
    }
}

/// Lent bytes that say when they are let go.
struct Lent {
    bytes: Vec<u8>,
    alive: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One side of a flow.
pub struct Flow {
    plan: FlowPlan,
    index: usize,
    side: usize,
    connection: Option<ConnectionId>,
    connected: bool,
    attempts: u16,
    handed: u64,
    acked: u64,
    received: u64,
    alive: Arc<AtomicUsize>,
    source: Rc<PatternSource>,
    random: Random,
    held: Vec<Chunk>,
    held_bytes: u64,
    hold_timer: bool,
    peer_closed: bool,
    shut: bool,
    aborted: bool,
    /// The peer may forget the connection before it is known here that it has all.
    peer_forgets: bool,
    /// Why it ended.
    pub closed: Option<CloseReason>,
}

impl Flow {
    fn new(plan: FlowPlan, index: usize, side: usize) -> Flow {
        let mut random = Random::new(FlowPlan::salt(index, side));
        let boundary_bytes = random.pick(&[50, 333, 1_448, 10_000]).max(plan.bytes[side] / 200 + 1);
        let source = PatternSource { boundary_bytes, with_sums: random.one_in(2) };
        Flow {
            plan,
            index,
            side,
            connection: None,
            connected: false,
            attempts: 0,
            handed: 0,
            acked: 0,
            received: 0,
            alive: Arc::default(),
            source: Rc::new(source),
            random,
            held: Vec::new(),
            held_bytes: 0,
            hold_timer: false,
            peer_closed: false,
            shut: false,
            aborted: false,
            peer_forgets: false,
            closed: None,
        }
    }

    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes acknowledged so far.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The connection, while there is one.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    fn to_send(&self) -> u64 {
        self.plan.bytes[self.side]
    }

    fn to_receive(&self) -> u64 {
        self.plan.bytes[1 - self.side]
    }

    fn is_orderly(&self) -> bool {
        !matches!(self.plan.ending, Ending::Abort { .. })
    }

    /// Hands over what may be handed over, and ends the stream after it.
    fn push(&mut self, ahead_bytes_max: u64, context: &mut Context<'_>) {
        let Some(connection) = self.connection else { return };
        if !self.connected || self.shut || self.aborted {
            return;
        }
        while self.handed < self.to_send() && self.handed - self.acked < ahead_bytes_max {
            let length = self.random.between(1, self.plan.piece_bytes_max).min(self.to_send() - self.handed);
            let salt = FlowPlan::salt(self.index, self.side);
            let result = if self.plan.prepared[self.side] {
                let source = Rc::clone(&self.source) as Rc<dyn Source>;
                context.send_prepared(connection, source, salt, self.handed, length)
            } else {
                let mut bytes = vec![0; length as usize];
                pattern::fill(salt, self.handed, &mut bytes);
                self.alive.fetch_add(1, Ordering::Relaxed);
                context.send(connection, Bytes::from_owner(Lent { bytes, alive: Arc::clone(&self.alive) }))
            };
            match result {
                Ok(()) => self.handed += length,
                // The queue of pieces: it goes on when some are acknowledged.
                Err(CommandError::Full) if self.handed > self.acked => return,
                // It is gone, and `Closed` waits in the queue behind the event being handled.
                Err(CommandError::Stale) => return,
                Err(error) => panic!("flow {} side {}: send: {error}", self.index, self.side),
            }
        }
        if self.handed == self.to_send() {
            self.shut = true;
            let all_received = self.received == self.to_receive() && self.held.is_empty();
            let result = if all_received && self.plan.ending == Ending::Close {
                context.close(connection)
            } else {
                context.shutdown(connection)
            };
            assert!(
                matches!(result, Ok(()) | Err(CommandError::Stale)),
                "flow {} side {}: close: {result:?}",
                self.index,
                self.side
            );
        }
    }

    fn take(&mut self, chunk: Chunk, context: &mut Context<'_>) {
        let name = (self.index, self.side);
        assert!(!self.peer_closed, "flow {name:?}: data after the peer's FIN");
        assert!(!chunk.is_empty(), "flow {name:?}: an empty chunk");
        let salt = FlowPlan::salt(self.index, 1 - self.side);
        if let Some(at) = pattern::first_difference(salt, self.received, chunk.bytes()) {
            let place = self.received + at as u64;
            panic!("flow {name:?}: byte {place} is wrong (chunk of {} at {})", chunk.len(), self.received);
        }
        self.received += chunk.len() as u64;
        assert!(self.received <= self.to_receive(), "flow {name:?}: more bytes than were sent");
        match self.plan.drains[self.side] {
            Drain::Promptly => self.give_back(chunk, context),
            Drain::Hold { bytes, time } => {
                self.held_bytes += chunk.len() as u64;
                self.held.push(chunk);
                if self.held_bytes >= bytes {
                    self.release(context);
                } else if !self.hold_timer {
                    self.hold_timer = context.set_timer(time, self.index as u64).is_ok();
                    assert!(self.hold_timer, "flow {name:?}: no timer to be had");
                }
            }
        }
        self.maybe_abort(context);
    }

    fn give_back(&self, chunk: Chunk, context: &mut Context<'_>) {
        if let Some(connection) = self.connection {
            context.consume(connection, chunk);
        }
    }

    fn release(&mut self, context: &mut Context<'_>) {
        self.held_bytes = 0;
        for chunk in std::mem::take(&mut self.held) {
            self.give_back(chunk, context);
        }
    }

    fn maybe_abort(&mut self, context: &mut Context<'_>) {
        let (Ending::Abort { side, after_bytes }, Some(connection)) = (self.plan.ending, self.connection) else {
            return;
        };
        if side == self.side && !self.aborted && (self.received >= after_bytes || self.peer_closed) {
            self.aborted = true;
            let result = context.abort(connection);
            assert!(matches!(result, Ok(()) | Err(CommandError::Stale)), "abort: {result:?}");
        }
    }

    fn on_closed(&mut self, why: CloseReason) {
        let name = (self.index, self.side);
        assert_eq!(self.alive.load(Ordering::Relaxed), 0, "flow {name:?}: lent bytes still held after Closed ({why})");
        assert_eq!(Rc::strong_count(&self.source), 1, "flow {name:?}: the source is still held after Closed ({why})");
        self.held.clear();
        self.connection = None;
        self.closed = Some(why);
        // The last repetition of our FIN is answered with a reset if the peer keeps TIME-WAIT only for seconds. It has all by then, and
        // checks that itself.
        let has_all = self.peer_closed && self.shut && self.received == self.to_receive();
        let is_forgotten = self.peer_forgets && why == CloseReason::ResetByPeer && has_all;
        if self.is_orderly() && !is_forgotten {
            assert_eq!(why, CloseReason::Finished, "flow {name:?}: ended by {why}, {self:?}");
            assert_eq!(self.received, self.to_receive(), "flow {name:?}: received, then finished");
            assert_eq!(self.acked, self.to_send(), "flow {name:?}: acknowledged, then finished");
        }
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Flow({} side {}: received {} of {}, handed {}, acked {} of {}, peer closed {}, shut {}, closed {:?}, {:?})",
            self.index,
            self.side,
            self.received,
            self.to_receive(),
            self.handed,
            self.acked,
            self.to_send(),
            self.peer_closed,
            self.shut,
            self.closed,
            self.plan,
        )
    }
}

/// One side of all flows: the service.
pub struct Streams {
    side: usize,
    server: SocketAddr,
    /// The flows.
    pub flows: Vec<Flow>,
    /// Bytes of a flow handed to the stack and not acknowledged.
    pub ahead_bytes_max: u64,
    by_connection: HashMap<ConnectionId, usize>,
    /// Attempts to connect that had to be repeated.
    pub attempts_failed: u32,
}

/// Timer tokens of attempts to connect: this plus the flow's index.
const CONNECT_TOKEN: u64 = 1 << 32;

impl Streams {
    /// The client's side (0) or the server's (1) of `plans`.
    pub fn new(side: usize, server: IpAddr, plans: &[FlowPlan]) -> Streams {
        let flows = plans.iter().enumerate().map(|(index, &plan)| Flow::new(plan, index, side)).collect();
        let server = SocketAddr::new(server, PORT);
        Streams {
            side,
            server,
            flows,
            ahead_bytes_max: AHEAD_BYTES_MAX,
            by_connection: HashMap::new(),
            attempts_failed: 0,
        }
    }

    /// For a peer that keeps TIME-WAIT only for seconds.
    #[must_use]
    pub fn with_forgetful_peer(mut self) -> Streams {
        self.flows.iter_mut().for_each(|flow| flow.peer_forgets = true);
        self
    }

    fn connect(&mut self, index: usize, context: &mut Context<'_>) {
        let flow = &mut self.flows[index];
        assert!(flow.attempts < ATTEMPTS_MAX, "flow {index}: {ATTEMPTS_MAX} attempts to connect failed");
        let port = client_port(index) + flow.attempts;
        flow.attempts += 1;
        let local = Some(SocketAddr::new(own_address(self.server.ip()), port));
        let connection = context
            .connect(self.server, ConnectOptions { local, ..ConnectOptions::default() })
            .expect("a connection can be begun");
        flow.connection = Some(connection);
        self.by_connection.insert(connection, index);
    }

    fn flow(&mut self, connection: ConnectionId) -> Option<&mut Flow> {
        let index = self.by_connection.get(&connection)?;
        self.flows.get_mut(*index)
    }

    fn accept(&mut self, connection: ConnectionId, peer: SocketAddr, context: &mut Context<'_>) {
        let ahead = self.ahead_bytes_max;
        let index = flow_of_port(peer.port());
        let flow = &mut self.flows[index];
        assert!(flow.connection.is_none() && flow.closed.is_none(), "flow {index} is accepted twice");
        flow.connection = Some(connection);
        flow.connected = true;
        self.by_connection.insert(connection, index);
        flow.push(ahead, context);
        flow.maybe_abort(context);
    }

    fn on_closed(&mut self, connection: ConnectionId, why: CloseReason, context: &mut Context<'_>) {
        let Some(index) = self.by_connection.remove(&connection) else { panic!("{connection:?} closed, never opened") };
        let flow = &mut self.flows[index];
        let retry =
            !flow.connected && self.side == 0 && matches!(why, CloseReason::Unreachable | CloseReason::TimedOut);
        if retry {
            flow.connection = None;
            self.attempts_failed += 1;
            self.connect(index, context);
        } else {
            flow.on_closed(why);
        }
    }
}

/// The client's address beside a server's.
pub fn own_address(server: IpAddr) -> IpAddr {
    match server {
        IpAddr::V4(address) => (u32::from(address) - 1).to_be_bytes().into(),
        IpAddr::V6(address) => (u128::from(address) - 1).to_be_bytes().into(),
    }
}

impl Service for Streams {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        if self.side == 1 {
            context.listen(self.server, ListenOptions::default())?;
            return Ok(());
        }
        for index in 0..self.flows.len() {
            let start = self.flows[index].plan.start;
            if start.is_zero() {
                self.connect(index, context);
            } else {
                context.set_timer(start, CONNECT_TOKEN + index as u64)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let ahead = self.ahead_bytes_max;
        match event {
            Event::Accepted { connection, peer, .. } => self.accept(connection, peer, context),
            Event::Connected { connection } => {
                let Some(flow) = self.flow(connection) else { return };
                assert!(!flow.connected, "connected twice");
                flow.connected = true;
                flow.push(ahead, context);
                flow.maybe_abort(context);
            }
            Event::Data { connection, chunk } => {
                if let Some(flow) = self.flow(connection) {
                    flow.take(chunk, context);
                }
            }
            Event::Acked { connection, bytes } => {
                let Some(flow) = self.flow(connection) else { panic!("Acked without a connection") };
                assert!(bytes > 0, "Acked nothing");
                flow.acked += u64::from(bytes);
                assert!(flow.acked <= flow.handed, "acknowledged more than was sent: {flow:?}");
                if flow.acked == flow.handed {
                    assert_eq!(flow.alive.load(Ordering::Relaxed), 0, "all acknowledged, memory still held: {flow:?}");
                }
                flow.push(ahead, context);
            }
            Event::PeerClosed { connection } => {
                let Some(flow) = self.flow(connection) else { panic!("PeerClosed without a connection") };
                assert!(!flow.peer_closed, "PeerClosed twice");
                flow.peer_closed = true;
                if flow.is_orderly() {
                    assert_eq!(flow.received, flow.to_receive(), "the peer's FIN came before its data: {flow:?}");
                }
                flow.maybe_abort(context);
            }
            Event::Closed { connection, why } => self.on_closed(connection, why, context),
            Event::Timer { token, .. } if token >= CONNECT_TOKEN => {
                self.connect((token - CONNECT_TOKEN) as usize, context);
            }
            Event::Timer { token, .. } => {
                let flow = &mut self.flows[token as usize];
                flow.hold_timer = false;
                flow.release(context);
            }
            Event::AddressConflict { address, holder } => panic!("{holder} has {address}"),
            Event::Urgent { .. } => panic!("urgent data that nobody has asked for"),
            Event::Datagram { .. } => panic!("a datagram for a service without sockets"),
            Event::Read { .. } | Event::Written { .. } | Event::Flushed { .. } | Event::Zeroed { .. } => {
                panic!("a service without areas")
            }
        }
    }

    fn is_finished(&self) -> bool {
        // An abort may come before the server has heard of the flow at all.
        let done =
            |flow: &Flow| flow.closed.is_some() || (self.side == 1 && flow.connection.is_none() && !flow.is_orderly());
        self.flows.iter().all(done)
    }
}
