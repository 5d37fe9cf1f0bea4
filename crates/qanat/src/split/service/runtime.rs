//! The split placement's loop on the service's side.

use crate::lifetime::Lifetime;
use crate::runtime::{RuntimeError, RuntimeOptions, STOP_TOKEN, StopHandle};
use crate::service::{Context, Service};
use crate::spin::Spin;
use crate::split::handshake::Attach;
use crate::split::net_core::core::dial;
use crate::split::service::link::{Link, Lost};
use crate::split::service::remote::Remote;
use crate::split::service::remote::RemoteFigures;
use crate::split::service::remotes::Remotes;
use crate::split::service::seek::{Found, Seeker};
use crate::wait_set::WaitSet;
use qanat_nic::{Clock, MonotonicClock, Time};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Events of one turn at most: output is not to wait for a flood's end.
const EVENTS_PER_TURN: usize = 1_024;
/// Doorbells are looked at so often while there is no time to sleep.
const WATCH_INTERVAL: Duration = Duration::from_micros(250);
/// How long giving connections up may take.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks while they are.
const LEAVE_INTERVAL: Duration = Duration::from_micros(100);
/// How long a service that has lost its card, or every net core, waits for the next (docs/integration.md says so).
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Something waits for room, of which nobody tells.
const HELD_BACK_WAIT: Duration = Duration::from_millis(1);

/// Finds, or starts, a net core: a connected socket to it. Called from another thread when one has been lost: it may take its
/// time.
pub type Connector = Box<dyn FnMut() -> io::Result<OwnedFd> + Send>;

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
    /// There is to be none: why, and the remedy.
    Forbidden(String),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::Unreachable(error) => {
                write!(f, "no net core: {error}; `qanat net` starts one, and `--net SOCKET` names its socket")
            }
            SplitError::Refused(why) => write!(f, "the net core refuses: {why}"),
            SplitError::Forbidden(why) => f.write_str(why),
            SplitError::Unusable(why) => write!(f, "the net core's memory: {why}"),
        }
    }
}

impl std::error::Error for SplitError {}

/// Runs a service whose stack is on a net core, or whose stacks are on several.
pub struct SplitRuntime {
    remotes: Remotes,
    /// Of each net core.
    seekers: Vec<Seeker>,
    options: SplitOptions,
    clock: MonotonicClock,
    waits: WaitSet,
    watched_at: Time,
    has_started: bool,
    /// Since when no net core is attached.
    alone_since: Option<Time>,
}

impl SplitRuntime {
    /// Attaches to the net core that `connector` finds; to the next one it finds when that one is gone.
    ///
    /// # Errors
    /// [`SplitError`].
    pub fn attach(connector: Connector, options: SplitOptions) -> Result<SplitRuntime, SplitError> {
        let address = options.address;
        SplitRuntime::attach_all(vec![(connector, address)], options)
    }

    /// As [`attach`](SplitRuntime::attach), to several, each with a card of its own, which may be named by an address it has.
    /// One that dies closes its own connections; the others go on.
    ///
    /// # Errors
    /// [`SplitError`], of the first that cannot be had.
    pub fn attach_all(
        connectors: Vec<(Connector, Option<IpAddr>)>,
        options: SplitOptions,
    ) -> Result<SplitRuntime, SplitError> {
        let seekers = connectors.into_iter().map(|(connector, address)| {
            let options = SplitOptions { address, ..options.clone() };
            Seeker::new(connector, Attach::new(&options))
        });
        let mut runtime = SplitRuntime::with(seekers.collect(), options).map_err(SplitError::Unreachable)?;
        for number in 0..runtime.seekers.len() {
            let Some(seeker) = runtime.seekers.get(number) else { break };
            let found = seeker.find()?;
            runtime.enter(number, found)?;
        }
        Ok(runtime)
    }

    fn with(seekers: Vec<Seeker>, options: SplitOptions) -> io::Result<SplitRuntime> {
        Ok(SplitRuntime {
            remotes: Remotes::new(seekers.len(), options.connections_max)?,
            seekers,
            options,
            clock: MonotonicClock::new(),
            waits: WaitSet::new(),
            watched_at: Time::ZERO,
            has_started: false,
            alone_since: None,
        })
    }

    /// With a link made by hand, and no other to follow.
    #[cfg(feature = "harness")]
    pub(crate) fn over(
        link: Link,
        attached: crate::split::handshake::Attached,
        options: SplitOptions,
    ) -> io::Result<SplitRuntime> {
        let seeker = Seeker::new(Box::new(|| Err(io::ErrorKind::NotFound.into())), Attach::new(&options));
        let mut runtime = SplitRuntime::with(vec![seeker], options)?;
        let part = runtime.remotes.part(0).ok_or(io::ErrorKind::NotFound)?;
        part.attach(link, attached).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(runtime)
    }

    /// A connector to a named net core: a path, or `@name`.
    pub fn at(path: PathBuf) -> Connector {
        Box::new(move || dial(&path))
    }

    /// Uses what a net core has given.
    fn enter(&mut self, number: usize, found: Found) -> Result<(), SplitError> {
        let Found { socket, attached, files } = found;
        let unusable = |error: &dyn fmt::Display| SplitError::Unusable(error.to_string());
        let link = Link::open(socket, &attached, &files).map_err(|error| unusable(&error))?;
        let Some(part) = self.remotes.part(number) else { return Ok(()) };
        part.attach(link, *attached).map_err(|error| unusable(&error))
    }

    /// Looks for net cores that are gone: each is asked for again after a while; the others, the service's timers and its
    /// doorbells go on meanwhile. When to look again, if something is missing.
    fn seek(&mut self, now: Time) -> Result<Option<Time>, RuntimeError> {
        let mut next = None;
        for number in 0..self.seekers.len() {
            // One that said why there is to be no other is not replaced.
            let is_settled =
                self.remotes.part(number).is_none_or(|part| part.is_attached() || part.last_word.is_some());
            let Some(seeker) = self.seekers.get_mut(number).filter(|_| !is_settled) else { continue };
            if let Some(found) = seeker.seek(now) {
                let is_in = self.enter(number, found).is_ok();
                if !is_in {
                    self.remotes.part(number).into_iter().for_each(Remote::lost);
                }
                self.seekers.get_mut(number).into_iter().for_each(|seeker| seeker.has_tried(is_in, now));
            }
            let at = self.seekers.get(number).map(|seeker| seeker.next_look(now));
            next = next.into_iter().chain(at).min();
        }
        self.check_hope(now).map(|()| next)
    }

    /// Whether there is a net core, or may be one soon.
    fn check_hope(&mut self, now: Time) -> Result<(), RuntimeError> {
        if self.remotes.all().any(Remote::is_attached) {
            self.alone_since = None;
            return Ok(());
        }
        if let Some(why) = self.remotes.all().find_map(|part| part.last_word.as_ref()) {
            return Err(RuntimeError::NetCoreGone(format!("the card is gone, with all its connections: {why}")));
        }
        let since = *self.alone_since.get_or_insert(now);
        let failures = || self.seekers.iter().filter_map(Seeker::failure);
        if let Some(why) = failures().find(|failure| matches!(failure, SplitError::Forbidden(_))) {
            return Err(RuntimeError::NetCoreGone(format!("the net core is gone, and there is no other: {why}")));
        }
        if now.since(since) < PATIENCE {
            return Ok(());
        }
        let last = failures().next().map_or_else(String::new, |failure| format!(": {failure}"));
        Err(RuntimeError::NetCoreGone(format!(
            "the net core is gone, and there was no other for {} s{last}; then start the service again",
            PATIENCE.as_secs()
        )))
    }

    /// Has [`Service::doorbell`] called with `token` whenever `fd` is readable (the service reads it).
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.waits.add(fd, token)
    }

    /// The cards' addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.remotes.addresses()
    }

    /// The MTU that every card has.
    pub fn mtu(&self) -> u16 {
        self.remotes.mtu()
    }

    /// The (first) card's interface: of a veth device, the kernel's end.
    pub fn interface(&self) -> &str {
        &self.remotes.first().attached().interface
    }

    /// The (first) card's driver.
    pub fn driver(&self) -> &str {
        &self.remotes.first().attached().driver
    }

    /// What went between service and net cores.
    pub fn figures(&self) -> RemoteFigures {
        self.remotes.figures()
    }

    /// Net cores attached now.
    pub fn net_cores(&self) -> usize {
        self.remotes.all().filter(|part| part.is_attached()).count()
    }

    /// Net cores that there are to be.
    pub fn net_cores_wanted(&self) -> usize {
        self.remotes.count()
    }

    fn end_turn(&mut self) {
        for part in self.remotes.all_mut() {
            if part.end_turn().is_err() {
                part.lost();
            }
        }
    }

    /// Calls `command` with a context outside of an event.
    pub fn with_context<T>(&mut self, command: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = command(&mut Context::of_remote(&mut self.remotes, now));
        self.end_turn();
        // Who calls may not come again for long.
        self.remotes.all_mut().for_each(Remote::wake_net_core);
        result
    }

    /// One turn: events, then what they caused. Whether anything happened.
    pub fn turn(&mut self, service: &mut dyn Service) -> bool {
        let now = self.clock.now();
        let mut handled = false;
        // As many of each, whoever floods us.
        let share = EVENTS_PER_TURN / self.remotes.count();
        for number in 0..self.remotes.count() {
            self.remotes.part(number).into_iter().for_each(Remote::wake_net_core);
            for _ in 0..share {
                match self.remotes.next_event(number, now) {
                    Ok(Some(event)) => {
                        handled = true;
                        service.handle(event, &mut Context::of_remote(&mut self.remotes, now));
                    }
                    Ok(None) => break,
                    Err(Lost) => self.remotes.part(number).into_iter().for_each(Remote::lost),
                }
            }
        }
        if handled {
            service.turn_ended(&mut Context::of_remote(&mut self.remotes, now));
        }
        self.end_turn();
        handled
    }

    /// As [`Runtime::start`](crate::Runtime::start): it listens on every net core then.
    ///
    /// # Errors
    /// The service's refusal to start.
    pub fn start(&mut self, service: &mut impl Service) -> Result<(), RuntimeError> {
        self.with_context(|context| service.start(context)).map_err(RuntimeError::Start)?;
        self.has_started = true;
        Ok(())
    }

    /// As [`Runtime::run`](crate::Runtime::run). A net core that is gone closes every connection; listeners and sockets come
    /// back with the next.
    ///
    /// # Errors
    /// The service's refusal to start, a failing wait, or no net core for [`PATIENCE`].
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
        if !std::mem::take(&mut self.has_started) {
            self.with_context(|context| service.start(context)).map_err(RuntimeError::Start)?;
        }
        let mut spin = Spin::new(options.spin);
        let mut idle_since: Option<Time> = None;
        let mut lifetime = Lifetime::new(options, self.clock.now());
        loop {
            let busy = self.turn(service);
            let now = self.clock.now();
            if lifetime.is_observed(now) {
                observe(service, self);
                if let Some((address, holder)) = self.remotes.lost_address() {
                    return Err(RuntimeError::AddressTaken { address, holder });
                }
            }
            if lifetime.stops(now, stop) {
                self.leave(service);
                self.with_context(|context| service.stop(context));
            }
            if lifetime.is_over(now, service) {
                return Ok(());
            }
            let attempt = if lifetime.is_stopping() { None } else { self.seek(now)? };
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
            let held_back = self.remotes.all().any(Remote::is_held_back).then_some(now + HELD_BACK_WAIT);
            let deadlines = self.remotes.all().filter_map(Remote::next_deadline);
            let limits = [attempt, held_back].into_iter().flatten().chain(deadlines);
            let until = limits.fold(lifetime.next_deadline(), Time::min);
            if self.remotes.all_mut().all(Remote::falls_asleep) {
                self.look_at_doorbells(service, stop, until.since(now))?;
            }
            self.remotes.all_mut().for_each(Remote::wakes);
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
        self.remotes.all_mut().for_each(Remote::ask_for_others);
        while self.remotes.all_mut().any(Remote::is_leaving) && self.clock.now() < until {
            self.turn(service);
            for connection in self.remotes.movable() {
                let now = self.clock.now();
                if service.leave(connection, &mut Context::of_remote(&mut self.remotes, now)) {
                    self.remotes.yield_up(connection);
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
        let waited = self.waits.wait(self.remotes.sockets_of_all(), Some(timeout), |token| rang.push(token));
        waited.map_err(RuntimeError::Wait)?;
        for part in self.remotes.all_mut() {
            if !part.look_at_socket() {
                part.lost();
            }
        }
        for token in rang {
            if !stop.takes(token) {
                self.with_context(|context| service.doorbell(token, context));
            }
        }
        Ok(())
    }
}
