//! Segments as TCP sees them, without addresses: what came, what goes out and where, and their least and usual sizes.

use crate::tcp::send::queue::PieceRange;
use qanat_api::Source;
use qanat_nic::Time;
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::{Flags, Header, SequenceNumber};
use qanat_wire::tcp_options::Options;
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

/// Where segments go: the stack wraps each into IP and Ethernet and hands it to the device.
pub trait Emitter {
    /// Segments that can certainly be sent now.
    fn room(&self) -> usize;
    /// Sends one segment. `header` has no checksum yet. `false`: it was not taken, and will be offered again later.
    fn emit(&mut self, header: &Header, payload: SegmentPayload<'_>, ecn: Ecn) -> bool;

    /// Payload bytes that a train may have now, for whose segments there is certainly room; 0: no train can be sent. If it isn't 0,
    /// [`emit_train`](Emitter::emit_train) will be called next.
    fn begin_train(&mut self) -> u32 {
        0
    }

    /// Sends the bytes of `range` as one packet, to be cut into segments of `segment_bytes`. `header` is the first one's, but has the last
    /// one's PSH and FIN.
    fn emit_train(&mut self, header: &Header, range: PieceRange<'_>, segment_bytes: u16, ecn: Ecn) {
        let _ = (header, range, segment_bytes, ecn);
    }
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
        /// The owner of the bytes.
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

/// The segment size assumed when the peer names none (RFC 9293 §3.7.1).
pub const MSS_DEFAULT: u16 = 536;
/// The smallest believed of a peer, and of a service: a tiny one would multiply our work per byte. (What the device takes is
/// believed, however little it is.)
pub const MSS_MIN: u16 = 64;
