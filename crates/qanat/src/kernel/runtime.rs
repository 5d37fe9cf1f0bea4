//! What a runtime can do only if the stack is the kernel's.

use super::error::KernelError;
use super::figures::KernelFigures;
use super::options::KernelOptions;
use super::placement::KernelPlacement;
use super::state::Kernel;
use crate::runtime::Runtime;
use qanat_nic::MonotonicClock;
use qanat_nic::sockets::{SocketEngineKind, SocketRingError};

/// Runs a service over the kernel's own TCP/IP.
pub type KernelRuntime = Runtime<KernelPlacement>;

impl Runtime<KernelPlacement> {
    /// A runtime over the kernel's TCP/IP. All ports of the options are bound here, while there are rights. It has to be used by the
    /// thread that made it.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn over_kernel(options: KernelOptions) -> Result<KernelRuntime, KernelError> {
        Ok(Runtime::of(KernelPlacement { kernel: Kernel::new(options)? }, MonotonicClock::new()))
    }

    /// Closes ports that were bound and that the service, which has started, does not listen at: who connected there would wait for nobody.
    pub fn close_unused_ports(&mut self) {
        self.placement.kernel.close_unused_ports();
    }

    /// By which way the kernel is asked.
    pub fn engine(&self) -> SocketEngineKind {
        self.placement.kernel.ring.kind()
    }

    /// Why that is not io_uring, if nobody chose.
    pub fn no_ring(&self) -> Option<&SocketRingError> {
        self.placement.kernel.no_ring.as_ref()
    }

    /// What it has counted.
    pub fn figures(&self) -> KernelFigures {
        self.placement.kernel.figures()
    }
}
