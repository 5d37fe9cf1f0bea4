//! The receive side's sequence numbers: what has arrived in order, what is offered, and where the stream ends.
//!
//! All that changes these numbers is here. The offered edge never moves left.

use crate::tcp::segment::MSS_DEFAULT;
use crate::tcp::sequence::SequenceNumber;

/// Largest value of the window field.
const FIELD_MAX: u32 = 65_535;

/// RCV.NXT and RCV.WND, and how long received segments are.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct ReceiveWindow {
    /// RCV.NXT.
    next: SequenceNumber,
    /// RCV.NXT + RCV.WND as last advertised: never moves left.
    edge: SequenceNumber,
    /// IRS.
    initial: SequenceNumber,
    /// Where the peer's FIN is, once it is known.
    fin_at: Option<SequenceNumber>,
    /// Payload bytes of the longest segment received, or 536.
    segment_max: u16,
    /// Moving average of the bytes in a received frame.
    length_mean: u16,
    /// Shift of the windows we advertise.
    scale: u8,
}

impl ReceiveWindow {
    /// The peer's first sequence number is not known yet.
    pub fn new() -> ReceiveWindow {
        let unknown = SequenceNumber(0);
        ReceiveWindow {
            next: unknown,
            edge: unknown,
            initial: unknown,
            fin_at: None,
            segment_max: MSS_DEFAULT,
            length_mean: MSS_DEFAULT,
            scale: 0,
        }
    }

    /// The peer begins with the SYN `initial`, and may send `size` bytes after it.
    pub(in crate::tcp) fn start(&mut self, initial: SequenceNumber, size: u32) {
        self.initial = initial;
        self.next = initial + 1;
        self.edge = self.next + size;
    }

    /// Shift of the windows we advertise, as the handshake settled it.
    pub(in crate::tcp) fn set_scale(&mut self, scale: u8) {
        self.scale = scale;
    }

    /// The peer may send `bytes` more: its SYN carried so many.
    pub(in crate::tcp) fn extend(&mut self, bytes: u32) {
        self.edge += bytes;
    }

    /// RCV.NXT.
    #[inline]
    pub fn next(&self) -> SequenceNumber {
        self.next
    }

    /// RCV.NXT + RCV.WND as last advertised.
    #[inline]
    pub fn edge(&self) -> SequenceNumber {
        self.edge
    }

    /// IRS.
    #[inline]
    pub fn initial(&self) -> SequenceNumber {
        self.initial
    }

    /// RCV.WND as last advertised, bytes.
    #[inline]
    pub fn offered(&self) -> u32 {
        self.edge.distance_from(self.next)
    }

    /// Shift of the windows we advertise.
    #[inline]
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// The largest window that the field can express, bytes.
    #[inline]
    pub fn expressible(&self) -> u32 {
        FIELD_MAX << self.scale
    }

    /// Payload bytes of the longest segment received, or 536.
    #[inline]
    pub fn segment_max(&self) -> u16 {
        self.segment_max
    }

    /// Moving average of the bytes in a received frame.
    #[inline]
    pub fn length_mean(&self) -> u16 {
        self.length_mean
    }

    /// A segment with `length` bytes of data has arrived.
    #[inline]
    pub(super) fn note_length(&mut self, length: u32) {
        let counted = length.min(FIELD_MAX) as u16;
        self.segment_max = self.segment_max.max(counted);
        self.length_mean = self.length_mean - self.length_mean / 8 + counted / 8;
    }

    /// The next `bytes` have arrived in order.
    #[inline]
    pub(super) fn advance(&mut self, bytes: u32) {
        self.next += bytes;
    }

    /// What has arrived up to `end` is dropped unread, as far as it lies within the window.
    pub(super) fn skip_to(&mut self, end: SequenceNumber) {
        self.next = end.earlier(self.edge);
    }

    /// The peer's FIN is at `at`, unless an earlier segment said otherwise.
    pub(super) fn note_fin(&mut self, at: SequenceNumber) {
        self.fin_at.get_or_insert(at);
    }

    /// Whether all up to the peer's FIN has arrived.
    #[inline]
    pub(super) fn is_at_fin(&self) -> bool {
        self.fin_at == Some(self.next)
    }

    /// The peer's FIN has been taken.
    pub(super) fn pass_fin(&mut self) {
        self.next += 1;
        self.edge = self.edge.later(self.next);
        self.fin_at = None;
    }

    /// Where data ends that may be taken: at the edge, or at the peer's FIN.
    #[inline]
    pub(super) fn data_end(&self) -> SequenceNumber {
        self.fin_at.map_or(self.edge, |fin| fin.earlier(self.edge))
    }

    /// The window field of a segment about to be sent, if the buffers would bear `possible` bytes of at most `limit`. Moves
    /// the edge.
    #[inline]
    pub(super) fn advertise(&mut self, possible: u32, limit: u32) -> u16 {
        let offered = self.offered();
        let segment = u32::from(self.segment_max);
        let mut window = offered;
        // The edge moves right only by a worthwhile step (§3.8.6.2.2), and never left (§3.8.6: "SHOULD NOT shrink").
        if possible > offered && (possible - offered >= segment.min(limit / 2) || offered >= segment) {
            window = possible;
        }
        let window = window.min(self.expressible());
        // Rounded up where it must not shrink, down where it grows.
        let unit = 1u32 << self.scale;
        let field = if window > offered && window - offered >= unit { window / unit } else { window.div_ceil(unit) };
        let field = field.min(FIELD_MAX);
        self.edge = self.edge.later(self.next + (field << self.scale));
        field as u16
    }
}
