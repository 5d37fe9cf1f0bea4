//! Dynamic right-sizing: the receive window follows what the service takes per round trip (Fisk and Feng 2001; Linux's
//! `tcp_rcv_space_adjust`).
//!
//! A sender in slow start sends twice as much each round trip, so the window must be twice what was taken in the last one,
//! and some segments more. The receiver's own estimate of the round trip: the handshake's, then the echo of its timestamps
//! on data (RFC 7323 §4), or without timestamps the time in which a whole offered window arrived.

use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::control::initial_window;
use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::segment::SegmentIn;
use qanat_nic::Time;
use std::time::Duration;

/// A round trip is taken to last at least this: the timestamps' tick.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(1);
/// Echoes older than this say that the sender had nothing to send, not how long the path is.
const ECHO_MAX_MS: u32 = 10_000;
/// Segments more than twice of what was taken.
const MARGIN_SEGMENTS: u32 = 16;

fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl Connection {
    /// The handshake is over: its round trip is the first estimate.
    pub(in crate::tcp) fn start_right_sizing(&mut self, now: Time) {
        let sizing = &mut self.right_sizing;
        sizing.space = initial_window(u32::from(self.maximum_segment));
        sizing.round_trip_us =
            if self.rtt.has_sample() { microseconds(self.rtt.smoothed().max(ROUND_TRIP_MIN)) } else { 0 };
        sizing.until = now + sizing.round_trip();
        self.start_sample(now);
    }

    /// The window offered when nothing is held, bytes.
    pub fn receive_window_limit(&self) -> u32 {
        self.right_sizing.limit
    }

    /// The window is to be at most `most` bytes. What has been offered stays offered.
    pub fn set_receive_window(&mut self, most: u32) {
        self.right_sizing.most = most;
        self.right_sizing.limit = self.right_sizing.limit.min(most);
    }

    fn start_sample(&mut self, now: Time) {
        self.right_sizing.sampling = true;
        self.right_sizing.sequence = self.receive_window.edge();
        self.right_sizing.since = now;
    }

    /// Looks at a data segment for the round trip, at most once each.
    #[inline]
    pub(in crate::tcp) fn sample_round_trip(&mut self, segment: &SegmentIn<'_>, now: Time) {
        if self.right_sizing.sampling {
            self.take_sample(segment, now);
        }
    }

    #[cold]
    fn take_sample(&mut self, segment: &SegmentIn<'_>, now: Time) {
        let sample = match segment.options.timestamps {
            Some(timestamps) if self.is.timestamps => {
                // Only full segments: a small one may have waited for its service.
                if segment.payload_length < u32::from(self.receive_window.segment_max()) || timestamps.echo == 0 {
                    return;
                }
                let elapsed = self.timestamp_now(now).wrapping_sub(timestamps.echo);
                if elapsed > ECHO_MAX_MS {
                    return;
                }
                Duration::from_millis(u64::from(elapsed))
            }
            _ => {
                if self.receive_window.next().before(self.right_sizing.sequence) {
                    return;
                }
                now.since(self.right_sizing.since)
            }
        };
        let sample = microseconds(sample.max(ROUND_TRIP_MIN));
        let sizing = &mut self.right_sizing;
        // Down at once, up slowly: a sender that paused looks like a long path.
        sizing.round_trip_us = match sizing.round_trip_us {
            0 => sample,
            known if sample < known => sample,
            known => known - known / 8 + sample / 8,
        };
        sizing.sampling = false;
    }

    /// The service took `bytes`: once a round trip the window is sized anew.
    #[inline]
    pub(in crate::tcp) fn on_taken(&mut self, bytes: u32, env: &mut Env<'_>) {
        let sizing = &mut self.right_sizing;
        sizing.taken = sizing.taken.saturating_add(bytes);
        if env.now >= sizing.until {
            self.size_window(env);
        }
    }

    #[inline(never)]
    fn size_window(&mut self, env: &mut Env<'_>) {
        let cap = self.right_sizing.most;
        let segment = u32::from(self.receive_window.segment_max());
        let sizing = &mut self.right_sizing;
        let (taken, space) = (sizing.taken, sizing.space);
        sizing.taken = 0;
        let known = sizing.round_trip_us != 0;
        // Nothing measured yet: the sample may end at any segment.
        sizing.until = env.now + sizing.round_trip().max(ROUND_TRIP_MIN);
        self.start_sample(env.now);
        if !known {
            return;
        }
        self.set_segments_per_ack(taken);
        let mut wanted = u64::from(taken) * 2 + u64::from(MARGIN_SEGMENTS * segment);
        if taken > space {
            // As Linux: by twice the rate at which it grew, so that slow start never waits for the window.
            let grown = u64::from(taken - space);
            wanted += (wanted * 2 * grown / u64::from(space.max(segment).max(1))).min(wanted * 2);
            self.right_sizing.space = taken;
        }
        let wanted = wanted.min(u64::from(cap)) as u32;
        if wanted > self.right_sizing.limit && taken > space {
            self.grow_receive_window(wanted, env);
        } else if env.memory.is_scarce() && self.right_sizing.reserved > 0 {
            self.shrink_receive_window(wanted, env);
        }
    }

    /// Frames that a window of `bytes` needs beyond the first size, as frames were filled so far.
    fn frames_beyond_first(&self, bytes: u32, config: &TcpConfig) -> u32 {
        let first = self.right_sizing.most.min(config.receive_window_initial);
        bytes.saturating_sub(first).div_ceil(u32::from(self.receive_window.length_mean().max(1)))
    }

    fn grow_receive_window(&mut self, wanted: u32, env: &mut Env<'_>) {
        let first = self.right_sizing.most.min(env.config.receive_window_initial);
        let mean = u32::from(self.receive_window.length_mean().max(1));
        let missing = self.frames_beyond_first(wanted, env.config).saturating_sub(self.right_sizing.reserved);
        let granted = env.memory.reserve(missing);
        if granted < missing {
            env.counters.receive_windows_refused += 1;
        }
        self.right_sizing.reserved += granted;
        let possible = first.saturating_add(self.right_sizing.reserved.saturating_mul(mean));
        let limit = wanted.min(possible);
        if limit > self.right_sizing.limit {
            env.counters.receive_windows_grown += 1;
            self.right_sizing.limit = limit;
        }
    }

    /// Memory is scarce and this connection does not use its share: what was offered stays offered, but the edge moves no
    /// further until the rest is used up.
    fn shrink_receive_window(&mut self, wanted: u32, env: &mut Env<'_>) {
        let first = self.right_sizing.most.min(env.config.receive_window_initial);
        let offered = self.receive_window.offered();
        let limit = wanted.max(first).max(offered);
        if limit < self.right_sizing.limit {
            let needed = self.frames_beyond_first(limit, env.config);
            let back = self.right_sizing.reserved.saturating_sub(needed);
            env.memory.unreserve(back);
            self.right_sizing.reserved -= back;
            self.right_sizing.limit = limit;
            self.right_sizing.space = self.right_sizing.space.min(wanted / 2);
        }
    }

    /// Gives everything back to the stack's budget: the connection holds nothing more.
    pub(in crate::tcp) fn release_receive_memory(&mut self, env: &mut Env<'_>) {
        self.drop_reassembly(env);
        self.held.forget_lent(env.memory);
        env.memory.unreserve(self.right_sizing.reserved);
        self.right_sizing.reserved = 0;
    }

    /// Forgets what is out of order.
    pub(in crate::tcp) fn drop_reassembly(&mut self, env: &mut Env<'_>) {
        self.held.drop_out_of_order(env.memory);
    }
}
