//! The loader as a service of the native API: requests are lent, answers are read where the device put them.

use super::engine::{Engine, TICK, Transport};
use super::figures::{ErrorKind, Figures, Report};
use super::http::{HttpPlan, LoadError};
use qanat::{
    Bytes, CloseReason, CommandError, Commands, ConnectOptions, ConnectionId, Context, Event, Runtime, Service,
    StartError, StopHandle, Time,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Busy turns in a row after which live figures and a request to stop are seen to.
const BUSY_TURNS_MAX: u32 = 256;
/// Time after the window in which resets still go out.
const DRAIN: Duration = Duration::from_millis(20);

/// Which connection is whose. Both directions are vectors indexed by dense numbers: no hashing per event.
struct Links {
    peer: SocketAddr,
    sources: Vec<IpAddr>,
    source_next: usize,
    of_worker: Vec<Option<ConnectionId>>,
    of_connection: Vec<Option<(ConnectionId, u32)>>,
}

impl Links {
    fn worker(&self, connection: ConnectionId) -> Option<u32> {
        let (owner, worker) = (*self.of_connection.get(connection.index())?)?;
        (owner == connection).then_some(worker)
    }

    fn bind(&mut self, worker: u32, connection: ConnectionId) {
        if self.of_connection.len() <= connection.index() {
            // Grows to the most connections ever open at once, then never again.
            self.of_connection.resize(connection.index() + 1, None);
        }
        if let Some(place) = self.of_connection.get_mut(connection.index()) {
            *place = Some((connection, worker));
        }
        if let Some(place) = self.of_worker.get_mut(worker as usize) {
            *place = Some(connection);
        }
    }

    fn unbind(&mut self, worker: u32) -> Option<ConnectionId> {
        let connection = self.of_worker.get_mut(worker as usize)?.take()?;
        if let Some(place) = self.of_connection.get_mut(connection.index()) {
            *place = None;
        }
        Some(connection)
    }
}

struct StackTransport<'a, 'b> {
    links: &'a mut Links,
    context: &'a mut Context<'b>,
}

impl Transport for StackTransport<'_, '_> {
    fn connect(&mut self, worker: u32) -> Result<(), ErrorKind> {
        let count = self.links.sources.len();
        for _ in 0..count.max(1) {
            let local = (count > 0).then(|| {
                self.links.source_next = (self.links.source_next + 1) % count;
                self.links.sources.get(self.links.source_next).map(|source| SocketAddr::new(*source, 0))
            });
            match self
                .context
                .connect(self.links.peer, ConnectOptions { local: local.flatten(), ..ConnectOptions::default() })
            {
                Ok(connection) => {
                    self.links.bind(worker, connection);
                    return Ok(());
                }
                Err(CommandError::InUse) => {} // no port left at this source: try the next
                Err(CommandError::Unreachable) => return Err(ErrorKind::ConnectUnreachable),
                Err(_) => return Err(ErrorKind::NoPort),
            }
        }
        Err(ErrorKind::NoPort)
    }

    #[inline]
    fn send(&mut self, worker: u32, request: &Bytes) -> Result<(), ErrorKind> {
        let connection = self.links.of_worker.get(worker as usize).copied().flatten().ok_or(ErrorKind::Reset)?;
        // Cloning shared bytes counts a reference: no copy, no allocation.
        self.context.send(connection, request.clone()).map_err(|_| ErrorKind::Reset)
    }

    fn close(&mut self, worker: u32) {
        if let Some(connection) = self.links.unbind(worker) {
            let _ = self.context.close(connection);
        }
    }

    fn abort(&mut self, worker: u32) {
        if let Some(connection) = self.links.unbind(worker) {
            let _ = self.context.abort(connection);
        }
    }
}

/// The loader as a [`Service`]. Run it by [`run`], which polls without sleeping and serves open-loop arrivals on time;
/// under a plain [`Runtime::run`] arrivals are served every [`TICK`].
pub struct HttpLoad {
    engine: Engine,
    links: Links,
}

impl HttpLoad {
    /// A loader for `plan`, to run on a stack that has the plan's sources.
    fn new(engine: Engine, plan_peer: SocketAddr, sources: Vec<IpAddr>, workers: usize) -> HttpLoad {
        HttpLoad {
            engine,
            links: Links {
                peer: plan_peer,
                sources,
                source_next: 0,
                of_worker: vec![None; workers],
                of_connection: Vec::with_capacity(workers * 2),
            },
        }
    }

    fn parts<'a, 'b>(&'a mut self, context: &'a mut Context<'b>) -> (&'a mut Engine, StackTransport<'a, 'b>) {
        (&mut self.engine, StackTransport { links: &mut self.links, context })
    }

    /// Live figures since the last call.
    pub fn figures(&mut self, now: Time) -> Figures {
        self.engine.figures(now)
    }
}

impl Service for HttpLoad {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        context.set_timer(TICK, 0)?;
        let now = context.now();
        let (engine, mut transport) = self.parts(context);
        engine.start(now, &mut transport);
        Ok(())
    }

    #[inline]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let now = context.now();
        match event {
            Event::Data { connection, chunk } => {
                if let Some(worker) = self.links.worker(connection) {
                    let (engine, mut transport) = self.parts(context);
                    engine.data(worker, chunk.bytes(), now, &mut transport);
                }
                context.consume(connection, chunk);
            }
            Event::Connected { connection } => {
                if let Some(worker) = self.links.worker(connection) {
                    let (engine, mut transport) = self.parts(context);
                    engine.connected(worker, now, &mut transport);
                }
            }
            Event::PeerClosed { connection } => {
                if let Some(worker) = self.links.worker(connection) {
                    let (engine, mut transport) = self.parts(context);
                    engine.peer_closed(worker, now, &mut transport);
                }
            }
            Event::Closed { connection, why } => {
                if let Some(worker) = self.links.worker(connection) {
                    self.links.unbind(worker);
                    let (engine, mut transport) = self.parts(context);
                    engine.closed(worker, error_of(why), now, &mut transport);
                }
            }
            Event::Timer { .. } => {
                let (engine, mut transport) = self.parts(context);
                engine.sweep(now, &mut transport);
                engine.tick(now, &mut transport);
                // The timer just fired, so its place is free again.
                let _ = context.set_timer(TICK, 0);
            }
            _ => {}
        }
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let (engine, mut transport) = self.parts(context);
        engine.finish_early(now, &mut transport);
    }
}

fn error_of(why: CloseReason) -> Option<ErrorKind> {
    match why {
        CloseReason::Finished => None,
        CloseReason::Refused => Some(ErrorKind::ConnectRefused),
        CloseReason::TimedOut => Some(ErrorKind::Timeout),
        CloseReason::Unreachable
        | CloseReason::NetworkUnreachable
        | CloseReason::ProtocolUnreachable
        | CloseReason::Prohibited
        | CloseReason::HopLimitExceeded => Some(ErrorKind::ConnectUnreachable),
        _ => Some(ErrorKind::Reset),
    }
}

/// Time spent in turns that found nothing to do. The first of a row is not counted: its start is not known without
/// reading the clock in busy turns too.
#[derive(Default)]
struct IdleMeter {
    total: Duration,
    before: Option<Time>,
}

impl IdleMeter {
    fn busy(&mut self) {
        self.before = None;
    }

    fn idle(&mut self, now: Time) {
        if let Some(before) = self.before.replace(now) {
            self.total += now.since(before);
        }
    }
}

/// Runs a plan on `runtime` until its window is over or `stop` is requested, polling all the while. `observe` gets live
/// figures every second.
///
/// # Errors
/// [`LoadError::Start`] if the service can't start.
pub fn run(
    runtime: &mut Runtime,
    plan: HttpPlan,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&Figures),
) -> Result<Report, LoadError> {
    let HttpPlan { engine, peer, label, sources, connections, open_loop } = plan;
    let mut load = HttpLoad::new(engine, peer, sources, connections);
    runtime.with_context(|context| load.start(context))?;
    let mut meter = IdleMeter::default();
    let mut window_start = None;
    let mut observe_next = runtime.now() + Duration::from_secs(1);
    let mut busy_turns = 0u32;
    while !load.engine.is_over() {
        let busy = runtime.turn(&mut load);
        busy_turns += 1;
        // Busy turns read the clock only once, in `turn`; arrivals of an open loop can't wait for an idle one.
        if busy && busy_turns < BUSY_TURNS_MAX && !open_loop {
            meter.busy();
            continue;
        }
        busy_turns = 0;
        let now = runtime.now();
        if busy {
            meter.busy()
        } else {
            meter.idle(now)
        }
        if load.engine.next_due().is_some_and(|due| due <= now) {
            runtime.with_context(|context| {
                let (engine, mut transport) = load.parts(context);
                engine.tick(now, &mut transport);
            });
        }
        if window_start.is_none() && load.engine.is_within_window() {
            window_start = Some(now);
            meter = IdleMeter::default();
        }
        if now >= observe_next {
            observe(&load.figures(now));
            observe_next = now + Duration::from_secs(1);
        }
        if stop.is_requested() {
            runtime.with_context(|context| load.stop(context));
        }
    }
    let end = runtime.now();
    while runtime.now().since(end) < DRAIN {
        runtime.turn(&mut load);
    }
    let mut report = load.engine.take_report().unwrap_or_default();
    let window_s = window_start.map_or(0.0, |start| end.since(start).as_secs_f64());
    report.client_idle_share = (window_s > 0.0).then(|| (meter.total.as_secs_f64() / window_s).min(1.0));
    report.client = "native".to_owned();
    report.url = label;
    report.peer = peer.to_string();
    Ok(report)
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
