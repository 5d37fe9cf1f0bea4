//! [`VnicStatistics`]: what a device queue counts.

/// Counters of a device queue since it was opened. Every frame lost has a cause here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VnicStatistics {
    /// Frames received by the application.
    pub receive_frames: u64,
    /// Bytes in them.
    pub receive_bytes: u64,
    /// Frames accepted for transmission.
    pub transmit_frames: u64,
    /// Bytes in them.
    pub transmit_bytes: u64,
    /// Frames dropped because no buffer was free to receive into.
    pub receive_no_buffer: u64,
    /// Frames dropped because the receive ring was full.
    pub receive_ring_full: u64,
    /// Descriptors of received frames that can't be: of a queue another process had before, which might write them.
    pub receive_invalid: u64,
    /// Of the frames accepted, those that went in batches without socket buffers.
    pub transmit_injected: u64,
    /// Frames or descriptors the device refused as invalid.
    pub transmit_invalid: u64,
    /// Frames the device took but lost (for example `EBUSY` of a full veth peer).
    pub transmit_lost: u64,
    /// Frames that had to be copied to be sent: in flight already, of another device's memory, or without headroom.
    pub transmit_copied: u64,
    /// Times a sender found no room in the ring.
    pub transmit_ring_full: u64,
    /// System calls made for transmission.
    pub transmit_doorbells: u64,
}

impl VnicStatistics {
    /// Every counter, by a name that can stand beside a stack's.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("device_receive_frames", self.receive_frames),
            ("device_receive_bytes", self.receive_bytes),
            ("device_receive_no_buffer", self.receive_no_buffer),
            ("device_receive_ring_full", self.receive_ring_full),
            ("device_receive_invalid", self.receive_invalid),
            ("device_transmit_frames", self.transmit_frames),
            ("device_transmit_bytes", self.transmit_bytes),
            ("device_transmit_injected", self.transmit_injected),
            ("device_transmit_invalid", self.transmit_invalid),
            ("device_transmit_lost", self.transmit_lost),
            ("device_transmit_copied", self.transmit_copied),
            ("device_transmit_ring_full", self.transmit_ring_full),
            ("device_transmit_doorbells", self.transmit_doorbells),
        ]
        .into_iter()
    }
}
