//! The side-by-side harness every table is made with (DESIGN §8): peers take turns on one link with one client, pinned,
//! on a machine checked to be quiet, and everything is reported as medians and ratios of one session.
//!
//! * [`cpu`]: pinning, how far apart two processors are just now, is the machine quiet
//! * [`topology`]: the namespaces and the veth pair
//! * [`process`]: children in a namespace, on a processor, gone when we are
//! * [`sampling`]: where processors are, by `perf`
//! * [`installed`]: programs of others
//! * [`scratch`]: a directory for a table's files
//! * [`memory_limit`]: a bound of a server's memory and page cache
//! * [`size`]: bytes for people
//! * [`options`]: what every table understands
//! * [`alternate`]: A B A B with repetition of runs whose placement changed
//! * [`statistics`]: medians and spread
//! * [`environment`]: what it was measured on
//! * [`table`], [`svg`], [`bars`], [`page`], [`document`]: the result for terminals, programs, browsers and documents

pub mod alternate;
pub mod bars;
pub mod cpu;
pub mod document;
pub mod environment;
pub mod installed;
mod markdown;
pub mod memory_limit;
pub mod options;
pub mod page;
pub mod process;
pub mod sampling;
pub mod scratch;
pub mod size;
pub mod statistics;
pub mod svg;
pub mod table;
pub mod topology;

use thiserror::Error;

/// Why a benchmark can't be run.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// Something it needs is missing; says what and how to get it.
    #[error("{0}")]
    Missing(String),
    /// The system refused something; says what was tried.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A child failed; says which, and the end of what it printed.
    #[error("{0}")]
    Child(String),
    /// A service of the native API can't start.
    #[error(transparent)]
    Start(#[from] qanat::StartError),
    /// An option; says which and what it may be.
    #[error("{0}")]
    Option(String),
}

impl HarnessError {
    /// `what` was refused with `error`.
    pub fn system(what: impl Into<String>, error: impl Into<std::io::Error>) -> HarnessError {
        HarnessError::System { what: what.into(), error: error.into() }
    }
}
