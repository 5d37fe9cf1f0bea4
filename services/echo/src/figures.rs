//! What an echo counts, whichever of the four it is.

use serde::{Deserialize, Serialize};

/// What an echo has done since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Packets, datagrams or pieces of a stream sent back.
    pub echoed: u64,
    /// Bytes in them: of frames when raw, else of payload.
    pub bytes: u64,
    /// Not sent back: malformed, or there was no room.
    pub dropped: u64,
    /// TCP connections open now.
    pub connections: u64,
}
