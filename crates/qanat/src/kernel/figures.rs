//! What the kernel placement has counted.

/// What the kernel placement has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelFigures {
    /// Connections that there are.
    pub connections: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed at once: there were as many as there may be.
    pub connections_refused: u64,
    /// Times that a listener could not accept: no descriptors, or no memory.
    pub accept_failures: u64,
    /// Receptions of streams.
    pub receives: u64,
    /// Sends of streams that the kernel has taken.
    pub sends: u64,
    /// Times that a stream was not received because it held as many frames as it may.
    pub receives_paused: u64,
    /// Times that there was no frame to receive into.
    pub frames_exhausted: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams received that were longer than a frame, and lost.
    pub datagrams_too_long: u64,
    /// Datagrams that the kernel has taken.
    pub datagrams_sent: u64,
    /// Datagrams that it has not, or that found no room.
    pub datagrams_lost: u64,
    /// Settings that the kernel refused.
    pub settings_refused: u64,
    /// System calls: of the ring, or by epoll all that sockets take.
    pub enters: u64,
    /// Frames that services hold.
    pub frames_in_use: u64,
}
