//! [`Pace`]: how much one flush sends.
//!
//! On a veth the receiver's work runs inside the sender's system call: its acknowledgements arrive in this queue's receive ring while
//! the sender can't look at it. A batch of a thousand frames takes milliseconds there, and its acknowledgements overrun the ring. So
//! one flush is bounded in frames and in time, and whoever has more to send receives first.

use std::time::{Duration, Instant};

/// Frames of one flush at most: as many as a stack receives at once, so that it takes all that one batch provokes.
const BATCH_FRAMES_MAX: u32 = 256;
/// Frames of one flush that are worth a system call whatever they take. More than one packet has.
const BATCH_FRAMES_MIN: u32 = 32;
/// What one flush is to take at most.
const BATCH_TIME: Duration = Duration::from_micros(500);
/// Smaller batches are not measured: reading the clock would cost them more than it tells.
const MEASURED_FRAMES_MIN: u32 = 16;
/// The weight of one measurement: an eighth.
const WEIGHT_SHIFT: u32 = 3;
/// Of a frame, before anything is measured.
const FRAME_NS: u32 = 2_000;

/// How much one flush sends, by what a frame took lately.
#[derive(Debug)]
pub(super) struct Pace {
    /// A running mean.
    frame_ns: u32,
    frames_max: u32,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { frame_ns: FRAME_NS, frames_max: frames_in(FRAME_NS) }
    }

    /// How many more frames may be queued behind `queued` that have not been sent.
    #[inline]
    pub(super) fn room(&self, queued: u32) -> u32 {
        self.frames_max.saturating_sub(queued)
    }

    /// The clock, if a batch of so many frames is worth being measured.
    #[inline]
    pub(super) fn start(&self, frames: u32) -> Option<Instant> {
        (frames >= MEASURED_FRAMES_MIN).then(Instant::now)
    }

    /// Whether what began at `start` has taken as long as it may.
    pub(super) fn is_over(start: Option<Instant>) -> bool {
        start.is_some_and(|start| start.elapsed() >= BATCH_TIME)
    }

    /// So many frames have been sent since `start`.
    #[inline]
    pub(super) fn end(&mut self, start: Option<Instant>, frames: u32) {
        if let Some(start) = start
            && frames > 0
        {
            self.note(frames, start.elapsed());
        }
    }

    fn note(&mut self, frames: u32, time: Duration) {
        let measured = u32::try_from(time.as_nanos() / u128::from(frames)).unwrap_or(u32::MAX);
        // A flush that the scheduler interrupted says little about the next: it counts as one of twice the usual.
        let measured = measured.clamp(1, self.frame_ns.saturating_mul(2));
        self.frame_ns =
            (self.frame_ns - (self.frame_ns >> WEIGHT_SHIFT) + (measured >> WEIGHT_SHIFT)).max(1 << WEIGHT_SHIFT);
        self.frames_max = frames_in(self.frame_ns);
    }
}

/// Frames that take [`BATCH_TIME`], within the bounds.
fn frames_in(frame_ns: u32) -> u32 {
    let frames = BATCH_TIME.as_nanos() as u32 / frame_ns.max(1);
    frames.clamp(BATCH_FRAMES_MIN, BATCH_FRAMES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_what_a_frame_takes() {
        let mut pace = Pace::new();
        assert_eq!((pace.room(0), pace.room(200), pace.room(1_000)), (250, 50, 0));
        (0..100).for_each(|_| pace.note(256, Duration::from_micros(100)));
        assert_eq!(pace.room(0), BATCH_FRAMES_MAX);
        (0..100).for_each(|_| pace.note(100, Duration::from_micros(500)));
        assert!((90..=110).contains(&pace.room(0)), "{pace:?}");
        (0..100).for_each(|_| pace.note(16, Duration::from_secs(1)));
        assert_eq!(pace.room(0), BATCH_FRAMES_MIN);
        // It comes back from there.
        (0..200).for_each(|_| pace.note(32, Duration::from_micros(16)));
        assert_eq!(pace.room(0), BATCH_FRAMES_MAX);
    }

    #[test]
    fn one_slow_flush_says_little() {
        let mut pace = Pace::new();
        (0..100).for_each(|_| pace.note(200, Duration::from_micros(400)));
        let before = pace.room(0);
        pace.note(200, Duration::from_secs(2));
        assert!(pace.room(0) >= before * 8 / 10, "{before} to {}", pace.room(0));
    }

    #[test]
    fn small_batches_are_not_measured() {
        let mut pace = Pace::new();
        assert!(pace.start(MEASURED_FRAMES_MIN - 1).is_none() && pace.start(MEASURED_FRAMES_MIN).is_some());
        let before = pace.frame_ns;
        pace.end(None, 5);
        pace.end(Some(Instant::now()), 0);
        assert_eq!(pace.frame_ns, before);
    }
}
