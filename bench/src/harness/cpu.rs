//! Processors: pinning, distance, quiet.
//!
//! The host of a virtual machine moves its processors: a cache line takes 50–60 ns from one to the other and back when
//! they share a core or cache, some 360 ns when they don't, and results differ by 15–30 % (notes §10). So distance is
//! measured beside every run, by a ping-pong of two threads on one cache line.

use super::HarnessError;
use crate::machine::MachineSample;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Round trips per measurement: some 1–8 ms.
const ROUNDS: u32 = 20_000;
/// Between the two classes; both lie far from it.
const NEAR_NS_MAX: f64 = 150.0;
/// A machine whose processors are busier than this before a run disturbs it.
const QUIET_SHARE_MAX: f64 = 0.05;

/// How far apart two processors are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// They share a core or a cache.
    Near,
    /// They don't.
    Far,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::Near => "near",
            Placement::Far => "far",
        })
    }
}

impl Placement {
    /// The class of a round trip of `round_trip_ns`.
    pub fn of(round_trip_ns: f64) -> Placement {
        if round_trip_ns <= NEAR_NS_MAX { Placement::Near } else { Placement::Far }
    }
}

/// Pins the calling thread, and every child it will have, to `cpu`.
///
/// # Errors
/// The processor doesn't exist or isn't ours.
pub fn pin(cpu: usize) -> Result<(), HarnessError> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(HarnessError::Option(format!("processor {cpu}: there are at most {}", CpuSet::MAX_CPU)));
    }
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| HarnessError::system(format!("run on processor {cpu}"), error))
}

/// Processors of this machine.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// One cache line to itself.
#[repr(align(128))]
struct Ball(AtomicU32);

/// Nanoseconds a cache line takes from processor `first` to `second` and back, mean over some thousand.
///
/// # Errors
/// One of them can't be used.
pub fn round_trip_ns(first: usize, second: usize) -> Result<f64, HarnessError> {
    let ball = Ball(AtomicU32::new(0));
    let over = AtomicBool::new(false);
    // Threads of their own, so that the caller keeps its affinity.
    let (served, returned) = std::thread::scope(|scope| {
        let serve = scope.spawn(|| {
            let result = pin(first).map(|()| serve(&ball.0, &over));
            over.store(true, Ordering::Relaxed);
            result
        });
        let answer = scope.spawn(|| {
            let result = pin(second).map(|()| answer(&ball.0, &over));
            if result.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            result
        });
        (serve.join(), answer.join())
    });
    let panicked = || HarnessError::Child("the ping-pong thread panicked".to_owned());
    returned.map_err(|_| panicked())??;
    served.map_err(|_| panicked())?
}

/// Writes odd numbers and waits for the even ones that follow; mean nanoseconds per round.
fn serve(ball: &AtomicU32, over: &AtomicBool) -> f64 {
    let give_up = Instant::now() + Duration::from_secs(2);
    let mut start = Instant::now();
    let mut counted = 0u32;
    for round in 0..ROUNDS {
        if round == ROUNDS / 10 {
            start = Instant::now(); // the first rounds wait for the other thread to start
            counted = 0;
        }
        ball.store(2 * round + 1, Ordering::Release);
        let mut spins = 0u32;
        while ball.load(Ordering::Acquire) != 2 * round + 2 {
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(4_096) && (over.load(Ordering::Relaxed) || Instant::now() > give_up) {
                return start.elapsed().as_nanos() as f64 / f64::from(counted.max(1));
            }
        }
        counted += 1;
    }
    start.elapsed().as_nanos() as f64 / f64::from(counted.max(1))
}

/// Answers every odd number with the next even one.
fn answer(ball: &AtomicU32, over: &AtomicBool) {
    let mut next = 1;
    while next < 2 * ROUNDS && !over.load(Ordering::Relaxed) {
        if ball.load(Ordering::Acquire) == next {
            ball.store(next + 1, Ordering::Release);
            next += 2;
        }
        std::hint::spin_loop();
    }
}

/// Share of time the machine's processors are busy with something else, watched for `watch`.
pub fn busy_share(watch: Duration) -> f64 {
    let before = MachineSample::take(None);
    std::thread::sleep(watch);
    let after = MachineSample::take(None);
    let shares = after.cpus.iter().zip(&before.cpus).map(|(after, before)| after.since(before).busy_share());
    shares.fold(0.0, f64::max)
}

/// Waits until the machine is quiet, at most `patience`. Returns the last busy share seen and whether it is quiet.
pub fn wait_for_quiet(patience: Duration) -> (f64, bool) {
    let deadline = Instant::now() + patience;
    loop {
        let share = busy_share(Duration::from_millis(200));
        if share <= QUIET_SHARE_MAX || Instant::now() >= deadline {
            return (share, share <= QUIET_SHARE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_pong_ends() {
        if count() < 2 {
            return;
        }
        let nanoseconds = round_trip_ns(0, 1).unwrap();
        assert!(nanoseconds > 5.0, "{nanoseconds}");
        assert!(round_trip_ns(0, 100_000).is_err());
    }

    #[test]
    fn classes() {
        assert_eq!(Placement::of(55.0), Placement::Near);
        assert_eq!(Placement::of(360.0), Placement::Far);
        assert_eq!(serde_json::to_string(&Placement::Far).unwrap(), "\"far\"");
    }
}
