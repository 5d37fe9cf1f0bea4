//! The acknowledgements that a connection owes its peer, and the D-SACK block that the next one reports.
//!
//! All that changes these numbers is here. Which segment is acknowledged when is explained in `delayed_ack`.

use crate::tcp::receive::reassembly::Block;
use crate::tcp::sequence::SequenceNumber;

/// Segments acknowledged at once after the start (as Linux's quick-ACK mode).
const QUICK_ACKS: u8 = 16;
/// RFC 5681 §4.2: "an ACK SHOULD be generated for at least every second full-sized segment".
const FULL_SEGMENTS: u8 = 2;
/// ACKs for what is in flight, at least, if segments are acknowledged by more than two.
const ACKS_PER_ROUND_TRIP: u32 = 16;
/// Bytes acknowledged at once, at most.
const STRETCH_MAX: u32 = 64 * 1024;
/// Duplicate ACKs sent at once, at most.
const COPIES_MAX: u8 = 16;

/// ACKs owed.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct OwedAcks {
    /// An ACK must go out with the next `output`.
    now: bool,
    /// The ACK that must go out is owed alone: later segments don't share it.
    apart: bool,
    /// Full segments received since the last ACK.
    unacknowledged: u8,
    /// Full segments of one batch that one ACK may acknowledge.
    per_ack: u8,
    /// ACKs still sent at once (quick-ACK at the start).
    quick: u8,
    /// Duplicate ACKs to send for a peer without SACK.
    copies: u8,
    /// RCV.NXT of the last ACK sent (RFC 7323's Last.ACK.sent).
    last_sent: SequenceNumber,
    /// The D-SACK block the next ACK reports (RFC 2883).
    duplicate: Option<Block>,
}

impl OwedAcks {
    /// Nothing is owed, and the first segments are acknowledged at once.
    pub fn new() -> OwedAcks {
        OwedAcks {
            now: false,
            apart: false,
            unacknowledged: 0,
            per_ack: FULL_SEGMENTS,
            quick: QUICK_ACKS,
            copies: 0,
            last_sent: SequenceNumber(0),
            duplicate: None,
        }
    }

    /// The peer's first octet is known: as if all before it had been acknowledged.
    pub(in crate::tcp) fn start(&mut self, receive_next: SequenceNumber) {
        self.last_sent = receive_next;
    }

    /// Whether an ACK must go out with the next `output`.
    #[inline]
    pub(in crate::tcp) fn is_owed(&self) -> bool {
        self.now
    }

    /// An ACK must go out with the next `output`.
    #[inline]
    pub(in crate::tcp) fn owe(&mut self) {
        self.now = true;
    }

    /// An ACK must go out, and later segments must not share it.
    #[inline]
    pub(in crate::tcp) fn owe_apart(&mut self) {
        self.now = true;
        self.apart = true;
    }

    /// Another segment has said all that the owed ACK would.
    pub(in crate::tcp) fn settle(&mut self) {
        self.now = false;
    }

    /// Whether later segments must not share the ACK that is owed.
    #[inline]
    pub(in crate::tcp) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Later segments may share the ACK that is owed.
    pub(in crate::tcp) fn share(&mut self) {
        self.apart = false;
    }

    /// RCV.NXT of the last ACK sent.
    #[inline]
    pub(in crate::tcp) fn last_sent(&self) -> SequenceNumber {
        self.last_sent
    }

    /// A segment with an ACK has been sent.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self, receive_next: SequenceNumber) {
        self.last_sent = receive_next;
        self.now = false;
        self.apart = false;
        self.duplicate = None;
        self.unacknowledged = 0;
    }

    /// A SYN-ACK has been sent that acknowledges data, too.
    pub(in crate::tcp) fn on_syn_ack_sent(&mut self, receive_next: SequenceNumber) {
        self.last_sent = receive_next;
        self.now = false;
        self.unacknowledged = 0;
    }

    /// Data has been delivered, a full segment or less. Gives whether its ACK is owed at once; otherwise it may be delayed.
    #[inline]
    pub(in crate::tcp) fn on_delivered(&mut self, full: bool) -> bool {
        if full {
            self.unacknowledged = self.unacknowledged.saturating_add(1);
        }
        let is_owed = self.now || self.quick > 0 || self.unacknowledged >= FULL_SEGMENTS;
        if is_owed {
            self.apart |= full && (self.quick > 0 || self.unacknowledged >= self.per_ack);
            self.quick = self.quick.saturating_sub(1);
            self.now = true;
        }
        is_owed
    }

    /// A segment beyond a gap has arrived. `is_shared`: its ACK would say the same as those of the segments after it.
    pub(in crate::tcp) fn on_out_of_order(&mut self, is_shared: bool) {
        self.now = true;
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        let is_shared = is_shared && self.duplicate.is_none();
        self.apart |= !is_shared || self.unacknowledged >= self.per_ack;
    }

    /// The sender has `bytes` in flight, in segments of `segment` bytes: sets how many full segments that come together are
    /// acknowledged by one ACK.
    pub(in crate::tcp) fn set_stretch(&mut self, bytes: u32, segment: u32) {
        let stretch = (bytes / ACKS_PER_ROUND_TRIP).min(STRETCH_MAX) / segment.max(1);
        self.per_ack = stretch.clamp(u32::from(FULL_SEGMENTS), u32::from(u8::MAX)) as u8;
    }

    /// One more duplicate ACK is to be sent, for a peer that counts them.
    pub(in crate::tcp) fn owe_copy(&mut self) {
        self.copies = self.copies.saturating_add(1).min(COPIES_MAX);
    }

    /// The duplicate ACKs to be sent, which are owed no longer.
    #[inline]
    pub(in crate::tcp) fn take_copies(&mut self) -> u8 {
        std::mem::take(&mut self.copies)
    }

    /// The next ACK reports `block` as received twice.
    pub(in crate::tcp) fn report(&mut self, block: Block) {
        self.duplicate = Some(block);
    }

    /// The block that the next ACK reports as received twice.
    #[inline]
    pub(in crate::tcp) fn duplicate(&self) -> Option<Block> {
        self.duplicate
    }

    /// Full segments of one batch that one ACK may acknowledge.
    #[cfg(test)]
    pub(in crate::tcp) fn per_ack(&self) -> u8 {
        self.per_ack
    }

    /// As if all that was received had been acknowledged.
    #[cfg(test)]
    pub(in crate::tcp) fn forget_unacknowledged(&mut self) {
        self.unacknowledged = 0;
    }
}
