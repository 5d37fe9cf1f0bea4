//! What sits at an end of the network.

use super::network::Device;
use qanat::nic::{Time, Vnic};
use qanat::stack::{Stack, Usage};
use qanat::{Config, Context, Service};

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
}

impl<S: Service> StackNode<S> {
    /// Makes the stack and starts the service.
    ///
    /// # Panics
    /// When the service refuses to start.
    pub fn new(config: Config, entropy: [u8; 32], service: S, device: &mut Device, now: Time) -> StackNode<S> {
        let stack = Stack::new(config, entropy, device, now);
        let mut node = StackNode { stack, service, connections_peak: 0 };
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
