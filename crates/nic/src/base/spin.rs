//! Adaptive spin-then-sleep: how long an idle runtime polls before it waits on its doorbells.
//!
//! A wake-up costs 20–50 µs, polling costs a core. The budget grows while waits turn out short (the next packet would
//! have come while spinning) and shrinks while they are long, so an idle program uses no CPU and a busy one no sleep.

use std::time::Duration;

/// When to stop polling.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SpinPolicy {
    /// Spin a bounded, adapting time, then sleep.
    #[default]
    Adaptive,
    /// Never sleep: lowest latency, one core always busy.
    Always,
    /// Sleep at once.
    Never,
}

const BUDGET_MIN: Duration = Duration::from_micros(2);
const BUDGET_MAX: Duration = Duration::from_micros(200);

/// When one thread that has nothing to do goes to sleep.
#[derive(Debug)]
pub struct Spin {
    policy: SpinPolicy,
    budget: Duration,
}

impl Spin {
    /// By this policy.
    pub fn new(policy: SpinPolicy) -> Spin {
        Spin { policy, budget: BUDGET_MIN }
    }

    /// Whether to go to sleep after having been idle for `idle`.
    pub fn should_sleep(&self, idle: Duration) -> bool {
        match self.policy {
            SpinPolicy::Always => false,
            SpinPolicy::Never => true,
            SpinPolicy::Adaptive => idle >= self.budget,
        }
    }

    /// Learns from a sleep that lasted `slept`.
    pub fn slept(&mut self, slept: Duration) {
        self.budget =
            if slept < BUDGET_MAX { (self.budget * 2).min(BUDGET_MAX) } else { (self.budget / 2).max(BUDGET_MIN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapts_between_its_bounds() {
        let mut spin = Spin::new(SpinPolicy::Adaptive);
        for _ in 0..20 {
            spin.slept(Duration::from_micros(30));
        }
        assert!(!spin.should_sleep(Duration::from_micros(199)));
        assert!(spin.should_sleep(BUDGET_MAX));
        for _ in 0..20 {
            spin.slept(Duration::from_millis(5));
        }
        assert!(spin.should_sleep(BUDGET_MIN));
    }
}
