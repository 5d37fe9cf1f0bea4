//! Options of every service.

use crate::host::attach::AttachArguments;
use crate::host::placement::PlacementArguments;
use crate::host::privilege::PrivilegeArguments;
use clap::Args;
use qanat::RuntimeOptions;

/// Where a service runs, and as whom.
#[derive(Args, Clone, Debug)]
pub struct HostArguments {
    // First: what follows a group is shown under its heading.
    /// Figures as JSON, a line each second
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub attach: AttachArguments,
    #[command(flatten)]
    pub placement: PlacementArguments,
    #[command(flatten)]
    pub privilege: PrivilegeArguments,
}

impl HostArguments {
    /// How its runtimes behave.
    pub fn runtime(&self) -> RuntimeOptions {
        RuntimeOptions { spin: self.attach.spin.into(), ..RuntimeOptions::default() }
    }
}
