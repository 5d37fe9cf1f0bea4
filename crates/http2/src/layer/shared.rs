//! [`Shared`]: what all connections share.

use super::limits::Http2Limits;
use super::slots::Slots;
use crate::figures::Http2Figures;
use crate::request::RequestHead;
use qanat_api::Event;
use qanat_nic::{Frame, Pool, Region};
use std::collections::VecDeque;
use std::io;

/// Bytes of a head besides its fields: the line of the request, and what the layer says itself.
const HEAD_BYTES_MORE: usize = 1_024;

/// See the module.
pub(super) struct Shared {
    pub(super) events: VecDeque<Event>,
    pub(super) limits: Http2Limits,
    pub(super) figures: Http2Figures,
    /// Heads of requests go there.
    pub(super) pool: Pool,
    /// A block of fields on its way to a head.
    pub(super) head: RequestHead,
    /// A head as it is written, of a request or a response.
    pub(super) text: Vec<u8>,
    /// A block of fields of a response.
    pub(super) block: Vec<u8>,
}

impl Shared {
    /// # Errors
    /// No memory.
    pub(super) fn new(limits: Http2Limits) -> io::Result<Shared> {
        let frame_bytes = (limits.head_bytes_max + HEAD_BYTES_MORE).next_power_of_two();
        let frame_bytes = u32::try_from(frame_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The service takes each before the next event comes from below, and that can begin as many as one connection may have.
        let frames = limits.streams_max.max(1);
        Ok(Shared {
            events: VecDeque::new(),
            limits,
            figures: Http2Figures::default(),
            pool: Region::new(frames, frame_bytes)?.pool(frames).ok_or(io::ErrorKind::OutOfMemory)?,
            head: RequestHead::default(),
            text: Vec::new(),
            block: Vec::new(),
        })
    }

    /// Bytes in memory for the service. `None`: there is none for them.
    pub(super) fn frame(&self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.pool.allocate(0)?;
        frame.append_bytes(bytes)?;
        Some(frame)
    }
}

/// What a connection works with, besides itself.
pub(super) struct Ground<'a> {
    pub(super) slots: &'a mut Slots,
    pub(super) shared: &'a mut Shared,
}
