//! The same loader over ordinary kernel sockets (`--kernel`): non-blocking, one thread, epoll. Works against any server,
//! loopback included, and needs no privileges; it costs more per request than most servers do.

use super::engine::{TICK, Transport};
use super::figures::{ErrorKind, Figures, Report};
use super::http::{HttpPlan, LoadError};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use qanat::{Bytes, StopHandle, Time};
use qanat_nic::{Clock, MonotonicClock};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1_024;
/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;
/// Reads of one connection before the others get their turn.
const READS_MAX: usize = 16;
/// Descriptors needed beside the connections.
const OTHER_DESCRIPTORS: u64 = 64;

#[derive(Default)]
struct Link {
    stream: Option<TcpStream>,
    connected: bool,
    /// What the socket did not take yet; empty but when requests outrun it.
    unsent: Vec<u8>,
}

struct Sockets {
    registry: Registry,
    peer: SocketAddr,
    sources: Vec<IpAddr>,
    source_next: usize,
    links: Vec<Link>,
}

impl Sockets {
    fn open(&mut self, worker: u32) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.peer), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if !self.sources.is_empty() {
            self.source_next = (self.source_next + 1) % self.sources.len();
            if let Some(source) = self.sources.get(self.source_next) {
                socket.bind(&SocketAddr::new(*source, 0).into())?;
            }
        }
        match socket.connect(&self.peer.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let mut stream = TcpStream::from_std(socket.into());
        self.registry.register(&mut stream, Token(worker as usize), Interest::READABLE | Interest::WRITABLE)?;
        Ok(stream)
    }

    fn take(&mut self, worker: u32) -> Option<TcpStream> {
        let link = self.links.get_mut(worker as usize)?;
        link.connected = false;
        link.unsent.clear();
        let mut stream = link.stream.take()?;
        let _ = self.registry.deregister(&mut stream);
        Some(stream)
    }

    fn link(&mut self, worker: u32) -> Option<(&mut TcpStream, &mut bool, &mut Vec<u8>)> {
        let link = self.links.get_mut(worker as usize)?;
        link.stream.as_mut().map(|stream| (stream, &mut link.connected, &mut link.unsent))
    }
}

impl Transport for Sockets {
    fn connect(&mut self, worker: u32) -> Result<(), ErrorKind> {
        let stream = self.open(worker).map_err(|error| kind_of(&error, true))?;
        if let Some(link) = self.links.get_mut(worker as usize) {
            *link = Link { stream: Some(stream), connected: false, unsent: std::mem::take(&mut link.unsent) };
        }
        Ok(())
    }

    fn send(&mut self, worker: u32, request: &Bytes) -> Result<(), ErrorKind> {
        let (stream, _, unsent) = self.link(worker).ok_or(ErrorKind::Reset)?;
        let taken = if unsent.is_empty() { write_some(stream, request).map_err(|_| ErrorKind::Reset)? } else { 0 };
        unsent.extend_from_slice(request.get(taken..).unwrap_or_default());
        Ok(())
    }

    fn close(&mut self, worker: u32) {
        drop(self.take(worker));
    }

    fn abort(&mut self, worker: u32) {
        if let Some(stream) = self.take(worker) {
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }
}

fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), IoKind::WouldBlock | IoKind::Interrupted) => Ok(0),
        Err(error) => Err(error),
    }
}

fn kind_of(error: &io::Error, connecting: bool) -> ErrorKind {
    match error.kind() {
        IoKind::ConnectionRefused => ErrorKind::ConnectRefused,
        IoKind::TimedOut => ErrorKind::Timeout,
        IoKind::AddrNotAvailable | IoKind::AddrInUse => ErrorKind::NoPort,
        IoKind::HostUnreachable | IoKind::NetworkUnreachable | IoKind::NetworkDown => ErrorKind::ConnectUnreachable,
        IoKind::ConnectionReset | IoKind::BrokenPipe | IoKind::ConnectionAborted => ErrorKind::Reset,
        _ if connecting => ErrorKind::NoPort,
        _ => ErrorKind::Reset,
    }
}

/// Allows as many descriptors as the connections need, if the hard limit does.
fn raise_descriptor_limit(connections: usize) -> Result<(), LoadError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum.map(|maximum| maximum.max(needed)) };
    setrlimit(Resource::Nofile, raised).map_err(|error| LoadError::System {
        what: format!("{connections} connections need {needed} file descriptors; raise the hard limit, as root: ulimit -n {needed}"),
        error: error.into(),
    })
}

/// Runs a plan over kernel sockets until its window is over or `stop` is requested. `observe` gets live figures every
/// second.
///
/// # Errors
/// [`LoadError::System`] when epoll or descriptors are refused.
pub fn run(mut plan: HttpPlan, stop: &StopHandle, observe: &mut dyn FnMut(&Figures)) -> Result<Report, LoadError> {
    let system = |error| LoadError::System { what: "waiting on sockets (epoll)".to_owned(), error };
    raise_descriptor_limit(plan.connections)?;
    let mut poll = Poll::new().map_err(system)?;
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut sockets = Sockets {
        registry: poll.registry().try_clone().map_err(system)?,
        peer: plan.peer,
        sources: plan.sources.clone(),
        source_next: 0,
        links: (0..plan.connections).map(|_| Link::default()).collect(),
    };
    let mut memory = vec![0u8; READ_BYTES];
    let clock = MonotonicClock::new();
    let mut tick_next = clock.now();
    let mut observe_next = clock.now() + Duration::from_secs(1);
    // An open loop's arrivals come at finer intervals than epoll's milliseconds: poll without waiting.
    let wait = if plan.open_loop { Duration::ZERO } else { TICK };
    plan.engine.start(clock.now(), &mut sockets);
    while !plan.engine.is_over() {
        match poll.poll(&mut events, Some(wait)) {
            Ok(()) => {}
            Err(error) if error.kind() == IoKind::Interrupted => {}
            Err(error) => return Err(system(error)),
        }
        for event in &events {
            let worker = event.token().0 as u32;
            attend(&mut plan, &mut sockets, worker, event.is_writable(), &mut memory, &clock);
        }
        let now = clock.now();
        if now >= tick_next {
            plan.engine.sweep(now, &mut sockets);
            tick_next = now + TICK;
            plan.engine.tick(now, &mut sockets);
        } else if plan.engine.next_due().is_some_and(|due| due <= now) {
            plan.engine.tick(now, &mut sockets);
        }
        if now >= observe_next {
            observe(&plan.engine.figures(now));
            observe_next = now + Duration::from_secs(1);
        }
        if stop.is_requested() {
            plan.engine.finish_early(now, &mut sockets);
        }
    }
    let report = plan.engine.take_report().unwrap_or_default();
    Ok(plan.complete(report, "kernel"))
}

/// Serves one readiness event. An event left over from an earlier connection of the same worker does no harm: every
/// step may find nothing to do.
fn attend(
    plan: &mut HttpPlan,
    sockets: &mut Sockets,
    worker: u32,
    writable: bool,
    memory: &mut [u8],
    clock: &MonotonicClock,
) {
    let Some((stream, connected, unsent)) = sockets.link(worker) else { return };
    if !*connected {
        let failure = match stream.take_error() {
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(kind_of(&error, true)),
        };
        if let Some(kind) = failure {
            sockets.close(worker);
            return plan.engine.closed(worker, Some(kind), clock.now(), sockets);
        }
        if !writable || stream.peer_addr().is_err() {
            return;
        }
        *connected = true;
        plan.engine.connected(worker, clock.now(), sockets);
    } else if writable && !unsent.is_empty() {
        match write_some(stream, unsent) {
            Ok(count) => drop(unsent.drain(..count.min(unsent.len()))),
            Err(error) => {
                let kind = kind_of(&error, false);
                sockets.close(worker);
                return plan.engine.closed(worker, Some(kind), clock.now(), sockets);
            }
        }
    }
    read_all(plan, sockets, worker, memory, &|| clock.now());
}

fn read_all(plan: &mut HttpPlan, sockets: &mut Sockets, worker: u32, memory: &mut [u8], now: &dyn Fn() -> Time) {
    for _ in 0..READS_MAX {
        let Some((stream, true, _)) = sockets.link(worker).map(|(s, c, u)| (s, *c, u)) else { return };
        match stream.read(memory) {
            Ok(0) => {
                plan.engine.peer_closed(worker, now(), sockets);
                return;
            }
            Ok(count) => plan.engine.data(worker, memory.get(..count).unwrap_or_default(), now(), sockets),
            Err(error) if error.kind() == IoKind::Interrupted => {}
            Err(error) if error.kind() == IoKind::WouldBlock => return,
            Err(error) => {
                let kind = kind_of(&error, false);
                sockets.close(worker);
                plan.engine.closed(worker, Some(kind), now(), sockets);
                return;
            }
        }
    }
    // More may be waiting, and the event is edge-triggered: ask to be told again.
    let Sockets { registry, links, .. } = sockets;
    if let Some(stream) = links.get_mut(worker as usize).and_then(|link| link.stream.as_mut()) {
        let _ = registry.reregister(stream, Token(worker as usize), Interest::READABLE | Interest::WRITABLE);
    }
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
