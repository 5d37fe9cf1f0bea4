//! What a connection is opened with.

use crate::tcp::segment::MSS_MIN;
use crate::tcp::sequence::SequenceNumber;
use qanat_api::ConnectionId;

/// What a connection is opened with.
#[derive(Clone, Copy, Debug)]
pub struct OpenParameters {
    /// Its handle.
    pub id: ConnectionId,
    /// Own port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// Initial sequence number (RFC 6528).
    pub initial_sequence: SequenceNumber,
    /// Added to the timestamp clock (RFC 7323 §7.1).
    pub timestamp_offset: u32,
    /// Largest TCP segment the path to the peer takes, headers excluded: MTU − IP header − 20.
    pub maximum_segment: u16,
    /// Largest receive window, bytes.
    pub receive_window: u32,
}

impl OpenParameters {
    /// Neither announces nor sends longer segments than the service wishes.
    pub(crate) fn limit_segment(&mut self, most: Option<u16>) {
        self.maximum_segment = most.map_or(self.maximum_segment, |most| self.maximum_segment.min(most.max(MSS_MIN)));
    }
}
