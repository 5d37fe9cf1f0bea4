//! [`Shared`]: what all connections share, and how much each may hold.

use super::blocks::Blocks;
use crate::figures::TlsFigures;
use crate::record::{CONTENT_BYTES_MAX, EXPANSION_BYTES_MAX};
use qanat_api::{ConnectionId, Event};
use qanat_nic::{Pool, Region};
use std::collections::VecDeque;
use std::io;

/// A frame takes the content of a record and its padding.
const FRAME_BYTES: u32 = ((CONTENT_BYTES_MAX + EXPANSION_BYTES_MAX) as u32).next_power_of_two();
/// Records that a connection may have with the service besides the first one.
pub(crate) const EXTRA_RECORDS_MAX: u32 = 3;
/// Bytes that are sealed ahead of what the windows let go.
pub(crate) const UNSENT_BYTES: i64 = 32 << 10;
/// Bytes that are sealed ahead of the acknowledgements, at first.
pub(crate) const AHEAD_BYTES_MIN: usize = 128 << 10;
/// Bytes that are sealed ahead of the acknowledgements, at most.
pub(crate) const AHEAD_BYTES_MAX: usize = 2 << 20;

/// What all connections share.
pub(crate) struct Shared {
    pub(super) events: VecDeque<Event>,
    /// What is opened goes there. There is a frame for each connection, and as many again.
    pub(super) pool: Pool,
    /// So many frames are left for connections that have none.
    pub(super) reserved: u32,
    /// What is sealed goes there.
    pub(super) blocks: Blocks,
    /// Connections that wait for a frame.
    pub(super) starved: VecDeque<ConnectionId>,
    pub(super) figures: TlsFigures,
}

impl Shared {
    /// For so many connections.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn new(connections_max: u32) -> io::Result<Shared> {
        let frames = connections_max.saturating_mul(2).max(2);
        Ok(Shared {
            events: VecDeque::new(),
            pool: Region::new(frames, FRAME_BYTES)?.pool(frames).ok_or(io::ErrorKind::OutOfMemory)?,
            reserved: frames / 2,
            blocks: Blocks::new()?,
            starved: VecDeque::new(),
            figures: TlsFigures::default(),
        })
    }
}
