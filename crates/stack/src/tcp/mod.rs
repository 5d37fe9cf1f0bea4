//! TCP (RFC 9293) as a pure state machine: time, randomness and the device are arguments.
//!
//! ```text
//!  SYN → half_open::HalfOpen ─ACK→ connection::Connection ─FIN/FIN→ time_wait::TimeWait
//!        (or syn_cookie)            ↑ input (input, acknowledge, recovery, receive)
//!                                   ↓ output (output, send_queue)        timers: one deadline
//! ```
//!
//! One mechanism per file, named by its RFC term. Nothing here knows addresses, devices or tables: the stack finds the
//! connection, calls [`Connection::input`], and once a poll [`Connection::output`] with an [`Emitter`].

pub mod acknowledge;
pub mod challenge;
pub mod config;
pub mod congestion;
pub mod connection;
pub mod counters;
pub mod extras;
pub mod handshake;
pub mod info;
pub mod input;
pub mod keepalive;
pub mod receive;
pub mod recovery;
pub mod send;
pub mod sequence;
pub mod spare;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod time_wait;
pub mod timers;
mod unreachable;
pub mod user_timeout;

pub use config::TcpConfig;
pub use congestion::control::CongestionAlgorithm;
pub use connection::{Connection, OpenParameters};
pub use counters::Counters;
pub use extras::Keepalive;
pub use handshake::fast_open::{CookieCache, CookieKeys, CookieVerdict, FastOpenFailure};
pub use handshake::half_open::{HalfOpen, HalfOpenTimer, HalfOpenVerdict};
pub use info::ConnectionInfo;
pub use receive::memory::ReceiveMemory;
pub use recovery::episode::Phase;
pub use send::queue::PieceRange;
pub use spare::Queues;
pub use state::State;
pub use time_wait::{TimeWait, TimeWaitVerdict};
pub use user_timeout::UserTimeoutBounds;

use crate::event::Event;
use crate::payload::Source;
use qanat_nic::Time;
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::{Flags, Header, SequenceNumber};
use qanat_wire::tcp_options::Options;
use std::collections::VecDeque;
use std::rc::Rc;

/// A received segment's header; the payload goes beside it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentIn<'a> {
    /// SEG.SEQ.
    pub sequence: SequenceNumber,
    /// SEG.ACK; counts only with [`Flags::ACK`].
    pub acknowledgment: SequenceNumber,
    /// Control bits.
    pub flags: Flags,
    /// Window as it stands, not scaled.
    pub window: u16,
    /// SEG.UP; counts only with [`Flags::URG`].
    pub urgent: u16,
    /// Options, parsed.
    pub options: &'a Options,
    /// Payload bytes.
    pub payload_length: u32,
    /// The IP header's ECN codepoint.
    pub ecn: Ecn,
}

impl SegmentIn<'_> {
    /// SEG.LEN: payload, SYN and FIN.
    #[inline]
    pub fn sequence_length(&self) -> u32 {
        self.payload_length + u32::from(self.flags.contains(Flags::SYN)) + u32::from(self.flags.contains(Flags::FIN))
    }
}

/// What a connection needs of its surroundings during one call.
pub struct Env<'a> {
    /// Time of the poll.
    pub now: Time,
    /// Where events go.
    pub events: &'a mut VecDeque<Event>,
    /// The stack's counters.
    pub counters: &'a mut Counters,
    /// Settings.
    pub config: &'a TcpConfig,
    /// The stack's budget for received bytes nobody has taken yet.
    pub memory: &'a mut ReceiveMemory,
    /// Cookies that servers gave (RFC 7413).
    pub cookies: &'a mut CookieCache,
}

/// What becomes of the connection after a call. Whenever it is not to be kept, `Event::Closed` has been pushed.
#[derive(Debug)]
#[must_use]
pub enum Disposition {
    /// It lives on.
    Keep,
    /// It is over: free its slot.
    Remove,
    /// It is over for the service; keep this for the old duplicates.
    TimeWait(TimeWait),
    /// It lives on; answer this segment with [`reset_for`].
    Reset,
    /// It is over; answer this segment with [`reset_for`].
    ResetAndRemove,
}

/// Where segments go: the stack wraps each into IP and Ethernet and hands it to the device.
pub trait Emitter {
    /// Segments that can certainly be sent now.
    fn room(&self) -> usize;
    /// Sends one segment. `header` has no checksum yet. `false`: it was not taken, and will be offered again later.
    fn emit(&mut self, header: &Header, payload: SegmentPayload<'_>, ecn: Ecn) -> bool;
}

/// The payload of a segment to send.
#[derive(Clone, Copy)]
pub enum SegmentPayload<'a> {
    /// None.
    None,
    /// To be copied with [`PieceRange::fill`].
    Copy(PieceRange<'a>),
    /// The source may have a frame ready that holds exactly these bytes; if not, copy `range`.
    Ready {
        /// Whose bytes.
        source: &'a Rc<dyn Source>,
        /// The service's stamp.
        stamp: u64,
        /// Offset in the source.
        offset: u64,
        /// The same bytes, to be copied if there is no ready frame.
        range: PieceRange<'a>,
    },
}

impl SegmentPayload<'_> {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            SegmentPayload::None => 0,
            SegmentPayload::Copy(range) | SegmentPayload::Ready { range, .. } => range.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The reset that answers a segment for which there is no connection (RFC 9293 §3.10.7.1). Ports are swapped by the
/// caller; `None` for a reset, which is never answered.
pub fn reset_for(segment: &SegmentIn<'_>) -> Option<Header> {
    if segment.flags.contains(Flags::RST) {
        return None;
    }
    // "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>; if on,
    // <SEQ=SEG.ACK><CTL=RST>".
    Some(if segment.flags.contains(Flags::ACK) {
        Header { sequence: segment.acknowledgment, flags: Flags::RST, ..Header::default() }
    } else {
        Header {
            acknowledgment: segment.sequence + segment.sequence_length(),
            flags: Flags::RST | Flags::ACK,
            ..Header::default()
        }
    })
}

/// The smallest segment size that path MTU discovery goes down to, headers excluded (RFC 9293 §3.7.1's default for IPv4).
pub(crate) const MSS_BASE: u16 = 536;

/// Our timestamp clock: milliseconds (RFC 7323 §5.4), with a per-connection offset.
#[inline]
pub(crate) fn timestamp(now: Time, offset: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(offset)
}
