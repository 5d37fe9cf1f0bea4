//! [`Window`]: how much those who flood may have at the disk while others are within their rate.
//!
//! A *light* tenant has few requests at once; all others are *heavy*. What a light one waits for is what the disk has already, and the
//! disk core can't take that back. So heavy ones together have a window at the disk, by delay as in TCP Vegas: it grows while the light
//! ones' requests take about as long as they do alone, and shrinks if they take an eighth longer. A disk that serves many at once has a
//! wide window; one that serves one after the other has a window of one request.
//!
//! How long a request takes alone is found out by holding the heavy ones back for one request of a light one's, now and then.

use crate::vsic::Kind;
use qanat_nic::Time;
use std::time::Duration;

/// Requests of a light tenant, at most.
pub(super) const LIGHT_MAX: usize = 4;
/// As long a tenant stays heavy that had more.
pub(super) const HEAVY_FOR: Duration = Duration::from_millis(100);
/// As long after a light tenant's last request the window holds.
const HOLDS_FOR: Duration = Duration::from_secs(1);
/// Light tenants' requests between two that have the disk alone.
const PROBE_EVERY: u32 = 64;
/// As long a light tenant's next request is waited for that is to have the disk alone.
const PROBE_FOR: Duration = Duration::from_millis(10);
/// Light tenants' requests without company after which one has company, if the window is one request, at first and at most. Each time that
/// one takes too long, the next waits four times as long.
const TRY_AFTER: u32 = 128;
const TRY_AFTER_MAX: u32 = 1 << 15;
/// Requests after which the window is judged.
const JUDGE_EVERY: u32 = 16;
/// Weight of the newest in the mean.
const ALONE_WEIGHT: f64 = 1.0 / 8.0;
/// As much longer as alone a light one's request may take in the mean.
const RATIO_MAX: f64 = 1.125;
/// Classes of sizes: powers of two from 512 bytes on.
const SIZES: usize = 9;

/// What a request is like, as far as its time depends on it.
fn class(kind: Kind, bytes: u64) -> usize {
    let size = (bytes / 512).max(1).ilog2() as usize;
    kind as usize * SIZES + size.min(SIZES - 1)
}

/// In whose company a request went to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Company {
    /// It is a heavy tenant's own.
    Heavy,
    /// It is a light one's, and heavy ones had something there.
    Shared,
    /// It is a light one's, and heavy ones had nothing there. So many requests of theirs had gone there by then.
    Alone(u64),
}

/// The window.
#[derive(Debug)]
pub(super) struct Window {
    /// How long a request takes alone, by class, nanoseconds; 0: it is not known.
    alone: [f64; 4 * SIZES],
    /// How many times as long requests took in company, in all since the window was judged.
    ratios: f64,
    /// Requests of all heavy tenants at the disk.
    size: u32,
    /// It has not been too wide yet, so it doubles.
    doubles: bool,
    since_judged: u32,
    since_probe: u32,
    /// Heavy ones are held back until then, for a request that is to be alone.
    probe_until: Option<Time>,
    /// Requests of heavy tenants that went to the disk so far.
    heavy_count: u64,
    /// Light tenants' requests that ended since one had company, and as many are too many.
    lonely: u32,
    try_after: u32,
    /// A window of one request does not give way. Without that, a light tenant that always has a request there would never have company,
    /// and nobody would know what company costs. It ends with the first request that takes too long.
    tries: bool,
    /// The last request of a light tenant's.
    light_at: Option<Time>,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            alone: [0.0; 4 * SIZES],
            ratios: 0.0,
            size: 1,
            doubles: true,
            since_judged: 0,
            since_probe: 0,
            probe_until: None,
            heavy_count: 0,
            lonely: 0,
            try_after: TRY_AFTER,
            tries: false,
            light_at: None,
        }
    }
}

impl Window {
    /// Whether heavy tenants, who have `heavy` requests at the disk and light ones `light`, may have one more there.
    #[inline]
    pub(super) fn allows(&self, heavy: u32, light: u32, now: Time) -> bool {
        let holds = self.light_at.is_some_and(|at| now < at + HOLDS_FOR);
        if !holds {
            return true;
        }
        let is_probing = self.probe_until.is_some_and(|until| now < until);
        // One after the other, and the light ones first.
        let gives_way = self.size == 1 && light > 0 && !self.tries;
        !is_probing && !gives_way && heavy < self.size
    }

    /// A heavy tenant's request goes to the disk.
    pub(super) fn submitted_heavy(&mut self) -> Company {
        self.heavy_count += 1;
        Company::Heavy
    }

    /// A light tenant's request goes to the disk, where heavy ones have so many.
    pub(super) fn submitted(&mut self, heavy: u32, now: Time) -> Company {
        if self.light_at.is_none_or(|at| now >= at + HOLDS_FOR) {
            // What was known may not be so any more.
            self.alone = [0.0; 4 * SIZES];
            self.probe_until = Some(now + PROBE_FOR);
        }
        self.light_at = Some(now);
        self.since_probe += 1;
        if self.since_probe >= PROBE_EVERY && self.probe_until.is_none() {
            self.probe_until = Some(now + PROBE_FOR);
        }
        if heavy == 0 { Company::Alone(self.heavy_count) } else { Company::Shared }
    }

    /// A light tenant's request has ended after so long; `depth`: the disk's.
    pub(super) fn ended(&mut self, kind: Kind, bytes: u64, company: Company, took: Duration, depth: u32) {
        if company == Company::Heavy {
            return;
        }
        let took = took.as_nanos() as f64;
        let Some(alone) = self.alone.get_mut(class(kind, bytes)) else { return };
        // Nor did any heavy one's request come while it was there.
        if company == Company::Alone(self.heavy_count) {
            *alone += (took - *alone) * if *alone == 0.0 { 1.0 } else { ALONE_WEIGHT };
            (self.since_probe, self.probe_until) = (0, None);
            self.lonely += 1;
            self.tries |= self.lonely >= self.try_after;
        } else if *alone > 0.0 {
            let ratio = took / *alone;
            self.lonely = 0;
            if self.tries && ratio > RATIO_MAX {
                self.tries = false;
                self.try_after = (4 * self.try_after).min(TRY_AFTER_MAX);
            }
            self.judge(ratio, depth);
        }
    }

    /// A request took so many times as long as alone. What the last window led to says nothing of the one that came of it.
    fn judge(&mut self, ratio: f64, depth: u32) {
        self.since_judged += 1;
        self.ratios += ratio;
        // It is certain before all are there: the others take about as long as alone, at least.
        let at_least = self.ratios + f64::from(JUDGE_EVERY - self.since_judged);
        let is_too_wide = at_least > RATIO_MAX * f64::from(JUDGE_EVERY);
        if !is_too_wide && self.since_judged < JUDGE_EVERY {
            return;
        }
        (self.since_judged, self.ratios) = (0, 0.0);
        if is_too_wide {
            // One request is the least there is, so it is no evidence of too many.
            self.doubles &= self.size == 1;
            self.size = (self.size - self.size.div_ceil(4)).max(1);
        } else {
            let more = if self.doubles { self.size } else { 1 };
            self.size = (self.size + more).min(depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of a light tenant's, each of which takes `took(heavy)` beside as many heavy ones as there may be; the window at the end.
    fn window_after(requests: u32, took: impl Fn(u32) -> Duration) -> u32 {
        let (mut window, mut now) = (Window::default(), Time::ZERO + Duration::from_secs(1));
        for _ in 0..requests {
            let mut heavy = 0;
            while heavy < 256 && window.allows(heavy, 0, now) {
                heavy += 1;
                window.submitted_heavy();
            }
            let company = window.submitted(heavy, now);
            now += took(heavy);
            window.ended(Kind::Read, 4_096, company, took(heavy), 256);
            if company == Company::Shared && window.probe_until.is_some() {
                // It is over at the latest after this.
                now += Duration::from_micros(1);
            }
        }
        window.size
    }

    #[test]
    fn a_disk_that_serves_many_at_once_has_a_wide_window_and_another_a_narrow_one() {
        let us = Duration::from_micros;
        assert_eq!(window_after(1_000, |_| us(80)), 256);
        assert_eq!(window_after(1_000, |heavy| us(80) * (1 + heavy)), 1);
        let knee = window_after(4_000, |heavy| us(80) + us(4) * heavy.saturating_sub(32));
        assert!((24..=64).contains(&knee), "{knee}");
    }

    /// A light tenant whose next request is there as soon as the last has ended: heavy ones come beside it only if they don't give way.
    fn window_beside_one_that_is_always_there(requests: u32, took: impl Fn(u32) -> Duration) -> (u32, u32) {
        let (mut window, mut now, mut slow) = (Window::default(), Time::ZERO + Duration::from_secs(1), 0);
        let mut heavy = 0;
        for _ in 0..requests {
            let company = window.submitted(heavy, now);
            (0..heavy).for_each(|_| _ = window.submitted_heavy());
            now += took(heavy);
            slow += u32::from(took(heavy) > took(0));
            window.ended(Kind::Read, 4_096, company, took(heavy), 256);
            heavy = (0..256).find(|heavy| !window.allows(*heavy, 1, now)).unwrap_or(256);
        }
        (window.size, slow)
    }

    #[test]
    fn one_that_is_always_there_has_company_now_and_then() {
        let us = Duration::from_micros;
        assert_eq!(window_beside_one_that_is_always_there(1_000, |_| us(80)).0, 256);
        let (size, slow) = window_beside_one_that_is_always_there(10_000, |heavy| us(80) * (1 + heavy));
        assert!(size == 1 && (1..=100).contains(&slow), "{size}, {slow}");
    }

    #[test]
    fn nobody_is_held_back_for_those_who_are_gone() {
        let (mut window, start) = (Window::default(), Time::ZERO + Duration::from_secs(1));
        assert!(window.allows(300, 0, start), "there is no light tenant");
        window.submitted(5, start);
        assert!(!window.allows(0, 0, start), "the next is to be alone");
        assert!(window.allows(0, 0, start + PROBE_FOR) && !window.allows(1, 0, start + PROBE_FOR));
        assert!(!window.allows(0, 1, start + PROBE_FOR), "light ones first");
        assert!(window.allows(300, 0, start + HOLDS_FOR));
    }
}
