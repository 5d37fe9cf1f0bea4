//! What sits at an end of the network.

use super::network::{Device, Pools};
use qanat::{Config, Context, Service};
use qanat_nic::{Time, Vnic, snapshot};
use qanat_stack::{Stack, Usage};

/// An end: a stack with something on top.
pub trait Node {
    /// Takes what has come, does what is due, sends. Whether anything happened.
    fn poll(&mut self, now: Time, device: &mut Device) -> bool;

    /// When it must be polled at the latest.
    fn next_deadline(&mut self, now: Time) -> Option<Time>;

    /// Whether what it was to do is done.
    fn is_finished(&self) -> bool;

    /// What it still holds, if anything; asked when all is over.
    fn leftovers(&self) -> Option<String>;
}

/// Our stack with a service, as the runtime drives them.
pub struct StackNode<S> {
    /// The stack.
    pub stack: Stack,
    /// What runs on it.
    pub service: S,
    /// Bytes of memory its connections had at most, frames not counted.
    pub connections_peak: usize,
    /// If its stack moves from time to time.
    pub moves: Option<Moves>,
}

/// A stack that goes on as if in another process: written, let go of, read.
pub struct Moves {
    /// Of its device.
    pub pools: Pools,
    /// Polls between two moves.
    pub every: u64,
    /// Polls so far.
    pub polls: u64,
    /// Times it has moved.
    pub done: u64,
}

impl Moves {
    /// After so many polls each, among frames of `pools`.
    pub fn every(every: u64, pools: &Pools) -> Moves {
        Moves { pools: pools.clone(), every, polls: 0, done: 0 }
    }

    /// # Panics
    /// When what was written can't be read.
    fn turn(&mut self, now: Time, device: &Device, stack: &mut Stack) {
        self.polls += 1;
        if !self.polls.is_multiple_of(self.every) {
            return;
        }
        let pools = [&self.pools.receive, &self.pools.transmit, &self.pools.prepared];
        // A range of prepared content can't be written: then it stays.
        let Ok(bytes) = snapshot::writing(&pools, |_| stack.part()) else { return };
        let usage = stack.usage();
        *stack = Stack::new(Config::new([10, 9, 9, 9].into(), 24), [0; 32], device, now);
        let (read, rest) = snapshot::reading(&pools, || Stack::resume(&bytes)).expect("what was written can be read");
        assert!(rest.is_empty() && read.usage() == usage, "{usage:?} {:?}", read.usage());
        *stack = read;
        self.done += 1;
    }
}

impl<S: Service> StackNode<S> {
    /// Makes the stack and starts the service.
    ///
    /// # Panics
    /// When the service refuses to start.
    pub fn new(config: Config, entropy: [u8; 32], service: S, device: &mut Device, now: Time) -> StackNode<S> {
        let stack = Stack::new(config, entropy, device, now);
        let mut node = StackNode { stack, service, connections_peak: 0, moves: None };
        node.command(now, device, |service, context| service.start(context)).expect("the service starts");
        node
    }

    /// Calls the service, or commands the stack, outside of an event.
    pub fn command<T>(
        &mut self,
        now: Time,
        device: &mut dyn Vnic,
        command: impl FnOnce(&mut S, &mut Context<'_>) -> T,
    ) -> T {
        command(&mut self.service, &mut Context::new(&mut self.stack, device, now))
    }
}

impl<S: Service> Node for StackNode<S> {
    fn poll(&mut self, now: Time, device: &mut Device) -> bool {
        if let Some(moves) = &mut self.moves {
            moves.turn(now, device, &mut self.stack);
        }
        let mut moved = self.stack.receive(now, device) > 0;
        while let Some(event) = self.stack.next_event() {
            moved = true;
            self.service.handle(event, &mut Context::new(&mut self.stack, device, now));
        }
        if moved {
            self.service.turn_ended(&mut Context::new(&mut self.stack, device, now));
        }
        self.stack.transmit(now, device);
        self.connections_peak = self.connections_peak.max(self.stack.usage().connections);
        moved
    }

    fn next_deadline(&mut self, _now: Time) -> Option<Time> {
        self.stack.next_deadline()
    }

    fn is_finished(&self) -> bool {
        self.service.is_finished()
    }

    fn leftovers(&self) -> Option<String> {
        let usage = self.stack.usage();
        // A cache of neighbours is no leak; their number is bounded by the table.
        let clean = Usage { neighbours: usage.neighbours, ..Usage::default() };
        (usage != clean).then(|| format!("{usage:?}"))
    }
}
