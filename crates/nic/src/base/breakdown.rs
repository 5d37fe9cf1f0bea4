//! Where the time of a packet goes: cycle counters around the phases of a turn, there only if built with the feature
//! `breakdown`. Without it everything here is empty and costs nothing.
//!
//! Phases nest, and each is charged only for what is not within another. What a counter costs is measured beforehand, as
//! much of it as falls into the phase itself and as much as falls into the one around it, and is subtracted. Turns in which
//! nothing came are forgotten.

/// A part of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The loop around everything: clock, events, deadlines.
    Scheduling,
    /// From the device's ring to frames.
    DriverIn,
    /// From frames to events.
    StackIn,
    /// Into the library of the sockets API, and back into the program: what a system call would be.
    Crossing,
    /// The service itself.
    Service,
    /// A payload out of its frame.
    CopyOut,
    /// A payload into a frame, summed on the way.
    CopyIn,
    /// From a command to a frame ready to be sent.
    StackOut,
    /// From frames to the device's ring, its doorbell, and frames back.
    DriverOut,
}

impl Phase {
    /// All of them, in a packet's order.
    pub const ALL: [Phase; 9] = [
        Phase::DriverIn,
        Phase::StackIn,
        Phase::Scheduling,
        Phase::Crossing,
        Phase::CopyOut,
        Phase::Service,
        Phase::CopyIn,
        Phase::StackOut,
        Phase::DriverOut,
    ];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Scheduling => "scheduling",
            Phase::DriverIn => "driver_in",
            Phase::StackIn => "stack_in",
            Phase::Crossing => "crossing",
            Phase::Service => "service",
            Phase::CopyOut => "copy_out",
            Phase::CopyIn => "copy_in",
            Phase::StackOut => "stack_out",
            Phase::DriverOut => "driver_out",
        }
    }
}

/// What was counted on a thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Breakdown {
    /// Turns in which something came.
    pub turns: u64,
    /// Nanoseconds in each phase, the counters' own cost taken off, in the order of [`Phase::ALL`].
    pub phases_ns: Vec<(Phase, f64)>,
    /// What was taken off, nanoseconds.
    pub own_cost_ns: f64,
}

#[cfg(not(feature = "breakdown"))]
mod meter {
    use super::{Breakdown, Phase};

    /// Nothing.
    #[must_use]
    pub struct Span;

    /// Nothing.
    #[inline(always)]
    pub fn span(_phase: Phase) -> Span {
        Span
    }

    /// Nothing.
    #[inline(always)]
    pub fn call() -> Span {
        Span
    }

    /// Nothing.
    #[inline(always)]
    pub fn turn_begins() {}

    /// Nothing.
    #[inline(always)]
    pub fn turn_ends(_busy: bool) {}

    /// `None`: it was not built to count.
    pub fn report() -> Option<Breakdown> {
        None
    }
}

#[cfg(feature = "breakdown")]
mod meter {
    use super::{Breakdown, Phase};
    use std::cell::Cell;
    use std::time::Instant;

    const COUNT: usize = Phase::ALL.len();
    /// Empty phases measured to know what a counter costs.
    const CALIBRATIONS: u32 = 200_000;

    #[derive(Clone, Copy)]
    struct Counts {
        cycles: [u64; COUNT],
        /// Times each phase began.
        spans: [u64; COUNT],
        /// Phases that began within each.
        children: [u64; COUNT],
    }

    const NONE: Counts = Counts { cycles: [0; COUNT], spans: [0; COUNT], children: [0; COUNT] };

    struct Meter {
        current: Cell<usize>,
        since: Cell<u64>,
        busy: Cell<bool>,
        /// This turn's.
        turn: [Cell<u64>; 3 * COUNT],
        /// Of all turns in which something came.
        total: Cell<Counts>,
        turns: Cell<u64>,
        begin: Cell<Option<(Instant, u64)>>,
    }

    thread_local! {
        static METER: Meter = const {
            Meter {
                current: Cell::new(Phase::Scheduling as usize),
                since: Cell::new(0),
                busy: Cell::new(false),
                turn: [const { Cell::new(0) }; 3 * COUNT],
                total: Cell::new(NONE),
                turns: Cell::new(0),
                begin: Cell::new(None),
            }
        };
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn cycles() -> u64 {
        // SAFETY: reads the time stamp counter, which every x86-64 processor has; touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn cycles() -> u64 {
        use crate::base::time::{Clock, MonotonicClock};
        thread_local!(static CLOCK: MonotonicClock = MonotonicClock::new());
        CLOCK.with(|clock| clock.now().as_nanos())
    }

    fn add(cells: &[Cell<u64>], index: usize, value: u64) {
        if let Some(cell) = cells.get(index) {
            cell.set(cell.get().wrapping_add(value));
        }
    }

    impl Meter {
        /// Charges the phase that was, and goes over to `next`. Returns the phase that was.
        #[inline(always)]
        fn switch(&self, next: usize) -> usize {
            let now = cycles();
            let before = self.current.replace(next);
            add(&self.turn, before, now.wrapping_sub(self.since.replace(now)));
            before
        }
    }

    /// Until it is dropped, time is charged to a phase.
    #[must_use]
    pub struct Span {
        outer: usize,
    }

    /// Begins a phase.
    #[inline(always)]
    pub fn span(phase: Phase) -> Span {
        METER.with(|meter| {
            let outer = meter.switch(phase as usize);
            add(&meter.turn, COUNT + phase as usize, 1);
            add(&meter.turn, 2 * COUNT + outer, 1);
            Span { outer }
        })
    }

    /// A program calls: until it is dropped, time that nothing else is charged for is [`Phase::Crossing`]'s; then the
    /// program's, which is the [`Phase::Service`].
    #[inline(always)]
    pub fn call() -> Span {
        let mut span = span(Phase::Crossing);
        span.outer = Phase::Service as usize;
        span
    }

    impl Drop for Span {
        #[inline(always)]
        fn drop(&mut self) {
            METER.with(|meter| meter.switch(self.outer));
        }
    }

    /// The loop begins anew: the last turn is counted with all that came after it, or forgotten.
    #[inline(always)]
    pub fn turn_begins() {
        METER.with(|meter| {
            meter.switch(Phase::Scheduling as usize);
            let counts = meter.busy.get();
            if counts {
                let mut total = meter.total.get();
                let fields = [&mut total.cycles, &mut total.spans, &mut total.children];
                for (cells, sums) in meter.turn.chunks(COUNT).zip(fields) {
                    cells.iter().zip(sums).for_each(|(cell, sum)| *sum += cell.get());
                }
                meter.total.set(total);
                meter.turns.set(meter.turns.get() + 1);
            }
            meter.turn.iter().for_each(|cell| cell.set(0));
            if meter.begin.get().is_none() {
                meter.begin.set(Some((Instant::now(), cycles())));
            }
            // What this took is nobody's.
            meter.since.set(cycles());
        });
    }

    /// A turn is over; whether it had anything to do.
    #[inline(always)]
    pub fn turn_ends(busy: bool) {
        METER.with(|meter| meter.busy.set(busy));
    }

    /// Cycles an empty phase is charged for, and the phase around it.
    fn own_cost() -> (f64, f64) {
        let (inner, outer) = (Phase::Service as usize, Phase::Scheduling as usize);
        METER.with(|meter| {
            let mut best = (f64::MAX, f64::MAX);
            for _ in 0..8 {
                meter.turn.iter().for_each(|cell| cell.set(0));
                meter.current.set(outer);
                meter.since.set(cycles());
                for _ in 0..CALIBRATIONS / 8 {
                    drop(std::hint::black_box(span(Phase::Service)));
                }
                meter.switch(outer);
                let each = |phase: usize| meter.turn[phase].get() as f64 / f64::from(CALIBRATIONS / 8);
                best = (best.0.min(each(inner)), best.1.min(each(outer)));
            }
            meter.turn.iter().for_each(|cell| cell.set(0));
            best
        })
    }

    /// What was counted on this thread so far. Not to be called within a turn.
    pub fn report() -> Option<Breakdown> {
        METER.with(|meter| {
            let (begin, begin_cycles) = meter.begin.get()?;
            let per_ns = cycles().wrapping_sub(begin_cycles) as f64 / begin.elapsed().as_nanos().max(1) as f64;
            let (inner, outer) = own_cost();
            let total = meter.total.get();
            let cost = |phase: usize| total.spans[phase] as f64 * inner + total.children[phase] as f64 * outer;
            let phases_ns = Phase::ALL.map(|phase| {
                let index = phase as usize;
                (phase, (total.cycles[index] as f64 - cost(index)) / per_ns)
            });
            let own_cost_ns = (0..COUNT).map(cost).sum::<f64>() / per_ns;
            Some(Breakdown { turns: meter.turns.get(), phases_ns: phases_ns.to_vec(), own_cost_ns })
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn idle_turns_are_forgotten_and_phases_nest() {
            for busy in [true, false, true] {
                turn_begins();
                {
                    let _stack = span(Phase::StackIn);
                    drop(span(Phase::DriverIn));
                }
                turn_ends(busy);
            }
            turn_begins();
            let total = METER.with(|meter| meter.total.get());
            assert_eq!(METER.with(|meter| meter.turns.get()), 2);
            assert_eq!(total.spans[Phase::DriverIn as usize], 2);
            assert_eq!(total.children[Phase::StackIn as usize], 2);
            assert_eq!(total.children[Phase::DriverIn as usize], 0);
            let report = report().unwrap();
            assert_eq!(report.phases_ns.len(), COUNT);
            assert!(report.own_cost_ns > 0.0);
        }
    }
}

pub use meter::{Span, call, report, span, turn_begins, turn_ends};
