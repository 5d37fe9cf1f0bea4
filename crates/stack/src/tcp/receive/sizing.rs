//! The size of a connection's receive window, and what is measured to set it: dynamic right-sizing (Fisk and Feng 2001;
//! Linux's `tcp_rcv_space_adjust`).
//!
//! All that changes these numbers is here, and what is reserved for the window is told to the stack's budget
//! ([`ReceiveMemory`](crate::tcp::receive::memory::ReceiveMemory)).

use crate::tcp::config::TcpConfig;
use crate::tcp::env::Env;
use crate::tcp::receive::window::ReceiveWindow;
use crate::tcp::sequence::SequenceNumber;
use qanat_nic::Time;
use std::time::Duration;

/// A round trip is taken to last at least this: the timestamps' tick.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(1);
/// Segments more than twice of what was taken.
const MARGIN_SEGMENTS: u32 = 16;

fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

/// Measurement and result.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(in crate::tcp) struct RightSizing {
    /// The window offered when nothing is held, bytes.
    limit: u32,
    /// The largest there may be, bytes.
    most: u32,
    /// Frames promised by [`ReceiveMemory`](crate::tcp::ReceiveMemory) for the part beyond the first size.
    reserved: u32,
    /// The most taken in a round trip so far, bytes.
    space: u32,
    /// Taken since the measurement began, bytes.
    taken: u32,
    /// When the measurement ends.
    until: Time,
    /// The receiver's round-trip time, microseconds; zero: not known.
    round_trip_us: u32,
    /// A sample is wanted from the next echo, or when `sequence` is reached.
    sampling: bool,
    /// RCV.NXT that a whole window after `since` has.
    sequence: SequenceNumber,
    since: Time,
}

impl RightSizing {
    pub(in crate::tcp) fn new(config: &TcpConfig, most: u32) -> RightSizing {
        RightSizing {
            limit: most.min(config.receive_window_initial),
            most,
            reserved: 0,
            space: 0,
            taken: 0,
            until: Time::ZERO,
            round_trip_us: 0,
            sampling: false,
            sequence: SequenceNumber(0),
            since: Time::ZERO,
        }
    }

    /// The window offered when nothing is held, bytes.
    #[inline]
    pub(in crate::tcp) fn limit(&self) -> u32 {
        self.limit
    }

    /// The largest window there may be, bytes.
    pub(in crate::tcp) fn most(&self) -> u32 {
        self.most
    }

    /// The window is to be at most `most` bytes. What has been offered stays offered.
    pub(super) fn set_most(&mut self, most: u32) {
        self.most = most;
        self.limit = self.limit.min(most);
    }

    /// The handshake is over: its `round_trip`, if it was measured, is the first estimate. `space`: what the peer sends at first.
    pub(super) fn start(&mut self, space: u32, round_trip: Option<Duration>, window: &ReceiveWindow, now: Time) {
        self.space = space;
        self.round_trip_us = round_trip.map_or(0, |round_trip| microseconds(round_trip.max(ROUND_TRIP_MIN)));
        self.until = now + self.round_trip();
        self.start_sample(window, now);
    }

    fn round_trip(&self) -> Duration {
        Duration::from_micros(u64::from(self.round_trip_us))
    }

    fn start_sample(&mut self, window: &ReceiveWindow, now: Time) {
        self.sampling = true;
        self.sequence = window.edge();
        self.since = now;
    }

    /// Whether a sample of the round trip is wanted.
    #[inline]
    pub(super) fn is_sampling(&self) -> bool {
        self.sampling
    }

    /// The time in which a whole window arrived, if all of it has.
    pub(super) fn whole_window(&self, window: &ReceiveWindow, now: Time) -> Option<Duration> {
        (!window.next().before(self.sequence)).then(|| now.since(self.since))
    }

    /// Takes a sample of the round trip.
    pub(super) fn take_sample(&mut self, sample: Duration) {
        let sample = microseconds(sample.max(ROUND_TRIP_MIN));
        // Down at once, up slowly: a sender that paused looks like a long path.
        self.round_trip_us = match self.round_trip_us {
            0 => sample,
            known if sample < known => sample,
            known => known - known / 8 + sample / 8,
        };
        self.sampling = false;
    }

    /// The service took `bytes`. Gives whether the round trip is over, so that the window is to be sized anew.
    #[inline]
    pub(super) fn take(&mut self, bytes: u32, now: Time) -> bool {
        self.taken = self.taken.saturating_add(bytes);
        now >= self.until
    }

    /// Sizes the window after a round trip. Gives the bytes that were taken in it; `None`: its length is not known yet.
    pub(super) fn size(&mut self, window: &ReceiveWindow, env: &mut Env<'_>) -> Option<u32> {
        let segment = u32::from(window.segment_max());
        let (taken, space) = (self.taken, self.space);
        self.taken = 0;
        let known = self.round_trip_us != 0;
        // Nothing measured yet: the sample may end at any segment.
        self.until = env.now + self.round_trip().max(ROUND_TRIP_MIN);
        self.start_sample(window, env.now);
        if !known {
            return None;
        }
        let mut wanted = u64::from(taken) * 2 + u64::from(MARGIN_SEGMENTS * segment);
        if taken > space {
            // As Linux: by twice the rate at which it grew, so that slow start never waits for the window.
            let grown = u64::from(taken - space);
            wanted += (wanted * 2 * grown / u64::from(space.max(segment).max(1))).min(wanted * 2);
            self.space = taken;
        }
        let wanted = wanted.min(u64::from(self.most)) as u32;
        if wanted > self.limit && taken > space {
            self.grow(wanted, window, env);
        } else if env.memory.is_scarce() && self.reserved > 0 {
            self.shrink(wanted, window, env);
        }
        Some(taken)
    }

    /// The first size of the window, bytes.
    fn first(&self, config: &TcpConfig) -> u32 {
        self.most.min(config.receive_window_initial)
    }

    /// Frames that a window of `bytes` needs beyond the first size, as frames were filled so far.
    fn frames_beyond_first(&self, bytes: u32, window: &ReceiveWindow, config: &TcpConfig) -> u32 {
        bytes.saturating_sub(self.first(config)).div_ceil(u32::from(window.length_mean().max(1)))
    }

    fn grow(&mut self, wanted: u32, window: &ReceiveWindow, env: &mut Env<'_>) {
        let mean = u32::from(window.length_mean().max(1));
        let missing = self.frames_beyond_first(wanted, window, env.config).saturating_sub(self.reserved);
        let granted = env.memory.reserve(missing);
        if granted < missing {
            env.counters.receive_windows_refused += 1;
        }
        self.reserved += granted;
        let possible = self.first(env.config).saturating_add(self.reserved.saturating_mul(mean));
        let limit = wanted.min(possible);
        if limit > self.limit {
            env.counters.receive_windows_grown += 1;
            self.limit = limit;
        }
    }

    /// Memory is scarce and this connection does not use its share: what was offered stays offered, but the edge moves no
    /// further until the rest is used up.
    fn shrink(&mut self, wanted: u32, window: &ReceiveWindow, env: &mut Env<'_>) {
        let limit = wanted.max(self.first(env.config)).max(window.offered());
        if limit < self.limit {
            let needed = self.frames_beyond_first(limit, window, env.config);
            let back = self.reserved.saturating_sub(needed);
            env.memory.unreserve(back);
            self.reserved -= back;
            self.limit = limit;
            self.space = self.space.min(wanted / 2);
        }
    }

    /// The connection ends: nothing is reserved for it any longer.
    pub(super) fn release(&mut self, env: &mut Env<'_>) {
        env.memory.unreserve(self.reserved);
        self.reserved = 0;
    }
}
