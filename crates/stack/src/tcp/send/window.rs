//! The peer's window as far as it is known: SND.WND, SND.WL1, and the largest ever.

use crate::tcp::sequence::SequenceNumber;

/// What the peer takes.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SendWindow {
    /// SND.WND, bytes.
    size: u32,
    /// SND.WL1: the sequence number of the segment that said so.
    sequence: SequenceNumber,
    /// Largest window the peer ever offered.
    max: u32,
}

impl SendWindow {
    /// SND.WND, bytes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Largest window the peer ever offered.
    #[inline]
    pub fn max(&self) -> u32 {
        self.max
    }

    /// The first one, by a segment of the handshake.
    #[inline]
    pub fn open(&mut self, size: u32, sequence: SequenceNumber) {
        *self = SendWindow { size, sequence, max: size };
    }

    /// The handshake is over: the window of the segment that ended it counts, whatever came before.
    pub fn establish(&mut self, size: u32) {
        self.size = size;
        self.max = self.max.max(size);
    }

    /// Any segment after `sequence` may change it.
    pub fn trust_after(&mut self, sequence: SequenceNumber) {
        self.sequence = sequence;
    }

    /// Only newer segments may change it. As Linux, an ACK that `advances` SND.UNA always does: by RFC 9293's SND.WL1 alone,
    /// reordering could leave a window that reaches too far from the new SND.UNA. Of two ACKs with the same numbers the later
    /// can't be known: the larger window counts, and a window that closes.
    #[inline]
    pub fn update(&mut self, size: u32, sequence: SequenceNumber, advances: bool) {
        let newer = advances
            || self.sequence.before(sequence)
            || (self.sequence == sequence && (size > self.size || size == 0));
        if newer {
            self.size = size;
            self.sequence = sequence;
            self.max = self.max.max(size);
        }
    }
}
