//! The linked placement: stack, driver and service in one thread, run to completion.

use crate::lifetime::Lifetime;
use crate::service::{Context, Service};
use crate::spin::{Spin, SpinPolicy};
use crate::wait_set::{Doorbell, WaitSet};
use qanat_control::card_watch::CardWatch;
use qanat_nic::breakdown::{self, Phase};
use qanat_nic::{Clock, MonotonicClock, Time, Vnic};
use qanat_stack::{Chunk, Config, Handler, Stack, UdpSocketId};
use qanat_wire::ethernet::MacAddress;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tokens of the runtime's own doorbells; a service's are below.
pub(crate) const STOP_TOKEN: u64 = u64::MAX;
const CARD_TOKEN: u64 = u64::MAX - 1;
/// Doorbells are looked at once in so many turns while traffic keeps the runtime from sleeping.
const WATCH_INTERVAL_TURNS: u32 = 256;

/// A request to stop, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    requested: Arc<AtomicBool>,
    doorbell: Doorbell,
}

impl StopHandle {
    /// Not yet requested.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn new() -> io::Result<StopHandle> {
        Ok(StopHandle { requested: Arc::new(AtomicBool::new(false)), doorbell: Doorbell::new()? })
    }

    /// Asks the runtime to stop gracefully.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        self.doorbell.ring();
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// Silences the bell if it is the one that rang.
    pub(crate) fn takes(&self, token: u64) -> bool {
        if token == STOP_TOKEN {
            self.doorbell.take();
        }
        token == STOP_TOKEN
    }

    /// Whether stopping was asked for.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }
}

/// How a runtime behaves.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeOptions {
    /// When to sleep.
    pub spin: SpinPolicy,
    /// How long a stopping service may finish what is under way.
    pub grace: Duration,
    /// How often the observer is called.
    pub observe_every: Duration,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions {
            spin: SpinPolicy::Adaptive,
            grace: Duration::from_secs(10),
            observe_every: Duration::from_secs(1),
        }
    }
}

/// Why a runtime stopped before it was asked to.
#[derive(Debug)]
pub enum RuntimeError {
    /// The service could not start; its message.
    Start(String),
    /// Waiting failed.
    Wait(io::Error),
    /// Another host on the link has an address that was asked for.
    AddressTaken {
        /// Which.
        address: IpAddr,
        /// Whose.
        holder: MacAddress,
    },
    /// The interface has been deleted.
    InterfaceGone,
    /// The daemon's card is no more, whose [`CardWatch`] knows why, or is about to.
    CardGone,
    /// There is no net core any more, and no other: why, and the remedy.
    NetCoreGone(String),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::Start(message) | RuntimeError::NetCoreGone(message) => f.write_str(message),
            RuntimeError::Wait(error) => write!(f, "waiting for events failed: {error}"),
            RuntimeError::AddressTaken { address, holder } => write!(
                f,
                "another host on the link, {holder}, has the address {address}: choose another (--address), or take it from that host \
                 (`ip neigh` shows where it is)"
            ),
            RuntimeError::InterfaceGone => f.write_str(
                "the network interface was deleted under the service, with all its connections: make it again, or look why its \
                 daemon took it away (`qanat status`), and start the service again",
            ),
            RuntimeError::CardGone => f.write_str(
                "the daemon's card is gone, with all its connections: look why in the daemon's log, and start the service again",
            ),
        }
    }
}

impl std::error::Error for RuntimeError {}

/// A service that datagrams are handed to.
struct Served<'s, S: ?Sized> {
    service: &'s mut S,
    now: Time,
}

impl<S: Service + ?Sized> Handler for Served<'_, S> {
    #[inline(always)]
    fn datagram(
        &mut self,
        stack: &mut Stack,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
    ) {
        let _service = breakdown::span(Phase::Service);
        self.service.datagram(socket, peer, chunk, &mut Context::new(stack, vnic, self.now));
    }
}

/// Stack, device and clock of one core, and the loop that runs a service on them.
pub struct Runtime {
    stack: Stack,
    vnic: Box<dyn Vnic>,
    clock: MonotonicClock,
    waits: WaitSet,
    watch_turns: u32,
    has_started: bool,
    /// Of a daemon's card.
    card: Option<Arc<CardWatch>>,
}

impl Runtime {
    /// A runtime over `vnic`. `entropy` must be unpredictable ([`entropy`](crate::entropy)) outside of tests.
    pub fn new(vnic: Box<dyn Vnic>, config: Config, entropy: [u8; 32]) -> Runtime {
        let clock = MonotonicClock::new();
        let stack = Stack::new(config, entropy, vnic.as_ref(), clock.now());
        Runtime { stack, vnic, clock, waits: WaitSet::new(), watch_turns: 0, has_started: false, card: None }
    }

    /// Has [`Service::doorbell`] called with `token` whenever `fd` is readable (the service reads it).
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.waits.add(fd, token)
    }

    /// Ends [`run`](Runtime::run) when the card that is watched does.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn watch_card(&mut self, card: &Arc<CardWatch>) -> io::Result<()> {
        self.waits.add(card.bell(), CARD_TOKEN)?;
        self.card = Some(Arc::clone(card));
        Ok(())
    }

    /// The stack, for its statistics.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The device, for its statistics.
    pub fn vnic(&self) -> &dyn Vnic {
        self.vnic.as_ref()
    }

    /// The time since the runtime was made.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Calls `command` with a context outside of an event, then sends what it caused.
    pub fn with_context<T>(&mut self, command: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = command(&mut Context::new(&mut self.stack, self.vnic.as_mut(), now));
        self.stack.transmit(now, self.vnic.as_mut());
        result
    }

    /// Runs one turn: receive, handle, transmit. Never blocks. Returns whether anything happened.
    pub fn turn<S: Service + ?Sized>(&mut self, service: &mut S) -> bool {
        breakdown::turn_begins();
        let now = self.clock.now();
        let received = {
            let _stack = breakdown::span(Phase::StackIn);
            self.stack.receive_with(now, self.vnic.as_mut(), &mut Served { service: &mut *service, now })
        };
        let mut handled = received > 0;
        while let Some(event) = self.stack.next_event() {
            handled = true;
            let _service = breakdown::span(Phase::Service);
            service.handle(event, &mut Context::new(&mut self.stack, self.vnic.as_mut(), now));
        }
        if handled {
            let _service = breakdown::span(Phase::Service);
            service.turn_ended(&mut Context::new(&mut self.stack, self.vnic.as_mut(), now));
        }
        {
            let _stack = breakdown::span(Phase::StackOut);
            self.stack.transmit(now, self.vnic.as_mut());
        }
        breakdown::turn_ends(handled);
        handled
    }

    /// Has `service` start, before [`run`](Runtime::run), which does it otherwise. Then it listens: who has to tell that it can be
    /// reached does so in between.
    ///
    /// # Errors
    /// The service's refusal to start.
    pub fn start(&mut self, service: &mut impl Service) -> Result<(), RuntimeError> {
        self.with_context(|context| service.start(context)).map_err(RuntimeError::Start)?;
        self.has_started = true;
        Ok(())
    }

    /// Runs `service` until it is asked to stop and has finished, or the grace period is over. `observe` is called
    /// every [`RuntimeOptions::observe_every`], on this thread: it must be quick.
    ///
    /// # Errors
    /// The service's refusal to start, a failing wait, or an interface or a card that is gone.
    pub fn run<S: Service>(
        &mut self,
        service: &mut S,
        stop: &StopHandle,
        options: RuntimeOptions,
        observe: &mut dyn FnMut(&mut S, &Runtime),
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
        observe: &mut dyn FnMut(&mut S, &Runtime),
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
                if let Some((address, holder)) = self.stack.lost_address() {
                    return Err(RuntimeError::AddressTaken { address, holder });
                }
                if self.vnic.is_gone() {
                    let is_daemons = self.card.is_some();
                    return Err(if is_daemons { RuntimeError::CardGone } else { RuntimeError::InterfaceGone });
                }
            }
            if lifetime.stops(now, stop) {
                self.with_context(|context| service.stop(context));
            }
            if lifetime.is_over(now, service) {
                self.stack.transmit_last(now, self.vnic.as_mut());
                return Ok(());
            }
            if busy {
                idle_since = None;
                self.watch_turns += 1;
                if self.watch_turns >= WATCH_INTERVAL_TURNS {
                    self.look_at_doorbells(service, stop, Some(Duration::ZERO))?;
                }
                continue;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            if spin.should_sleep(idle) && self.vnic.doorbell().is_some() {
                let until = lifetime.next_deadline();
                let until = self.stack.next_deadline().map_or(until, |deadline| deadline.min(until));
                self.look_at_doorbells(service, stop, Some(until.since(now)))?;
                spin.slept(self.clock.now().since(now));
                idle_since = None;
            } else {
                self.watch_turns += 1;
                if self.watch_turns >= WATCH_INTERVAL_TURNS {
                    self.look_at_doorbells(service, stop, Some(Duration::ZERO))?;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Waits on everything, then tells the service which of its doorbells rang.
    fn look_at_doorbells(
        &mut self,
        service: &mut dyn Service,
        stop: &StopHandle,
        timeout: Option<Duration>,
    ) -> Result<(), RuntimeError> {
        self.watch_turns = 0;
        let mut rang: Vec<u64> = Vec::new();
        // Who does not wait reads the card anyway, and needs not have its bell rung.
        let bell = if timeout == Some(Duration::ZERO) { None } else { self.vnic.doorbell() };
        self.waits.wait(bell, timeout, |token| rang.push(token)).map_err(RuntimeError::Wait)?;
        for token in rang {
            if token == CARD_TOKEN {
                return Err(RuntimeError::CardGone);
            }
            if !stop.takes(token) {
                self.with_context(|context| service.doorbell(token, context));
            }
        }
        Ok(())
    }
}
