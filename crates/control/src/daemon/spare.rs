//! Injectors made ready by a thread of their own, so that a VNIC need not wait for one.

use qanat_nic::af_xdp::PreparedInjector;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Made ahead.
const SPARES: usize = 2;
/// One is ready by then, or there is none to be had.
const PATIENCE: Duration = Duration::from_millis(200);

/// Where they come from.
pub(super) struct Spares {
    ready: Option<Receiver<PreparedInjector>>,
}

impl Spares {
    /// Starts the thread. It ends when this is dropped, or when the kernel can't have injectors.
    pub(super) fn start() -> Spares {
        let (sender, ready) = sync_channel(SPARES - 1);
        let prepare = move || while PreparedInjector::load().is_ok_and(|injector| sender.send(injector).is_ok()) {};
        let thread = std::thread::Builder::new().name("qanat-injectors".to_owned()).spawn(prepare);
        Spares { ready: thread.is_ok().then_some(ready) }
    }

    /// One, if the kernel has it.
    pub(super) fn take(&self) -> Option<PreparedInjector> {
        self.ready.as_ref()?.recv_timeout(PATIENCE).ok()
    }
}
