//! What runs a service: one loop ([`Runtime`]), written once for all placements ([`Placement`]).

mod error;
mod lifetime;
mod linked;
mod linked_runtime;
mod options;
mod pace;
mod placement;
mod run;
mod stop;

pub use error::RuntimeError;
pub use linked::LinkedPlacement;
pub use options::RuntimeOptions;
pub use pace::Pace;
pub use placement::Placement;
pub(crate) use placement::{Sealed, WatchInterval};
pub use qanat_nic::SpinPolicy;
pub use run::Runtime;
pub use stop::StopHandle;
