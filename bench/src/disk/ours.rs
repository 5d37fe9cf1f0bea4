//! Random requests by a [`Vsic`], as many under way as the point says.

use super::point::{Outcome, Point, busy};
use crate::harness::HarnessError;
use hdrhistogram::Histogram;
use qanat_disk::{Completion, Operation, Request, Vsic};
use qanat_nic::{Clock, Frame, MonotonicClock, Pool, Random, Spin, SpinPolicy, Time};
use std::time::Duration;

/// Longest response time that is told apart, ns.
const LONGEST_NS: u64 = 60_000_000_000;
/// Longer without a completion, and the disk is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `disk` for what the point says, for `duration`. Overwrites write what happens to be in the buffers. `policy`: when it
/// sleeps.
///
/// # Errors
/// A request that fails; a disk that is too small for one.
pub fn measure<V: Vsic>(
    disk: &mut V,
    pool: &Pool,
    point: Point,
    duration: Duration,
    policy: SpinPolicy,
) -> Result<Outcome, HarnessError> {
    let geometry = disk.geometry();
    let request_blocks = u64::from(point.bytes / geometry.block_bytes);
    let places = geometry.blocks.checked_div(request_blocks).filter(|places| *places > 0);
    let places = places.ok_or_else(|| {
        HarnessError::Option(format!(
            "requests of {} bytes to a disk with blocks of {}, {} of them",
            point.bytes, geometry.block_bytes, geometry.blocks
        ))
    })?;
    let mut histogram =
        Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3).map_err(|error| HarnessError::Option(error.to_string()))?;
    let clock = MonotonicClock::new();
    let (mut random, mut spin) = (Random::new(1), Spin::new(policy));
    let mut asked: Vec<Time> = vec![Time::ZERO; point.depth as usize];
    let mut frames: Vec<(u64, Frame)> = Vec::new();
    for token in 0..u64::from(point.depth) {
        let frame =
            pool.allocate(0).and_then(|mut frame| frame.resize(point.bytes as usize).is_some().then_some(frame));
        frames.push((token, frame.ok_or_else(|| HarnessError::Option("too few buffers for the depth".to_owned()))?));
    }
    let (requests, busy_s) = busy(|| {
        let (mut requests, mut completions) = (0_u64, Vec::<Completion>::with_capacity(point.depth as usize));
        let end = clock.now() + duration;
        let mut last = clock.now();
        loop {
            let now = clock.now();
            let goes_on = now < end;
            if goes_on {
                for (token, frame) in frames.drain(..) {
                    let block = random.below(places) * request_blocks;
                    let operation = match point.is_write {
                        true => Operation::Write { block, frame, durable: false },
                        false => Operation::Read { block, frame },
                    };
                    asked.get_mut(token as usize).into_iter().for_each(|asked| *asked = now);
                    disk.submit(Request { token, operation })
                        .map_err(|_| HarnessError::Option("the disk takes fewer requests than its depth".to_owned()))?;
                }
            } else if disk.in_flight() == 0 {
                return Ok(requests);
            }
            if disk.complete(&mut completions, usize::MAX) == 0 {
                if spin.should_sleep(now.since(last)) {
                    // Starts what was submitted, and sleeps until something completes: one system call.
                    disk.wait(Duration::from_secs(1));
                    spin.slept(clock.now().since(now));
                } else {
                    disk.ring();
                }
                disk.complete(&mut completions, usize::MAX);
            }
            let now = clock.now();
            if completions.is_empty() && now.since(last) > PATIENCE {
                return Err(HarnessError::Option(format!("nothing has completed for {PATIENCE:?}")));
            }
            for Completion { token, frame, result } in completions.drain(..) {
                result.map_err(|error| HarnessError::Option(format!("a request failed: {error}")))?;
                let since = asked.get(token as usize).map_or(0, |asked| now.since(*asked).as_nanos() as u64);
                histogram.saturating_record(since.max(1));
                requests += u64::from(goes_on);
                frames.extend(frame.map(|frame| (token, frame)));
                last = now;
            }
        }
    })?;
    let requests = requests.max(1) as f64;
    Ok(Outcome {
        requests_per_s: requests / duration.as_secs_f64(),
        cpu_us: busy_s * 1e6 / requests,
        p50_us: histogram.value_at_quantile(0.5) as f64 / 1e3,
        p99_us: histogram.value_at_quantile(0.99) as f64 / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_disk::{Media, Sim, SimConfig};
    use qanat_nic::Region;

    #[test]
    fn a_simulated_disk_is_measured_and_every_buffer_comes_back() {
        let pool = Region::new(8, 4_096).unwrap().pool(8).unwrap();
        for (is_write, policy) in [(false, SpinPolicy::Never), (true, SpinPolicy::Always)] {
            let mut disk = Sim::new(&Media::new(1_000, 512), SimConfig { seed: Some(1), ..SimConfig::default() });
            let point = Point { is_write, bytes: 4_096, depth: 8 };
            let outcome = measure(&mut disk, &pool, point, Duration::from_millis(5), policy).unwrap();
            assert!(outcome.requests_per_s > 0.0 && outcome.p99_us >= outcome.p50_us);
            assert_eq!((pool.in_use_count(), disk.in_flight()), (0, 0));
        }
        let mut disk = Sim::new(&Media::new(4, 512), SimConfig::default());
        let point = Point { is_write: false, bytes: 4_096, depth: 1 };
        assert!(measure(&mut disk, &pool, point, Duration::from_millis(5), SpinPolicy::Never).is_err());
    }
}
