//! The loop that runs a service, for every placement.

use crate::runtime::error::RuntimeError;
use crate::runtime::lifetime::Lifetime;
use crate::runtime::linked::LinkedPlacement;
use crate::runtime::options::RuntimeOptions;
use crate::runtime::pace::Pace;
use crate::runtime::placement::{Placement, WatchInterval};
use crate::runtime::stop::StopHandle;
use crate::service::{Context, Service};
use crate::storage::{Storage, StorageArea};
use crate::wait_set::WaitSet;
use qanat_api::AreaId;
use qanat_nic::{Clock, MonotonicClock, Time};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Tokens of the runtime's own doorbells. A service's tokens are below them.
const STOP_TOKEN: u64 = u64::MAX;
const CARD_TOKEN: u64 = u64::MAX - 1;

/// Runs a service wherever its stack is.
///
/// ```text
///   turn ─ observe? ─ stop? ─ over? ─ anything lost? ─┬─ busy, or not idle for long ─ doorbells, now and then ─┐
///    ▲                                                └─ idle ─ sleep until a doorbell or a deadline ──────────┤
///    └─────────────────────────────────────────────────────────────────────────────────────────────────────────┘
/// ```
pub struct Runtime<P = LinkedPlacement> {
    pub(crate) placement: P,
    storage: Storage,
    clock: MonotonicClock,
    waits: WaitSet,
    turns_since_watch: u32,
    watched_at: Time,
    has_started: bool,
}

impl<P: Placement> Runtime<P> {
    /// A runtime that reads `clock`.
    pub(crate) fn of(placement: P, clock: MonotonicClock) -> Runtime<P> {
        Runtime {
            placement,
            storage: Storage::default(),
            clock,
            waits: WaitSet::new(),
            turns_since_watch: 0,
            watched_at: Time::ZERO,
            has_started: false,
        }
    }

    /// Has [`Service::doorbell`] called with `token` whenever `fd` is readable. The service reads it.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.waits.add(fd, token)
    }

    /// Ends the watch over what was given with `token`.
    pub fn unwatch(&mut self, token: u64) {
        self.waits.of(token).for_each(|fd| self.placement.forgets(fd));
        self.waits.remove(token);
    }

    /// Sends what is left, for a program that takes its own turns and is about to end.
    pub fn finish(&mut self) {
        self.with_context(|_| ());
        self.placement.finish(self.clock.now());
    }

    /// Gives the service a storage area, by the handle that is returned: the first is `AreaId::new(0, 0)`, the next is
    /// `AreaId::new(1, 0)`. The queue pair is used on the thread that runs the service.
    pub fn add_area(&mut self, area: StorageArea) -> AreaId {
        self.storage.add(area)
    }

    /// Gives the service these areas instead of those that were there.
    pub fn use_storage(&mut self, storage: Storage) {
        self.storage = storage;
    }

    /// Takes the areas away from a service that has ended, for the next one. What is under way is waited for.
    pub fn take_storage(&mut self) -> Storage {
        let mut storage = std::mem::take(&mut self.storage);
        storage.settle();
        storage
    }

    /// The service's storage areas, for their statistics.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Ends [`run`](Runtime::run) when `fd`, a card's, is readable.
    pub(crate) fn ends_with(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.waits.add(fd, CARD_TOKEN)
    }

    /// The time, by the clock that events are handled by.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Calls `command` with a context outside of an event, then sends what it caused.
    pub fn with_context<T>(&mut self, command: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let now = self.clock.now();
        let result = command(&mut self.placement.context(&mut self.storage, now));
        self.storage.ring();
        self.placement.flush(now);
        result
    }

    /// Calls `command` with a context outside of an event. What it causes leaves with the next turn. `now`: when the last turn was, for
    /// whoever gives several commands and does not want to read the clock for each.
    #[inline]
    pub fn between_turns<T>(&mut self, now: Time, command: impl FnOnce(&mut Context<'_>) -> T) -> T {
        command(&mut self.placement.context(&mut self.storage, now))
    }

    /// Runs one turn: receive, handle, transmit. Never blocks. Returns whether anything happened.
    #[inline]
    pub fn turn<S: Service + ?Sized>(&mut self, service: &mut S) -> bool {
        let handled = self.placement.turn(service, &mut self.storage, &self.clock);
        self.storage.ring();
        handled
    }

    /// Has `service` start. [`run`](Runtime::run) does this if it has not been done. A service that has started listens, on every
    /// net core if its stack is in net cores: call this first if something is to be told between the start and the run.
    ///
    /// # Errors
    /// The service refuses to start.
    pub fn start<S: Service>(&mut self, service: &mut S) -> Result<(), RuntimeError> {
        self.with_context(|context| service.start(context)).map_err(RuntimeError::Start)?;
        self.has_started = true;
        Ok(())
    }

    /// Runs `service` until it is asked to stop and has finished, or the grace period is over. `observe` is called
    /// every [`RuntimeOptions::observe_every`], on this thread: it must be quick. With a stack in net cores, the end of a net core closes
    /// every connection there. Listeners and sockets come back with the next net core.
    ///
    /// # Errors
    /// The service refuses to start, a wait fails, an interface or a card is gone, or there has been no net core for
    /// [`PATIENCE`](crate::split::PATIENCE).
    pub fn run<S: Service>(
        &mut self,
        service: &mut S,
        stop: &StopHandle,
        options: RuntimeOptions,
        observe: &mut dyn FnMut(&mut S, &Runtime<P>),
    ) -> Result<(), RuntimeError> {
        self.waits.add(stop.doorbell(), STOP_TOKEN).map_err(RuntimeError::Wait)?;
        let outcome = self.run_until_stopped(service, stop, options, observe);
        self.waits.remove(STOP_TOKEN);
        outcome
    }

    fn run_until_stopped<S: Service>(
        &mut self,
        service: &mut S,
        stop: &StopHandle,
        options: RuntimeOptions,
        observe: &mut dyn FnMut(&mut S, &Runtime<P>),
    ) -> Result<(), RuntimeError> {
        if !self.has_started {
            self.start(service)?;
        }
        self.has_started = false;
        let mut pace = Pace::new(options.spin);
        let mut lifetime = Lifetime::new(options, self.clock.now());
        loop {
            let busy = self.turn(service);
            let now = self.clock.now();
            if lifetime.is_observed(now) {
                observe(service, self);
                self.placement.check()?;
            }
            if lifetime.stops(now, stop) {
                self.placement.leave(service, &mut self.storage, &self.clock);
                self.with_context(|context| service.stop(context));
            }
            if lifetime.is_over(now, service) {
                self.placement.finish(now);
                return Ok(());
            }
            let attempt = if lifetime.is_stopping() { None } else { self.placement.recover(now)? };
            let until = attempt.into_iter().fold(lifetime.next_deadline(), Time::min);
            self.pause(service, Some(stop), &mut pace, busy, now, until)?;
        }
    }

    /// Takes turns until `has_news` says that the service has what its program waits for, or until `until`; at least one. Returns the time
    /// of the last. It is for programs that have a loop of their own: [`run`](Runtime::run) is that loop for all others. `pace` is the
    /// same for each call.
    ///
    /// # Errors
    /// As [`run`](Runtime::run), but for the start: the program starts its service itself.
    pub fn run_until<S: Service>(
        &mut self,
        service: &mut S,
        pace: &mut Pace,
        until: Time,
        has_news: impl Fn(&S) -> bool,
    ) -> Result<Time, RuntimeError> {
        if let Some(error) = pace.take_error() {
            return Err(error);
        }
        match self.turns_until(service, pace, until, &has_news) {
            // Events are told before the end.
            Err(error) if has_news(service) => {
                pace.keep_error(error);
                Ok(self.clock.now())
            }
            outcome => outcome,
        }
    }

    fn turns_until<S: Service>(
        &mut self,
        service: &mut S,
        pace: &mut Pace,
        until: Time,
        has_news: &impl Fn(&S) -> bool,
    ) -> Result<Time, RuntimeError> {
        loop {
            let busy = self.turn(service);
            let now = self.clock.now();
            if pace.is_check_due(now) {
                self.placement.check()?;
            }
            let attempt = self.placement.recover(now)?;
            if has_news(service) {
                pace.is_busy();
                return self.watch_in_passing(service, None, now).map(|()| now);
            }
            if now >= until {
                // Whoever does not wait is told of doorbells all the same, and of what the placement tells only when asked.
                self.look_at_doorbells(service, None, Duration::ZERO)?;
                if P::IS_ASKED {
                    self.turn(service);
                }
                return Ok(now);
            }
            let until = attempt.into_iter().fold(until.min(pace.next_check()), Time::min);
            self.pause(service, None, pace, busy, now, until)?;
            if has_news(service) {
                return Ok(self.clock.now());
            }
        }
    }

    /// After a turn: goes on at once, or sleeps until something happens or until `until`, as it has been busy or idle.
    #[inline]
    fn pause<S: Service>(
        &mut self,
        service: &mut S,
        stop: Option<&StopHandle>,
        pace: &mut Pace,
        busy: bool,
        now: Time,
        until: Time,
    ) -> Result<(), RuntimeError> {
        if busy {
            pace.is_busy();
            self.watch_in_passing(service, stop, now)?;
            if P::PAUSES_WHEN_BUSY {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        if !pace.is_to_sleep(now) || !self.placement.can_sleep() || !self.storage.can_sleep() {
            self.watch_in_passing(service, stop, now)?;
            std::hint::spin_loop();
            return Ok(());
        }
        let until = self.placement.next_deadline(now).into_iter().fold(until, Time::min);
        if self.placement.falls_asleep() {
            self.look_at_doorbells(service, stop, until.since(now))?;
        }
        self.placement.wakes();
        pace.has_slept(self.clock.now().since(now));
        Ok(())
    }

    /// Looks at doorbells without waiting, if it is time to.
    #[inline]
    fn watch_in_passing<S: Service>(
        &mut self,
        service: &mut S,
        stop: Option<&StopHandle>,
        now: Time,
    ) -> Result<(), RuntimeError> {
        let is_due = match P::WATCH_INTERVAL {
            WatchInterval::Turns(turns) => {
                self.turns_since_watch += 1;
                self.turns_since_watch >= turns
            }
            WatchInterval::Time(interval) => now.since(self.watched_at) >= interval,
        };
        if is_due || self.placement.others_rang() {
            self.look_at_doorbells(service, stop, Duration::ZERO)
        } else {
            Ok(())
        }
    }

    /// Waits on everything, then tells the service which of its doorbells rang.
    fn look_at_doorbells<S: Service>(
        &mut self,
        service: &mut S,
        stop: Option<&StopHandle>,
        timeout: Duration,
    ) -> Result<(), RuntimeError> {
        match P::WATCH_INTERVAL {
            WatchInterval::Turns(_) => self.turns_since_watch = 0,
            WatchInterval::Time(_) => self.watched_at = self.clock.now(),
        }
        let mut rang: Vec<u64> = Vec::new();
        let waits = !timeout.is_zero();
        let others = || self.waits.descriptors().chain(self.storage.doorbells());
        if waits && self.placement.sleeps(others(), timeout) {
            return Ok(());
        }
        if !waits {
            self.placement.looks();
        }
        // A runtime that does not wait looks at its disks anyway.
        let disks = waits.then(|| self.storage.doorbells()).into_iter().flatten();
        let doorbells = self.placement.doorbells(waits).chain(disks);
        self.waits.wait(doorbells, Some(timeout), |token| rang.push(token)).map_err(RuntimeError::Wait)?;
        self.placement.has_waited();
        for token in rang {
            match token {
                STOP_TOKEN => stop.into_iter().for_each(StopHandle::silence),
                CARD_TOKEN => return Err(RuntimeError::CardGone),
                token => self.with_context(|context| service.doorbell(token, context)),
            }
        }
        Ok(())
    }
}
