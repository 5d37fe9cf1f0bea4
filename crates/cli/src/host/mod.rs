//! What every service is run by: [`run`] takes an [`Application`] and the options that all services have.
//!
//! ```text
//!   run ─┬─ app_cores   several processes of this command
//!        ├─ split ───── placement ── net cores, one's own, the daemon's, or those named
//!        ├─ kernel ──── the kernel's own TCP/IP
//!        └─ linked ──── card ─────── instances, one for each queue ── Application::service
//! ```

pub mod addresses;
pub mod app_cores;
pub mod application;
mod arguments;
pub mod attach;
pub mod card;
mod control;
pub mod disk_core;
pub mod export;
mod hosted;
mod instances;
mod kernel;
mod linked;
mod manager;
mod meter;
mod metrics;
pub mod net_core;
mod net_core_watch;
mod obey;
mod own_net_core;
mod place_figures;
mod placement;
pub mod privilege;
mod report;
mod split;

pub use application::Application;
pub use arguments::HostArguments;
pub use control::Control;
pub use meter::{Meter, finish};
pub use obey::obey;
pub use placement::Placement;
pub use report::stack_report;

use crate::signals::hangups;
use export::Export;
use hosted::{Hosted, Watchers};
use privilege::Privilege;

/// Runs an application until it is told to stop. `prepare` makes it, and says what is wrong with its own options before anything is
/// made.
///
/// # Errors
/// Why it can't be run, or why it ended before it was told to.
pub fn run<A: Application>(options: &HostArguments, prepare: impl FnOnce() -> Result<A, String>) -> Result<(), String> {
    let placement = &options.placement;
    // From the first: one that is told to reload while it starts is not ended by that.
    let signals = hangups()?.of_led(placement.app_core);
    let mut application = prepare()?;
    let needs = application.requirements();
    let place = placement.chosen(&options.attach, A::NAME)?;
    let privilege = Privilege::of(&options.privilege, A::NAME, placement.app_core)?;
    let export = application.export().map(|arguments| arguments.name(A::NAME)).transpose()?.flatten();
    let alone = [("--export", export.is_some()), ("--metrics", needs.metrics.is_some())];
    if let Some((option, _)) = alone.into_iter().find(|(_, is_wanted)| *is_wanted && placement.is_several()) {
        return Err(format!("{option} is for one process: leave out --app-cores"));
    }
    if placement.app_cores > 1 {
        // Its processes give up their rights, each by itself.
        return match place {
            Placement::Kernel => {
                kernel::check_ports::<A>(placement, &needs)?;
                app_cores::run_over_kernel(placement, signals)
            }
            _ => app_cores::run(placement, &options.attach, &needs.ports, signals),
        };
    }
    if needs.queues > 1 && place != Placement::Linked {
        return Err("--queues is for the linked placement: ask for as many net cores (--net-cores)".to_owned());
    }
    application.open(&privilege)?;
    let metrics = needs.metrics.map(metrics::listen).transpose()?;
    let export = export.map(Export::open).transpose()?;
    let hosted = Hosted::new(application, options, needs, (privilege, export))?;
    let watchers = Watchers { signals, metrics };
    match place {
        Placement::Linked => linked::run(&hosted, watchers),
        Placement::Split => split::run(&hosted, watchers),
        Placement::Kernel => kernel::run(&hosted, watchers),
    }
}
