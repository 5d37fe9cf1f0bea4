//! What happens by the clock: one coarse timer for everything, however many connections there are.

use super::{Commands, Phase, WebService, milliseconds};
use crate::config::WallClock;
use crate::http::parse::Rejection;
use qanat::{ConnectionId, Time};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two ticks.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// While windows are scarce, who holds one must take it within so many seconds.
const WINDOW_TURN_S: u64 = 60;
/// For so long that is measured.
const SCARCE_PERIOD: Duration = Duration::from_secs(10);
/// Each tick sweeps one of so many shares of the connections: each is looked at once a second.
const SHARES: usize = 4;

impl WebService {
    /// The date, seconds since 1970.
    #[inline]
    pub(super) fn seconds(&self, now: Time) -> u64 {
        let (then, nanoseconds) = self.wall_clock;
        nanoseconds.saturating_add(now.as_nanos().saturating_sub(then.as_nanos())) / 1_000_000_000
    }

    /// Relates the runtime's clock to the date, following what the administrator or NTP does to it.
    pub(super) fn set_wall_clock(&mut self, now: Time) {
        self.wall_clock = match self.config.wall_clock {
            WallClock::FromZero(seconds) => (Time::ZERO, seconds.saturating_mul(1_000_000_000)),
            WallClock::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                (now, u64::try_from(since.as_nanos()).unwrap_or(0))
            }
        };
    }

    pub(super) fn arm_tick<C: Commands>(&mut self, context: &mut C) {
        self.tick_armed = context.set_timer(TICK, super::TICK_TOKEN).is_ok();
        self.figures.commands_refused += u64::from(!self.tick_armed);
    }

    pub(super) fn on_tick<C: Commands>(&mut self, context: &mut C) {
        self.set_wall_clock(context.now());
        if self.shared.reload.swap(false, Ordering::AcqRel) {
            self.reload();
        }
        if self.log_reopen
            && let Some(log) = &mut self.log
        {
            self.log_reopen = !log.reopen();
        }
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.take_done(context);
        self.windows_scarce = match &self.desk {
            Some(desk) => desk.is_scarce(),
            None => self.windows.in_use() * 2 > self.config.windows_max,
        };
        self.serve_window_queue(usize::MAX, context);
        self.sweep(context);
        if let Some(memory) = &self.memory
            && self.share == 0
            && memory.exhausted.replace(false)
        {
            self.store.release_cold_copies();
        }
        self.publish();
        if !(self.stopping && self.connections.open() == 0) {
            self.arm_tick(context);
        }
    }

    /// Looks at one share of the connections for those that have had their time.
    fn sweep<C: Commands>(&mut self, context: &mut C) {
        let now_ms = milliseconds(context.now());
        let mut index = self.share;
        self.share = (self.share + 1) % SHARES;
        while index < self.connections.slot_count() {
            if let Some(id) = self.connections.id_at(index) {
                self.check_deadline(id, now_ms, context);
            }
            index += SHARES;
        }
    }

    fn check_deadline<C: Commands>(&mut self, id: ConnectionId, now_ms: u32, context: &mut C) {
        let limits = &self.config.limits;
        let Some(connection) = self.connections.get(id) else { return };
        let elapsed = Duration::from_millis(u64::from(now_ms.wrapping_sub(connection.since_ms)));
        let owed = connection.unacknowledged > 0;
        if owed && elapsed <= limits.send_timeout && self.is_too_slow(id, now_ms) {
            return self.abort(id, context);
        }
        let limits = &self.config.limits;
        let Some(connection) = self.connections.get(id) else { return };
        match connection.phase {
            Phase::Free | Phase::Waiting => {}
            Phase::Idle if owed => {
                if elapsed > limits.send_timeout {
                    self.figures.timeouts_send += 1;
                    self.abort(id, context);
                }
            }
            Phase::Idle => {
                let first = connection.requests == 0;
                if elapsed > if first { limits.head_timeout } else { limits.idle_timeout } {
                    *(if first { &mut self.figures.timeouts_head } else { &mut self.figures.timeouts_idle }) += 1;
                    self.close(id, context);
                }
            }
            Phase::Carrying => {
                if elapsed > limits.idle_timeout {
                    self.figures.timeouts_idle += 1;
                    self.close(id, context);
                }
            }
            Phase::Head => {
                if elapsed > limits.head_timeout {
                    let why = "The request took too long.";
                    self.reject(id, Rejection { status: 408, why }, context);
                }
            }
            Phase::Output | Phase::Closing => {
                // A carrier owes what its streams owe.
                let owed = owed || connection.is_carrier;
                if owed && elapsed > limits.send_timeout {
                    self.figures.timeouts_send += 1;
                    self.abort(id, context);
                }
            }
            Phase::Lingering => {
                if elapsed > if owed { limits.send_timeout } else { limits.linger_timeout } {
                    self.close(id, context);
                }
            }
        }
    }

    /// Whether a connection takes what it is owed too slowly; counts it.
    fn is_too_slow(&mut self, id: ConnectionId, now_ms: u32) -> bool {
        let limits = &self.config.limits;
        let (rate, scarce) = (limits.send_rate_min, self.windows_scarce);
        let Some(connection) = self.connections.get(id).filter(|_| rate > 0) else { return false };
        let is_taken_back = scarce && connection.holds_windows;
        let is_slow = if is_taken_back {
            let turned_over = (self.config.window_bytes as u64 / WINDOW_TURN_S).min(u32::MAX.into()) as u32;
            connection.is_slower_than(rate.max(turned_over), SCARCE_PERIOD, now_ms)
        } else {
            connection.is_slower_than(rate, limits.send_timeout, now_ms)
        };
        self.figures.timeouts_rate += u64::from(is_slow);
        self.figures.windows_taken_back += u64::from(is_slow && is_taken_back);
        is_slow
    }

    /// Opens the roots anew, takes the rules that were set, and forgets all content and the access log's file; responses under way end undisturbed. A
    /// root that can't be opened stays as it was.
    pub fn reload(&mut self) {
        match self.shared.sites.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(mut sites) => {
                sites.keep_verified(&self.sites);
                self.sites = sites;
            }
            None => self.sites.reopen(),
        }
        self.epoch += 1;
        self.store.clear();
        self.file_reads.forget();
        self.log_reopen = self.log.is_some();
    }
}
