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
    /// The secret that the slave must know, at most 24 bytes.
    pub secret: Option<String>,
    /// Our own Ethernet address. The protocol has none.
    pub mac: MacAddress,
    /// Largest layer-3 packet, bytes.
    pub mtu: u16,
    /// How many queues (rings in each direction) a slave makes, and how many a master accepts at most.
    pub queues: u16,
    /// How many descriptors a ring has, as a power of two. The slave chooses. Their buffers are used in turn, so take few for large
    /// packets: 32 buffers of 64 KiB stay in a cache, 1,024 never do.
    pub log2_ring_size: u8,
    /// Whether packets carry checksums, and are checked. Both ends must agree. Without checksums nobody sums what is sent or checks what
    /// comes, as on Linux' loopback: only for a peer of this project's that sends packets no further.
    pub checksums: bool,
    /// Whether to sleep on interrupts. Without them the queue must be polled.
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
