//! A train in the making: new segments of one size that follow each other, whose headers differ in nothing but their place in the stream.
//! Each is decided, counted and recorded as a segment; the device gets them as one packet (TCP segmentation offload).

use crate::tcp::segment::Emitter;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::sequence::SequenceNumber;
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::{Flags, Header};

/// Segments that were decided upon and have not left yet.
pub(super) struct Train {
    /// The first segment's, with the flags of those that ended the train.
    header: Header,
    ecn: Ecn,
    /// Where the first one's data is in the stream.
    offset: u64,
    /// Payload bytes of each, the last one's apart.
    segment_bytes: u32,
    /// Payload bytes of all.
    length: u32,
    /// Payload bytes that there may be.
    bytes_max: u32,
    segments: usize,
    /// Nothing may follow: the last one is short, or ends something.
    is_complete: bool,
}

impl Train {
    /// With its first segment, of `length` bytes at stream offset `offset`. The device takes `bytes_max`.
    pub(super) fn new(header: Header, ecn: Ecn, offset: u64, length: u32, bytes_max: u32) -> Train {
        Train { header, ecn, offset, segment_bytes: length, length, bytes_max, segments: 1, is_complete: false }
    }

    /// Has it leave.
    pub(super) fn leave(self, queue: &SendQueue, emitter: &mut dyn Emitter) {
        let range = queue.range(self.offset, self.length);
        emitter.emit_train(&self.header, range, self.segment_bytes as u16, self.ecn);
    }
}

/// The train that is being made during one call of `output`, if there is one.
#[derive(Default)]
pub(super) struct Making {
    train: Option<Train>,
    /// The way out takes none now.
    is_refused: bool,
}

impl Making {
    /// How many segments there are that have not left.
    #[inline]
    pub(super) fn segments(&self) -> usize {
        self.train.as_ref().map_or(0, |train| train.segments)
    }

    /// Whether the way out has been asked, and takes none.
    #[inline]
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The way out takes none.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// One has begun.
    pub(super) fn begin(&mut self, train: Train) {
        self.train = Some(train);
    }

    /// Ends it.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Train> {
        self.train.take()
    }

    /// Whether a segment of `length` bytes at `sequence` may be the next of a train.
    #[inline]
    pub(super) fn takes(&self, sequence: SequenceNumber, length: u32) -> bool {
        self.train.as_ref().is_some_and(|train| {
            !train.is_complete
                && sequence == train.header.sequence + train.length
                && (1..=train.segment_bytes).contains(&length)
                && train.length + length <= train.bytes_max
        })
    }

    /// Adds one, which it [`takes`](Making::takes).
    pub(super) fn add(&mut self, length: u32, flags: Flags) {
        let Some(train) = &mut self.train else { return };
        let ends = flags.contains(Flags::PSH) || flags.contains(Flags::FIN);
        train.is_complete = ends || length < train.segment_bytes;
        train.header.flags |= flags;
        train.length += length;
        train.segments += 1;
    }
}
