//! How a runtime behaves.

use qanat_nic::SpinPolicy;
use std::time::Duration;

/// How a runtime behaves.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeOptions {
    /// When to sleep.
    pub spin: SpinPolicy,
    /// How long a stopping service may take to finish what is under way.
    pub grace: Duration,
    /// How often the observer is called.
    pub observe_every: Duration,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions {
            spin: SpinPolicy::Adaptive,
            grace: Duration::from_secs(10),
            observe_every: Duration::from_secs(1),
        }
    }
}
