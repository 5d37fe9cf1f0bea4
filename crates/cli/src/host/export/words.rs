//! What a service and the keeper of its export say to each other.

use serde::{Deserialize, Serialize};

/// What the keeper is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The directory of this name is to be this service's. Beside it, the mount.
    Claim(String),
    /// Somebody answers: the mount goes there.
    Attach,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Done.
    Done,
    /// Not done, and why.
    Failed(String),
}
