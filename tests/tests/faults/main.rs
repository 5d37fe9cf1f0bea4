//! All kinds of service go through all faults that an operator meets, while clients compare every byte of every answer. Each kind
//! knows what it promises for each fault (`kinds.rs`, `Promise`). No answer may be wrong, ever; how many failed is told, and judged only
//! by whether answers come again.
//!
//! `QANAT_SEED=N` has the plan of that seed again; with `QANAT_SECONDS=N` (`make soak`) one plan follows the other for so long.
#![forbid(unsafe_code)]

mod asker;
mod daemons;
mod fault;
mod files;
mod kinds;
mod limits;
mod links;
mod machine;
mod plan;
mod processes;
mod scene;
mod signals;
mod starts;
mod unit;

use std::time::Duration;

/// For whatever must happen sooner or later.
const PATIENCE: Duration = Duration::from_secs(120);
