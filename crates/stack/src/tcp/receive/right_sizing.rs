//! Dynamic right-sizing: the receive window follows what the service takes per round trip. The numbers are in `sizing`.
//!
//! A sender in slow start sends twice as much each round trip, so the window must be twice what was taken in the last one,
//! and some segments more. The receiver's own estimate of the round trip: the handshake's, then the echo of its timestamps
//! on data (RFC 7323 §4), or without timestamps the time in which a whole offered window arrived.

use crate::tcp::congestion::control::initial_window;
use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::segment::SegmentIn;
use qanat_nic::Time;
use std::time::Duration;

/// Echoes older than this say that the sender had nothing to send, not how long the path is.
const ECHO_MAX_MS: u32 = 10_000;

impl Connection {
    /// The handshake is over: its round trip is the first estimate.
    pub(in crate::tcp) fn start_right_sizing(&mut self, now: Time) {
        let space = initial_window(u32::from(self.maximum_segment));
        let round_trip = self.rtt.has_sample().then(|| self.rtt.smoothed());
        self.right_sizing.start(space, round_trip, &self.receive_window, now);
    }

    /// The window offered when nothing is held, bytes.
    pub fn receive_window_limit(&self) -> u32 {
        self.right_sizing.limit()
    }

    /// The window is to be at most `most` bytes. What has been offered stays offered.
    pub fn set_receive_window(&mut self, most: u32) {
        self.right_sizing.set_most(most);
    }

    /// Looks at a data segment for the round trip, at most once each.
    #[inline]
    pub(in crate::tcp) fn sample_round_trip(&mut self, segment: &SegmentIn<'_>, now: Time) {
        if self.right_sizing.is_sampling()
            && let Some(sample) = self.round_trip_sample(segment, now)
        {
            self.right_sizing.take_sample(sample);
        }
    }

    #[cold]
    fn round_trip_sample(&self, segment: &SegmentIn<'_>, now: Time) -> Option<Duration> {
        let timestamps = segment.options.timestamps.filter(|_| self.is.timestamps);
        let Some(timestamps) = timestamps else { return self.right_sizing.whole_window(&self.receive_window, now) };
        // Only full segments: a small one may have waited for its service.
        if segment.payload_length < u32::from(self.receive_window.segment_max()) || timestamps.echo == 0 {
            return None;
        }
        let elapsed = self.timestamp_now(now).wrapping_sub(timestamps.echo);
        (elapsed <= ECHO_MAX_MS).then(|| Duration::from_millis(u64::from(elapsed)))
    }

    /// The service took `bytes`: once a round trip the window is sized anew.
    #[inline]
    pub(in crate::tcp) fn on_taken(&mut self, bytes: u32, env: &mut Env<'_>) {
        if self.right_sizing.take(bytes, env.now) {
            self.size_window(env);
        }
    }

    #[inline(never)]
    fn size_window(&mut self, env: &mut Env<'_>) {
        if let Some(taken) = self.right_sizing.size(&self.receive_window, env) {
            self.set_segments_per_ack(taken);
        }
    }

    /// Gives everything back to the stack's budget: the connection holds nothing more.
    pub(in crate::tcp) fn release_receive_memory(&mut self, env: &mut Env<'_>) {
        self.drop_reassembly(env);
        self.held.forget_lent(env.memory);
        self.right_sizing.release(env);
    }

    /// Forgets what is out of order.
    pub(in crate::tcp) fn drop_reassembly(&mut self, env: &mut Env<'_>) {
        self.held.drop_out_of_order(env.memory);
    }
}
