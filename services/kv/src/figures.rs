//! What the service counts.

use serde::{Deserialize, Serialize};

/// What it has done since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Commands executed.
    pub commands: u64,
    /// Errors answered.
    pub errors: u64,
    /// Connections taken.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections refused or closed because a bound was reached.
    pub refused: u64,
    /// Bytes that came.
    pub input_bytes: u64,
    /// Bytes that were sent.
    pub output_bytes: u64,
    /// Keys there are now.
    pub keys: u64,
    /// Bytes of their records, about.
    pub data_bytes: u64,
    /// Bytes of the log in use now.
    pub log_bytes: u64,
    /// Batches made durable.
    pub batches: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Bytes of memory that keys take, about.
    pub memory_bytes: u64,
    /// Keys that went because there was too little memory.
    pub evicted: u64,
    /// Writes refused because the log had no room.
    pub writes_refused: u64,
    /// The log has failed: nothing more is acknowledged.
    pub log_failed: bool,
}
