//! What takes the kernel long, made ready by a thread of its own so that a VNIC need not wait for it.
//!
//! A program that no device has yet is written into the kernel's XDP dispatcher when the first one gets it, and out of it with
//! the last: 20 to 30 ms each, with the lock that all changes of network devices need. So `gate` and `deliver` are kept in it,
//! attached to a loopback device each in a namespace that nobody is in; and injectors, which are programs too, are made ahead.

use qanat_nic::af_xdp::PreparedInjector;
use qanat_nic::link::{Namespace, set_generic_xdp};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Made ahead.
const SPARES: usize = 3;
/// One is ready by then, or there is none to be had.
const PATIENCE: Duration = Duration::from_millis(200);
/// Interface number of loopback in every namespace.
const LOOPBACK: u32 = 1;

/// Where they come from.
pub(super) struct Spares {
    ready: Option<Receiver<PreparedInjector>>,
    /// In each a program is kept.
    _keepers: Arc<Mutex<Vec<Namespace>>>,
}

impl Spares {
    /// Starts the thread. It ends when this is dropped, or when the kernel can't have injectors.
    pub(super) fn start(programs: [BorrowedFd<'_>; 2]) -> Spares {
        let (sender, ready) = sync_channel(SPARES - 1);
        let keepers: Arc<Mutex<Vec<Namespace>>> = Arc::default();
        // Without a copy it is only slower.
        let programs: Vec<OwnedFd> = programs.iter().filter_map(|fd| fd.try_clone_to_owned().ok()).collect();
        let kept = Arc::clone(&keepers);
        let prepare = move || {
            let made = programs.iter().filter_map(keep).collect();
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = made;
            // The daemon's alone from here on.
            drop((programs, kept));
            while PreparedInjector::load().is_ok_and(|injector| sender.send(injector).is_ok()) {}
        };
        let thread = std::thread::Builder::new().name("qanat-spares".to_owned()).spawn(prepare);
        Spares { ready: thread.is_ok().then_some(ready), _keepers: keepers }
    }

    /// One, if the kernel has it.
    pub(super) fn take(&self) -> Option<PreparedInjector> {
        self.ready.as_ref()?.recv_timeout(PATIENCE).ok()
    }
}

/// Keeps a program attached for as long as the namespace returned is held.
fn keep(program: &OwnedFd) -> Option<Namespace> {
    let namespace = Namespace::anonymous().ok()?;
    let attach = || set_generic_xdp(LOOPBACK, program.as_fd());
    namespace.within(attach).is_ok_and(|done| done.is_ok()).then_some(namespace)
}
