//! When a running service is looked at, and when it ends: the same in each placement.

use crate::runtime::options::RuntimeOptions;
use crate::runtime::stop::StopHandle;
use crate::service::Service;
use qanat_nic::Time;

/// From a service's start to its end.
pub(crate) struct Lifetime {
    options: RuntimeOptions,
    next_observation: Time,
    /// Once it was asked to stop.
    stop_deadline: Option<Time>,
}

impl Lifetime {
    pub(crate) fn new(options: RuntimeOptions, now: Time) -> Lifetime {
        Lifetime { options, next_observation: now + options.observe_every, stop_deadline: None }
    }

    /// Whether it is to be observed now.
    pub(crate) fn is_observed(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_observation;
        if is_due {
            self.next_observation = now + self.options.observe_every;
        }
        is_due
    }

    /// Whether it is to be told to stop: once, when that was asked for.
    pub(crate) fn stops(&mut self, now: Time, stop: &StopHandle) -> bool {
        let stops = self.stop_deadline.is_none() && stop.is_requested();
        if stops {
            self.stop_deadline = Some(now + self.options.grace);
        }
        stops
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_deadline.is_some()
    }

    /// Whether it was told to stop and has, or has had its time.
    pub(crate) fn is_over(&self, now: Time, service: &impl Service) -> bool {
        self.stop_deadline.is_some_and(|deadline| service.is_finished() || now >= deadline)
    }

    /// When there is something to do without an event.
    pub(crate) fn next_deadline(&self) -> Time {
        self.stop_deadline.map_or(self.next_observation, |deadline| deadline.min(self.next_observation))
    }
}
