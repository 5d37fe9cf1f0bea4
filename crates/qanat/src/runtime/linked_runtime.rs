//! What a runtime can do only if the stack is in its thread.

use crate::runtime::linked::LinkedPlacement;
use crate::runtime::run::Runtime;
use qanat_control::card_watch::CardWatch;
use qanat_nic::{Clock, MonotonicClock, Vnic};
use qanat_stack::{Config, Stack};
use std::io;
use std::sync::Arc;

impl Runtime<LinkedPlacement> {
    /// A runtime over `vnic`. `entropy` must be unpredictable ([`entropy`](crate::entropy())) outside of tests.
    pub fn new(vnic: Box<dyn Vnic>, config: Config, entropy: [u8; 32]) -> Runtime {
        // Timestamps and sequence numbers (RFC 6528) go on where those of the process before this one ended, if the seed is the same.
        let clock = MonotonicClock::of_machine();
        let stack = Stack::new(config, entropy, vnic.as_ref(), clock.now());
        Runtime::of(LinkedPlacement { stack, vnic, card: None }, clock)
    }

    /// Ends [`run`](Runtime::run) when the card that is watched does.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn watch_card(&mut self, card: &Arc<CardWatch>) -> io::Result<()> {
        self.ends_with(card.bell())?;
        self.placement.card = Some(Arc::clone(card));
        Ok(())
    }

    /// The stack, for its statistics.
    pub fn stack(&self) -> &Stack {
        &self.placement.stack
    }

    /// The device, for its statistics.
    pub fn vnic(&self) -> &dyn Vnic {
        self.placement.vnic.as_ref()
    }
}
