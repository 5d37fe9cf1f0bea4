//! What the service counts.

use serde::{Deserialize, Serialize};

/// What it has done since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Keys asked for.
    pub gets: u64,
    /// Of those, found.
    pub hits: u64,
    /// Values that came.
    pub sets: u64,
    /// Items there are now.
    pub items: u64,
    /// Memory that is in use now.
    pub memory_bytes: u64,
    /// Items that went because there was too little memory.
    pub evicted: u64,
    /// Items that had ended.
    pub reclaimed: u64,
    /// Values that were too large, or had no room.
    pub stores_refused: u64,
    /// Connections taken.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections refused because there were too many.
    pub refused: u64,
    /// Connections closed because they took nothing of what they were owed while others needed the memory.
    pub slow_closed: u64,
    /// Connections closed because they said nothing for long.
    pub idle_closed: u64,
    /// Bytes that came.
    pub input_bytes: u64,
    /// Bytes that were sent.
    pub output_bytes: u64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// Datagrams that were no request.
    pub datagrams_malformed: u64,
    /// Datagrams whose answer would have been longer than they, from strangers.
    pub datagrams_unanswered: u64,
}
