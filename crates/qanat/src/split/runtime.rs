//! The split placement's loop on the service's side.

use super::handshake::{Attach, MESSAGE_BYTES_MAX, Reply, Wish};
use super::link::{Link, Lost};
use super::net_core::dial;
use super::remote::{Remote, RemoteFigures};
use crate::lifetime::Lifetime;
use crate::runtime::{RuntimeError, RuntimeOptions, STOP_TOKEN, StopHandle};
use crate::service::{Context, Service};
use crate::spin::Spin;
use crate::wait_set::WaitSet;
use qanat_control::protocol::{Fault, receive, send};
use qanat_nic::{Clock, MonotonicClock, Time};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Events of one turn at most: output is not to wait for a flood's end.
const EVENTS_PER_TURN: usize = 1_024;
/// Doorbells are looked at so often while there is no time to sleep.
const WATCH_INTERVAL: Duration = Duration::from_micros(250);
/// How long a net core may take to answer the first word: it opens its cards before.
const ATTACH_PATIENCE: Duration = Duration::from_secs(10);
/// Between attempts to find a net core again.
const RETRY_AFTER: Duration = Duration::from_millis(2);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(1);
/// How long giving connections up may take.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks while they are.
const LEAVE_INTERVAL: Duration = Duration::from_micros(100);
/// Something waits for room, of which nobody tells.
const HELD_BACK_WAIT: Duration = Duration::from_millis(1);

/// Finds, or starts, a net core: a connected socket to it.
pub type Connector = Box<dyn FnMut() -> io::Result<OwnedFd>>;

/// Which net core, and what of it.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// The service's name, for `qanat status`.
    pub name: String,
    /// The card, by an address it has; `None`: the first that is free.
    pub address: Option<IpAddr>,
    /// Connections at most.
    pub connections_max: usize,
    /// Ports that connections to others start from; `None`: the stack's usual ones.
    pub ephemeral_ports: Option<RangeInclusive<u16>>,
    /// Share the card and its listeners with other services of this user that want it so.
    pub share: bool,
    /// A service that shares a card and is to stop gives its connections up to the others: how long that may take. Zero: they
    /// are reset.
    pub leave_patience: Duration,
}

impl SplitOptions {
    /// Any card, for 16,384 connections.
    pub fn new(name: &str) -> SplitOptions {
        SplitOptions {
            name: name.to_owned(),
            address: None,
            connections_max: 16_384,
            ephemeral_ports: None,
            share: false,
            leave_patience: LEAVE_PATIENCE,
        }
    }
}

/// Why there is no net core.
#[derive(Debug)]
pub enum SplitError {
    /// It cannot be reached.
    Unreachable(io::Error),
    /// It refuses; its words.
    Refused(String),
    /// What it gave cannot be used.
    Unusable(String),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::Unreachable(error) => {
                write!(f, "no net core: {error}; `qanat net` starts one, and `--net SOCKET` names its socket")
            }
            SplitError::Refused(why) => write!(f, "the net core refuses: {why}"),
            SplitError::Unusable(why) => write!(f, "the net core's memory: {why}"),
        }
    }
}

impl std::error::Error for SplitError {}

/// Runs a service whose stack is on a net core.
pub struct SplitRuntime {
    remote: Remote,
    options: SplitOptions,
    connector: Connector,
    clock: MonotonicClock,
    waits: WaitSet,
    watched_at: Time,
    next_attempt: Time,
    retry_after: Duration,
}

impl SplitRuntime {
    /// Attaches to the net core that `connector` finds; to the next one it finds when that one is gone.
    ///
    /// # Errors
    /// [`SplitError`].
    pub fn attach(connector: Connector, options: SplitOptions) -> Result<SplitRuntime, SplitError> {
        let remote = Remote::new(options.connections_max).map_err(SplitError::Unreachable)?;
        let mut runtime = SplitRuntime {
            remote,
            options,
            connector,
            clock: MonotonicClock::new(),
            waits: WaitSet::new(),
            watched_at: Time::ZERO,
            next_attempt: Time::ZERO,
            retry_after: RETRY_AFTER,
        };
        runtime.find()?;
        Ok(runtime)
    }

    /// With a link made by hand, and no other to follow.
    #[cfg(feature = "harness")]
    pub(super) fn over(
        link: Link,
        attached: super::handshake::Attached,
        options: SplitOptions,
    ) -> io::Result<SplitRuntime> {
        let nobody = || Err(io::ErrorKind::NotFound.into());
        let remote = Remote::new(options.connections_max)?;
        let mut runtime = SplitRuntime {
            remote,
            options,
            connector: Box::new(nobody),
            clock: MonotonicClock::new(),
            waits: WaitSet::new(),
            watched_at: Time::ZERO,
            next_attempt: Time::ZERO,
            retry_after: RETRY_AFTER,
        };
        runtime.remote.attach(link, attached).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(runtime)
    }

    /// A connector to a named net core: a path, or `@name`.
    pub fn at(path: PathBuf) -> Connector {
        Box::new(move || dial(&path))
    }

    fn find(&mut self) -> Result<(), SplitError> {
        let socket = (self.connector)().map_err(SplitError::Unreachable)?;
        let failed = |fault: Fault| match fault {
            Fault::Closed => SplitError::Unreachable(io::ErrorKind::ConnectionAborted.into()),
            fault => SplitError::Unreachable(io::Error::other(fault.to_string())),
        };
        let patience = |time| set_socket_timeout(&socket, Timeout::Recv, time);
        patience(Some(ATTACH_PATIENCE)).map_err(|error| SplitError::Unreachable(error.into()))?;
        let wish = Attach::new(&self.options);
        send(socket.as_fd(), Wish::Attach(wish), &[]).map_err(failed)?;
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let (attached, files) = match receive::<Reply>(socket.as_fd(), &mut buffer).map_err(failed)? {
            (Reply::Attached(attached), files) => (attached, files),
            (Reply::Refused(why), _) => return Err(SplitError::Refused(why)),
            (Reply::Status(_), _) => return Err(SplitError::Refused("it answers another question".to_owned())),
        };
        let unusable = |error: &dyn fmt::Display| SplitError::Unusable(error.to_string());
        let link = Link::open(socket, &attached, &files).map_err(|error| unusable(&error))?;
        self.remote.attach(link, *attached).map_err(|error| unusable(&error))
    }

    /// Has [`Service::doorbell`] called with `token` whenever `fd` is readable (the service reads it).
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.waits.add(fd, token)
    }

    /// The card's addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.remote.attached().addresses.iter().map(|(address, _)| *address).collect()
    }

    /// The card's MTU.
    pub fn mtu(&self) -> u16 {
        self.remote.attached().mtu
    }

    /// The card's interface: of a veth device, the kernel's end.
    pub fn interface(&self) -> &str {
        &self.remote.attached().interface
    }

    /// The card's driver.
    pub fn driver(&self) -> &str {
        &self.remote.attached().driver
    }

    /// What went between service and net core.
    pub fn figures(&self) -> RemoteFigures {
        self.remote.figures()
    }

    /// Calls `command` with a context outside of an event.
    pub fn with_context<T>(&mut self, command: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = command(&mut Context::of_remote(&mut self.remote, now));
        if self.remote.end_turn().is_err() {
            self.remote.lost();
        }
        // Who calls may not come again for long.
        self.remote.wake_net_core();
        result
    }

    /// One turn: events, then what they caused. Whether anything happened.
    pub fn turn(&mut self, service: &mut dyn Service) -> bool {
        let now = self.clock.now();
        self.remote.wake_net_core();
        let mut handled = false;
        for _ in 0..EVENTS_PER_TURN {
            match self.remote.next_event(now) {
                Ok(Some(event)) => {
                    handled = true;
                    service.handle(event, &mut Context::of_remote(&mut self.remote, now));
                }
                Ok(None) => break,
                Err(Lost) => self.remote.lost(),
            }
        }
        if handled {
            service.turn_ended(&mut Context::of_remote(&mut self.remote, now));
        }
        if self.remote.end_turn().is_err() {
            self.remote.lost();
        }
        handled
    }

    /// As [`Runtime::run`](crate::Runtime::run). A net core that is gone closes every connection; listeners and sockets come
    /// back with the next.
    ///
    /// # Errors
    /// The service's refusal to start, or a failing wait.
    pub fn run<S: Service>(
        &mut self,
        service: &mut S,
        stop: &StopHandle,
        options: RuntimeOptions,
        observe: &mut dyn FnMut(&mut S, &SplitRuntime),
    ) -> Result<(), RuntimeError> {
        self.waits.add(stop.bell(), STOP_TOKEN).map_err(RuntimeError::Wait)?;
        let outcome = self.run_until_stopped(service, stop, options, observe);
        self.waits.remove(STOP_TOKEN);
        outcome
    }

    fn run_until_stopped<S: Service>(
        &mut self,
        service: &mut S,
        stop: &StopHandle,
        options: RuntimeOptions,
        observe: &mut dyn FnMut(&mut S, &SplitRuntime),
    ) -> Result<(), RuntimeError> {
        self.with_context(|context| service.start(context)).map_err(RuntimeError::Start)?;
        let mut spin = Spin::new(options.spin);
        let mut idle_since: Option<Time> = None;
        let mut lifetime = Lifetime::new(options, self.clock.now());
        loop {
            let busy = self.turn(service);
            let now = self.clock.now();
            if lifetime.is_observed(now) {
                observe(service, self);
            }
            if lifetime.stops(now, stop) {
                self.leave(service);
                self.with_context(|context| service.stop(context));
            }
            if lifetime.is_over(now, service) {
                return Ok(());
            }
            if !self.remote.is_attached() && now >= self.next_attempt && !lifetime.is_stopping() {
                // Not found: it is asked for again after a while; the service's timers and doorbells go on.
                self.retry_after = match self.find() {
                    Ok(()) => RETRY_AFTER,
                    Err(_) => {
                        self.remote.lost();
                        (self.retry_after * 2).min(RETRY_AFTER_MAX)
                    }
                };
                self.next_attempt = self.clock.now() + self.retry_after;
            }
            if busy {
                idle_since = None;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            if busy || !spin.should_sleep(idle) {
                if now.since(self.watched_at) >= WATCH_INTERVAL {
                    self.look_at_doorbells(service, stop, Duration::ZERO)?;
                }
                std::hint::spin_loop();
                continue;
            }
            let attempt = (!self.remote.is_attached()).then_some(self.next_attempt);
            let held_back = self.remote.is_held_back().then_some(now + HELD_BACK_WAIT);
            let limits = [self.remote.next_deadline(), attempt, held_back];
            let until = limits.into_iter().flatten().fold(lifetime.next_deadline(), Time::min);
            if self.remote.falls_asleep() {
                self.look_at_doorbells(service, stop, until.since(now))?;
            }
            self.remote.wakes();
            spin.slept(self.clock.now().since(now));
            idle_since = None;
        }
    }

    /// Gives the connections of a service that is to stop up to others that share its listeners, if there are any.
    fn leave(&mut self, service: &mut dyn Service) {
        if !self.options.share || self.options.leave_patience.is_zero() {
            return;
        }
        let until = self.clock.now() + self.options.leave_patience;
        self.remote.ask_for_others();
        while self.remote.is_leaving() && self.clock.now() < until {
            self.turn(service);
            for connection in self.remote.movable() {
                let now = self.clock.now();
                if service.leave(connection, &mut Context::of_remote(&mut self.remote, now)) {
                    self.remote.yield_up(connection);
                }
            }
            self.with_context(|_| ());
            std::thread::sleep(LEAVE_INTERVAL);
        }
    }

    /// Waits on everything, then tells the service which of its doorbells rang.
    fn look_at_doorbells(
        &mut self,
        service: &mut dyn Service,
        stop: &StopHandle,
        timeout: Duration,
    ) -> Result<(), RuntimeError> {
        self.watched_at = self.clock.now();
        let mut rang: Vec<u64> = Vec::new();
        let waited = self.waits.wait(self.remote.socket(), Some(timeout), |token| rang.push(token));
        waited.map_err(RuntimeError::Wait)?;
        if !self.remote.look_at_socket() {
            self.remote.lost();
        }
        for token in rang {
            if !stop.takes(token) {
                self.with_context(|context| service.doorbell(token, context));
            }
        }
        Ok(())
    }
}
