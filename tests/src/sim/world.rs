//! Two nodes, the network between them, and the clock.

use super::network::{Device, Network, Pools};
use super::node::Node;
use super::seeds::Run;
use super::trace::Trace;
use crate::sim::pattern::mix;
use qanat_nic::{Clock, FaultRates, ManualClock, Time, Vnic};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Rounds without the clock moving after which the nodes are taken to chase each other's tails.
const ROUNDS_MAX: u32 = 100_000;
/// Polls in a row that a deadline asked for and nothing came of: a stack that says so keeps its machine awake.
const IDLE_POLLS_MAX: u32 = 64;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As asked for.
    Stopped,
    /// Nothing will ever happen again.
    Quiet,
    /// The time was up.
    TimeUp,
}

/// A node and its device.
pub struct End<N> {
    /// The node.
    pub node: N,
    /// Its device.
    pub device: Device,
    /// The device's pools.
    pub pools: Pools,
    trace_hash: Rc<Cell<u64>>,
}

impl<N: Node> End<N> {
    fn new(
        opened: (Device, Pools),
        trace_hash: Rc<Cell<u64>>,
        now: Time,
        make: impl FnOnce(&mut Device, Time) -> N,
    ) -> Self {
        let (mut device, pools) = opened;
        End { node: make(&mut device, now), device, pools, trace_hash }
    }

    /// Moves packets whose time has come to the other end's ring.
    fn deliver(&mut self) {
        // What faults held back for a time goes on too.
        self.device.inner_mut().flush();
    }

    fn poll(&mut self, now: Time) -> bool {
        self.node.poll(now, &mut self.device)
    }

    fn delivered(&self) -> u64 {
        self.device.inner().inner().inner().counters().delivered
    }

    /// When something on the wire moves next.
    fn next_arrival(&self) -> Option<Time> {
        let fault = self.device.inner().inner();
        [fault.next_event_time(), fault.inner().next_event_time()].into_iter().flatten().min()
    }
}

/// The simulated world.
pub struct World<A, B> {
    /// Its clock.
    pub clock: ManualClock,
    /// The first node's end.
    pub a: End<A>,
    /// The second node's end.
    pub b: End<B>,
    /// Real time given to helper threads of a service before the virtual clock makes a longer step.
    pub pause: Option<Duration>,
    idle_polls: u32,
    /// Steps of the clock so far.
    pub steps: u64,
}

impl<A: Node, B: Node> World<A, B> {
    /// Opens the network and makes the nodes, at virtual time `start`.
    ///
    /// # Panics
    /// When memory can't be had.
    pub fn new(
        run: &Run,
        start: Time,
        network: &Network,
        a: impl FnOnce(&mut Device, Time) -> A,
        b: impl FnOnce(&mut Device, Time) -> B,
    ) -> World<A, B> {
        let clock = ManualClock::new();
        clock.advance_to(start);
        let second = run.pcap.as_ref().map(|path| path.with_extension("second.pcap"));
        let traces = [run.pcap.clone(), second].map(|path| Trace::new(path.as_deref()).expect("the capture file"));
        let hashes = traces.each_ref().map(Trace::hash);
        let [first, second] = network.open(run.seed, &clock, traces);
        let [hash_a, hash_b] = hashes;
        World {
            a: End::new(first, hash_a, start, a),
            b: End::new(second, hash_b, start, b),
            clock,
            pause: None,
            idle_polls: 0,
            steps: 0,
        }
    }

    /// Lets everything happen that happens now.
    ///
    /// # Panics
    /// When it never ends.
    pub fn settle(&mut self) {
        let now = self.clock.now();
        for _ in 0..ROUNDS_MAX {
            self.a.deliver();
            self.b.deliver();
            let before = self.a.delivered() + self.b.delivered();
            let moved_a = self.a.poll(now);
            let moved_b = self.b.poll(now);
            // What a node sent by a timer may have arrived already, at the one polled first.
            if moved_a || moved_b || self.a.delivered() + self.b.delivered() > before {
                self.idle_polls = 0;
            } else {
                return;
            }
        }
        panic!("the nodes never come to rest at {now:?}");
    }

    /// The next time anything happens.
    pub fn next_event_time(&mut self) -> Option<Time> {
        let now = self.clock.now();
        let nodes = [self.a.node.next_deadline(now), self.b.node.next_deadline(now)];
        let wires = [self.a.next_arrival(), self.b.next_arrival()];
        nodes.into_iter().chain(wires).flatten().min()
    }

    /// Runs until `stop` says so (asked at every step), nothing is left to happen, or the clock reaches `until`.
    ///
    /// # Panics
    /// When a node asks to be polled and then does nothing, again and again.
    pub fn run(&mut self, until: Time, mut stop: impl FnMut(&mut A, &mut B) -> bool) -> Outcome {
        loop {
            self.settle();
            if stop(&mut self.a.node, &mut self.b.node) {
                return Outcome::Stopped;
            }
            let now = self.clock.now();
            let Some(mut next) = self.next_event_time() else { return Outcome::Quiet };
            if next <= now {
                self.idle_polls += 1;
                assert!(
                    self.idle_polls < IDLE_POLLS_MAX,
                    "polled again and again at {now:?} for nothing: a {:?}, b {:?}, wires {:?} {:?}",
                    self.a.node.next_deadline(now),
                    self.b.node.next_deadline(now),
                    self.a.next_arrival(),
                    self.b.next_arrival()
                );
                next = now + Duration::from_micros(1);
            } else {
                self.idle_polls = 0;
            }
            if let Some(pause) = self.pause
                && next.since(now) > Duration::from_millis(20)
            {
                std::thread::sleep(pause);
            }
            if next > until {
                self.clock.advance_to(until);
                return Outcome::TimeUp;
            }
            self.steps += 1;
            self.clock.advance_to(next);
        }
    }

    /// Runs until both nodes are finished, at most for `limit`; then everything must come to rest with nothing left over
    /// within `drain`.
    ///
    /// # Panics
    /// When it doesn't.
    pub fn run_to_end(&mut self, limit: Duration, drain: Duration) {
        let outcome = self.run(self.now_plus(limit), |a, b| a.is_finished() && b.is_finished());
        assert_eq!(outcome, Outcome::Stopped, "not finished within {limit:?} of virtual time");
        self.drain(drain);
    }

    /// The clock's time and `duration` more.
    pub fn now_plus(&self, duration: Duration) -> Time {
        self.clock.now() + duration
    }

    /// Lets everything come to rest within `drain`, with nothing left over.
    ///
    /// # Panics
    /// When it doesn't.
    pub fn drain(&mut self, drain: Duration) {
        self.run(self.now_plus(drain), |a, b| a.leftovers().is_none() && b.leftovers().is_none());
        assert_eq!((self.a.node.leftovers(), self.b.node.leftovers()), (None, None), "left over after {drain:?}");
    }

    /// Lets the world run until `rest` says that it has come to rest.
    ///
    /// # Panics
    /// When that takes longer than `drain`.
    pub fn drain_but(&mut self, drain: Duration, mut rest: impl FnMut(&A, &B) -> bool) {
        let outcome = self.run(self.now_plus(drain), |a, b| rest(a, b));
        let leftovers = (self.a.node.leftovers(), self.b.node.leftovers());
        assert!(rest(&self.a.node, &self.b.node), "{outcome:?} after {drain:?}: {leftovers:?}");
    }

    /// Puts an end to all faults (links stay as they are).
    pub fn heal(&mut self) {
        self.a.device.inner_mut().inner_mut().set_rates(FaultRates::default(), FaultRates::default());
        self.b.device.inner_mut().inner_mut().set_rates(FaultRates::default(), FaultRates::default());
    }

    /// A number that is equal for equal runs: of every frame and time at both devices.
    pub fn trace_hash(&mut self) -> u64 {
        self.a.device.sync().expect("the capture is written");
        self.b.device.sync().expect("the capture is written");
        mix(self.a.trace_hash.get()) ^ self.b.trace_hash.get()
    }

    /// Takes the devices away from the nodes: whatever frames are still out then, the nodes hold. There must be none; nor
    /// may any frame have been invalid (longer than the MTU allows).
    ///
    /// # Panics
    /// When there are.
    pub fn check_frames(mut self) -> (A, B) {
        self.a.device.sync().expect("the capture is written");
        let invalid = [&self.a.device, &self.b.device].map(|device| device.statistics().transmit_invalid);
        assert_eq!(invalid, [0, 0], "frames the devices refused as invalid: too long?");
        drop(self.a.device);
        drop(self.b.device);
        for pools in [&self.a.pools, &self.b.pools] {
            let held = (pools.receive.in_use_count(), pools.transmit.in_use_count());
            assert_eq!(held, (0, 0), "frames the stacks still hold (receive, transmit)");
        }
        (self.a.node, self.b.node)
    }
}
