//! Control messages: which of them a program has asked for, and what it asks for with what it sends.

use std::net::IpAddr;

/// Which of what is told a program has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The address a datagram was sent to.
    pub(crate) packet_info: bool,
    /// The time: `SO_TIMESTAMP`, `SO_TIMESTAMPNS`.
    pub(crate) timestamp: bool,
    pub(crate) timestamp_ns: bool,
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    pub(crate) hop_limit: bool,
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
    pub(crate) traffic_class: bool,
    /// `IP_RECVORIGDSTADDR`, `IPV6_RECVORIGDSTADDR`.
    pub(crate) destination: bool,
    /// `TCP_INQ`: how much is left.
    pub(crate) in_queue: bool,
}

impl Asked {
    /// Whether there is anything to be told.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.packet_info
            || self.timestamp
            || self.timestamp_ns
            || self.hop_limit
            || self.traffic_class
            || self.destination
            || self.in_queue
    }
}

/// What is asked for beside what is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// The address it is to leave with.
    pub(crate) source: Option<IpAddr>,
    /// `UDP_SEGMENT`: the bytes are so many datagrams of this length, and a shorter one.
    pub(crate) segment: Option<usize>,
    /// `IPV6_DONTFRAG`.
    pub(crate) dont_fragment: Option<bool>,
}
