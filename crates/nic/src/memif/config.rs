//! [`MemifConfig`]: what a connection is to be.

use crate::plan::MemoryPlan;
use qanat_wire::ethernet::MacAddress;
use std::path::PathBuf;
use std::time::Duration;

/// Most queues of a connection.
pub const QUEUES_MAX: u16 = 64;

/// A connection's properties.
#[derive(Clone, Debug)]
pub struct MemifConfig {
    /// The Unix socket: the master listens on it, the slave connects.
    pub socket: PathBuf,
    /// Number of the interface behind the socket.
    pub id: u32,
    /// What the slave must know, at most 24 bytes.
    pub secret: Option<String>,
    /// Own Ethernet address: memif has none.
    pub mac: MacAddress,
    /// Largest layer-3 packet, bytes.
    pub mtu: u16,
    /// Queues (rings in each direction): as slave so many, as master at most so many.
    pub queues: u16,
    /// Descriptors of a ring, as a power of two; the slave's choice. Their buffers are used in turn: with large packets take few,
    /// for 32 of 64 KiB stay in a cache that 1,024 never do.
    pub log2_ring_size: u8,
    /// Packets carry checksums, and are checked. Without, which both ends must be: what is sent is summed by nobody, as between
    /// the two ends of Linux' loopback, and what comes is not checked. For a peer of this project's that sends it no further.
    pub checksums: bool,
    /// Sleep on interrupts; without it the queue must be polled.
    pub interrupts: bool,
    /// Frames of each queue.
    pub memory: MemoryPlan,
    /// How long a peer may take for its part of the handshake.
    pub handshake_timeout: Duration,
}

impl MemifConfig {
    /// Interface 0 behind `socket`: MTU 1500, one queue, rings of 1024 descriptors, interrupts.
    pub fn new(socket: impl Into<PathBuf>, mac: MacAddress) -> MemifConfig {
        MemifConfig {
            socket: socket.into(),
            id: 0,
            secret: None,
            mac,
            mtu: 1_500,
            queues: 1,
            log2_ring_size: 10,
            checksums: true,
            interrupts: true,
            memory: MemoryPlan::default(),
            handshake_timeout: Duration::from_secs(5),
        }
    }
}
