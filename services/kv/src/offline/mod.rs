//! The log of a service that does not run: to be [read](reading) and checked, or [filled](filling) from a dump. There is no network and no
//! runtime; whoever asks waits for the disk.

pub mod filling;
pub mod reading;

use std::time::Duration;

/// The disk is looked at again after so long if it says nothing.
const PATIENCE: Duration = Duration::from_millis(100);
/// Nothing is under way, and the log says nothing: it waits for what never comes.
const STUCK: &str = "the log waits, and nothing of the disk is under way";
