//! What other threads have to do with a running service: they stop it, ask it for a report, and read its figures.

use crate::host::application::Figures;
use qanat::StopHandle;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clones are the same.
pub struct Control<F> {
    shared: Arc<Shared<F>>,
}

struct Shared<F> {
    /// Of the instances on the card that there is now.
    stops: Mutex<Vec<StopHandle>>,
    /// The service is to stop.
    stopped: AtomicBool,
    /// How many were asked for.
    reports: AtomicU32,
    /// By queue, as of the last look, at most a second ago.
    counts: Box<[Mutex<Count<F>>]>,
}

/// What a queue's instances have done.
#[derive(Clone, Copy, Default)]
struct Count<F> {
    /// Those whose card is gone.
    ended: F,
    /// All.
    all: F,
}

impl<F> Clone for Control<F> {
    fn clone(&self) -> Control<F> {
        Control { shared: Arc::clone(&self.shared) }
    }
}

impl<F: Figures> Control<F> {
    /// Of so many instances.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn new(queues: u32) -> Result<Control<F>, String> {
        let shared = Shared {
            stops: Mutex::default(),
            stopped: AtomicBool::new(false),
            reports: AtomicU32::new(0),
            counts: (0..queues).map(|_| Mutex::default()).collect(),
        };
        let control = Control { shared: Arc::new(shared) };
        control.begin()?;
        Ok(control)
    }

    /// Instances begin, in place of those whose card is gone.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn begin(&self) -> Result<(), String> {
        let stops: Result<Vec<StopHandle>, _> = self.shared.counts.iter().map(|_| StopHandle::new()).collect();
        *self.stops() = stops.map_err(|error| format!("doorbell: {error}"))?;
        for count in &self.shared.counts {
            let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
            count.all.end();
            count.ended = count.all;
        }
        if self.is_stopped() {
            self.end();
        }
        Ok(())
    }

    fn stops(&self) -> MutexGuard<'_, Vec<StopHandle>> {
        self.shared.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the service to stop; false: it was asked before.
    pub fn stop(&self) -> bool {
        let is_first = !self.shared.stopped.swap(true, Ordering::AcqRel);
        self.end();
        is_first
    }

    /// Whether the service was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Ends the instances that there are.
    pub fn end(&self) {
        self.stops().iter().for_each(StopHandle::request);
    }

    /// An instance's.
    ///
    /// # Errors
    /// There is no such queue.
    pub fn stop_of(&self, queue: u32) -> Result<StopHandle, String> {
        self.stops().get(queue as usize).cloned().ok_or_else(|| format!("there is no queue {queue}"))
    }

    /// Asks all for a report on standard error.
    pub fn report(&self) {
        self.shared.reports.fetch_add(1, Ordering::Release);
    }

    /// How many reports were asked for until now.
    pub fn reports(&self) -> u32 {
        self.shared.reports.load(Ordering::Acquire)
    }

    /// Whether one was asked for since there were `known`, which are as many as now then.
    pub fn wants_report(&self, known: &mut u32) -> bool {
        let wanted = self.reports();
        std::mem::replace(known, wanted) != wanted
    }

    /// What the instance on a queue has counted by now.
    pub fn put(&self, queue: u32, now: F) {
        if let Some(count) = self.shared.counts.get(queue as usize) {
            let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
            count.all = F::sum(&[count.ended, now]);
        }
    }

    /// What each queue's instances have done.
    pub fn each(&self) -> Vec<F> {
        let counts = self.shared.counts.iter();
        counts.map(|count| count.lock().unwrap_or_else(PoisonError::into_inner).all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Counted {
        done: u64,
        open: u64,
    }

    impl Figures for Counted {
        fn add(&mut self, other: &Counted) {
            self.done += other.done;
            self.open += other.open;
        }

        fn end(&mut self) {
            self.open = 0;
        }
    }

    #[test]
    fn counting_goes_on_over_cards() {
        let control: Control<Counted> = Control::new(2).unwrap();
        control.put(0, Counted { done: 5, open: 2 });
        control.put(1, Counted { done: 1, open: 1 });
        control.begin().unwrap();
        assert_eq!(Counted::sum(&control.each()), Counted { done: 6, open: 0 });
        control.put(0, Counted { done: 2, open: 1 });
        assert_eq!(control.each(), [Counted { done: 7, open: 1 }, Counted { done: 1, open: 0 }]);
    }

    #[test]
    fn one_that_was_stopped_stays_so_on_the_next_card() {
        let control: Control<Counted> = Control::new(1).unwrap();
        assert!(control.stop() && !control.stop());
        control.begin().unwrap();
        assert!(control.stop_of(0).unwrap().is_requested() && control.is_stopped());
        assert!(control.stop_of(1).is_err());
    }
}
