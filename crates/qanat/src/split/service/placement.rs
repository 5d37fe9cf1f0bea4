//! The split placement: the service's stack is on a net core, or its stacks are on several.

use crate::runtime::{Placement, RuntimeError, Sealed, WatchInterval};
use crate::service::{Context, Service};
use crate::split::service::error::SplitError;
use crate::split::service::link::{Link, Lost};
use crate::split::service::options::SplitOptions;
use crate::split::service::remote::Remote;
use crate::split::service::remotes::Remotes;
use crate::split::service::seek::{Found, Seeker};
use crate::storage::Storage;
use qanat_nic::{Clock, MonotonicClock, Time};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A turn takes at most so many events: a flood must not keep output waiting.
const EVENTS_PER_TURN: usize = 1_024;
/// Between two looks while connections are given up.
const LEAVE_INTERVAL: Duration = Duration::from_micros(100);
/// How long a service that has lost its card, or every net core, waits for the next (docs/integration.md says so).
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long something waits for room: nobody tells when there is some.
const HELD_BACK_WAIT: Duration = Duration::from_millis(1);

/// Where a service's stack is if it is on net cores.
pub struct SplitPlacement {
    pub(crate) remotes: Remotes,
    /// One for each net core.
    seekers: Vec<Seeker>,
    options: SplitOptions,
    /// Since when no net core is attached.
    alone_since: Option<Time>,
}

impl SplitPlacement {
    pub(crate) fn new(seekers: Vec<Seeker>, options: SplitOptions) -> io::Result<SplitPlacement> {
        Ok(SplitPlacement {
            remotes: Remotes::new(seekers.len(), options.connections_max)?,
            seekers,
            options,
            alone_since: None,
        })
    }

    /// Finds every net core here and now.
    pub(crate) fn find_all(&mut self) -> Result<(), SplitError> {
        for number in 0..self.seekers.len() {
            let Some(seeker) = self.seekers.get(number) else { break };
            let found = seeker.find()?;
            self.enter(number, found)?;
        }
        Ok(())
    }

    /// Uses what a net core has given.
    fn enter(&mut self, number: usize, found: Found) -> Result<(), SplitError> {
        let Found { socket, attached, files } = found;
        let unusable = |error: &dyn fmt::Display| SplitError::Unusable(error.to_string());
        let link = Link::open(socket, &attached, &files).map_err(|error| unusable(&error))?;
        let Some(part) = self.remotes.part(number) else { return Ok(()) };
        part.attach(link, *attached).map_err(|error| unusable(&error))
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

    fn end_turn(&mut self) {
        for part in self.remotes.all_mut() {
            if part.end_turn().is_err() {
                part.lost();
            }
        }
    }
}

impl Sealed for SplitPlacement {}

impl Placement for SplitPlacement {
    const WATCH_INTERVAL: WatchInterval = WatchInterval::Time(Duration::from_micros(250));
    const PAUSES_WHEN_BUSY: bool = true;

    #[inline]
    fn context<'a>(&'a mut self, storage: &'a mut Storage, now: Time) -> Context<'a> {
        Context::of_remote(&mut self.remotes, storage, now)
    }

    fn flush(&mut self, _now: Time) {
        self.end_turn();
        // The caller may not come again for long.
        self.remotes.all_mut().for_each(Remote::wake_net_core);
    }

    fn turn<S: Service + ?Sized>(&mut self, service: &mut S, storage: &mut Storage, clock: &MonotonicClock) -> bool {
        let now = clock.now();
        let mut handled = storage.deliver(|event, storage| {
            service.handle(event, &mut Context::of_remote(&mut self.remotes, storage, now));
        });
        // Each net core has an equal share, so that none can crowd out the others.
        let share = EVENTS_PER_TURN / self.remotes.count();
        for number in 0..self.remotes.count() {
            self.remotes.part(number).into_iter().for_each(Remote::wake_net_core);
            for _ in 0..share {
                match self.remotes.next_event(number, now) {
                    Ok(Some(event)) => {
                        handled = true;
                        service.handle(event, &mut Context::of_remote(&mut self.remotes, storage, now));
                    }
                    Ok(None) => break,
                    Err(Lost) => self.remotes.part(number).into_iter().for_each(Remote::lost),
                }
            }
        }
        if handled {
            service.turn_ended(&mut Context::of_remote(&mut self.remotes, storage, now));
        }
        self.end_turn();
        handled
    }

    fn check(&self) -> Result<(), RuntimeError> {
        let lost = self.remotes.lost_address();
        lost.map_or(Ok(()), |(address, holder)| Err(RuntimeError::AddressTaken { address, holder }))
    }

    /// Each net core that is gone is asked for again after a while. The others, the service's timers and its doorbells go on meanwhile.
    fn recover(&mut self, now: Time) -> Result<Option<Time>, RuntimeError> {
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

    fn leave<S: Service>(&mut self, service: &mut S, storage: &mut Storage, clock: &MonotonicClock) {
        if !self.options.share || self.options.leave_patience.is_zero() {
            return;
        }
        let until = clock.now() + self.options.leave_patience;
        self.remotes.all_mut().for_each(Remote::ask_for_others);
        while self.remotes.all_mut().any(Remote::is_leaving) && clock.now() < until {
            self.turn(service, storage, clock);
            storage.ring();
            for connection in self.remotes.movable() {
                let now = clock.now();
                if service.leave(connection, &mut Context::of_remote(&mut self.remotes, storage, now)) {
                    self.remotes.yield_up(connection);
                }
            }
            self.flush(clock.now());
            std::thread::sleep(LEAVE_INTERVAL);
        }
    }

    fn falls_asleep(&mut self) -> bool {
        self.remotes.all_mut().all(Remote::falls_asleep)
    }

    fn wakes(&mut self) {
        self.remotes.all_mut().for_each(Remote::wakes);
    }

    fn next_deadline(&self, now: Time) -> Option<Time> {
        let held_back = self.remotes.all().any(Remote::is_held_back).then_some(now + HELD_BACK_WAIT);
        self.remotes.all().filter_map(Remote::next_deadline).chain(held_back).min()
    }

    /// A net core's socket is its doorbell, and its end is the net core's.
    fn doorbells(&self, _waits: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.remotes.sockets_of_all()
    }

    fn has_waited(&mut self) {
        for part in self.remotes.all_mut() {
            if !part.look_at_socket() {
                part.lost();
            }
        }
    }
}
