//! [`Event`]: what happened, in memory as C has it.

use crate::address::Address;
use qanat::CloseReason;
use std::ffi::CStr;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum EventKind {
    /// A peer has connected. `object`: the connection, which begins with this; `token`: the listener; `address`: the peer.
    Accepted = 1,
    /// A connection of one's own is established. `object`: the connection, which began with `qanat_connect`.
    Connected = 2,
    /// The next bytes of a connection, in `data`; they are lent by `memory`. Until that is released the peer may send so much less.
    Data = 3,
    /// The peer has acknowledged bytes. `object`: the connection; `token`: how many more than before. What was lent for them is free. In
    /// the kernel placement it means that the kernel has taken them.
    Acked = 4,
    /// The peer calls a byte urgent (RFC 6093). `object`: the connection; `token`: how many bytes come before it.
    Urgent = 5,
    /// The peer sends no more on the connection `object`. This side still may.
    PeerClosed = 6,
    /// The connection `object` is gone, and its handle with it. `status`: a `qanat_close_reason`.
    Closed = 7,
    /// A datagram, in `data`, lent by `memory`. `object`: the socket; `address`: its sender.
    Datagram = 8,
    /// A timer. `object`: the timer, which is gone; `token`: as it was set.
    Timer = 9,
    /// Somebody else has the address `address`: it is not used any more, and the next `qanat_next` fails. `token`: the Ethernet address of
    /// that host, its first byte highest of six.
    AddressConflict = 10,
    /// The descriptor that is watched with `token` is readable. It is told again until it is not.
    Readable = 11,
    /// `qanat_wake` was called.
    Woken = 12,
    /// A read from the area `object` has ended. `token`: as it was given; `status`: 0, or an `errno`; `data`, lent by `memory`: what was read.
    Read = 13,
    /// A write to an area has ended. As `QANAT_EVENT_READ`; `memory` is the block that was written.
    Written = 14,
    /// A flush of an area has ended. `object`, `token`, `status` as of a read.
    Flushed = 15,
    /// A writing of zeroes has ended. `object`, `token`, `status` as of a read.
    Zeroed = 16,
}

/// An event. What a kind says nothing of is 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Event {
    /// What happened: a `qanat_event_kind`. There may be more kinds in a newer library.
    pub kind: u32,
    /// How it went.
    pub status: i32,
    /// Whom it is about: a connection, a socket, a timer, an area.
    pub object: u64,
    /// As each kind has it.
    pub token: u64,
    /// What lends `data`, to be released.
    pub memory: u64,
    /// Bytes, as long as `memory` is not released. Not to be written: `qanat_writable` gives them for that.
    pub data: *const u8,
    /// How many.
    pub length: usize,
    /// The other side.
    pub address: Address,
}

impl Event {
    /// An event of which nothing else is known.
    #[inline]
    pub(crate) fn of(kind: EventKind, object: u64) -> Event {
        Event {
            kind: kind as u32,
            status: 0,
            object,
            token: 0,
            memory: 0,
            data: std::ptr::null(),
            length: 0,
            address: Address::default(),
        }
    }
}

/// Why a connection ended: `status` of `QANAT_EVENT_CLOSED`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum Close {
    /// Both sides closed in order.
    Finished = 0,
    /// The peer reset it.
    ResetByPeer = 1,
    /// This side reset it.
    Aborted = 2,
    /// No answer in time.
    TimedOut = 3,
    /// The peer refused the attempt.
    Refused = 4,
    /// The host can't be reached.
    Unreachable = 5,
    /// There is no route to its network.
    NetworkUnreachable = 6,
    /// The host does not speak TCP.
    ProtocolUnreachable = 7,
    /// A filter on the way prohibits it.
    Prohibited = 8,
    /// The packet met its hop limit.
    HopLimitExceeded = 9,
}

impl Close {
    /// In English.
    pub fn text(self) -> &'static CStr {
        match self {
            Close::Finished => c"finished",
            Close::ResetByPeer => c"reset by peer",
            Close::Aborted => c"aborted",
            Close::TimedOut => c"timed out",
            Close::Refused => c"refused",
            Close::Unreachable => c"host unreachable",
            Close::NetworkUnreachable => c"network unreachable",
            Close::ProtocolUnreachable => c"protocol unreachable",
            Close::Prohibited => c"administratively prohibited",
            Close::HopLimitExceeded => c"hop limit exceeded",
        }
    }
}

/// All of them.
pub(crate) const CLOSES: [Close; 10] = [
    Close::Finished,
    Close::ResetByPeer,
    Close::Aborted,
    Close::TimedOut,
    Close::Refused,
    Close::Unreachable,
    Close::NetworkUnreachable,
    Close::ProtocolUnreachable,
    Close::Prohibited,
    Close::HopLimitExceeded,
];

impl From<CloseReason> for Close {
    fn from(why: CloseReason) -> Close {
        match why {
            CloseReason::Finished => Close::Finished,
            CloseReason::ResetByPeer => Close::ResetByPeer,
            CloseReason::Aborted => Close::Aborted,
            CloseReason::TimedOut => Close::TimedOut,
            CloseReason::Refused => Close::Refused,
            CloseReason::Unreachable => Close::Unreachable,
            CloseReason::NetworkUnreachable => Close::NetworkUnreachable,
            CloseReason::ProtocolUnreachable => Close::ProtocolUnreachable,
            CloseReason::Prohibited => Close::Prohibited,
            CloseReason::HopLimitExceeded => Close::HopLimitExceeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Programs are compiled with these: a change is another version of the library.
    #[test]
    fn the_layout_is_what_programs_were_compiled_with() {
        assert_eq!((size_of::<Event>(), align_of::<Event>()), (72, 8));
        let places = [
            offset_of!(Event, status),
            offset_of!(Event, object),
            offset_of!(Event, token),
            offset_of!(Event, memory),
            offset_of!(Event, data),
            offset_of!(Event, length),
            offset_of!(Event, address),
        ];
        assert_eq!(places, [4, 8, 16, 24, 32, 40, 48]);
    }

    #[test]
    fn a_reason_says_what_it_says_in_rust() {
        for (place, why) in CLOSES.into_iter().enumerate() {
            assert_eq!(why as usize, place);
        }
        assert_eq!(
            Close::from(CloseReason::Prohibited).text().to_str(),
            Ok(CloseReason::Prohibited.to_string().as_str())
        );
    }
}
