//! Programs kept known to the kernel, by a thread of its own so that a VNIC need not wait for it.
//!
//! A program that no device has yet is written into the kernel's XDP dispatcher when the first one gets it, and out of it with
//! the last: 20 to 30 ms each, with the lock that all changes of network devices need. So `gate` and `deliver` are kept in it,
//! attached to a loopback device each in a namespace that nobody is in.

use qanat_nic::link::{Namespace, set_generic_xdp};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Interface number of loopback in every namespace.
const LOOPBACK: u32 = 1;

/// Where they are kept.
pub(crate) struct Keepers {
    _keepers: Arc<Mutex<Vec<Namespace>>>,
}

impl Keepers {
    /// Starts the thread, which ends by itself.
    pub(crate) fn start(programs: [BorrowedFd<'_>; 2]) -> Keepers {
        let keepers: Arc<Mutex<Vec<Namespace>>> = Arc::default();
        // Without a copy it is only slower.
        let programs: Vec<OwnedFd> = programs.iter().filter_map(|fd| fd.try_clone_to_owned().ok()).collect();
        let kept = Arc::clone(&keepers);
        let prepare = move || {
            let made = programs.iter().filter_map(keep).collect();
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = made;
        };
        // Without a thread, too.
        let _ = std::thread::Builder::new().name("qanat-keepers".to_owned()).spawn(prepare);
        Keepers { _keepers: keepers }
    }
}

/// Keeps a program attached for as long as the namespace returned is held.
fn keep(program: &OwnedFd) -> Option<Namespace> {
    let namespace = Namespace::anonymous().ok()?;
    let attach = || set_generic_xdp(LOOPBACK, program.as_fd());
    namespace.within(attach).is_ok_and(|done| done.is_ok()).then_some(namespace)
}
