//! Bytes to send, which stay with their owner until acknowledged.
//!
//! There are no socket buffers: a connection keeps a queue of *pieces* (lent memory, or a range of a [`Source`]), each
//! covering a run of sequence space, and asks the owner for the bytes at every transmission and retransmission.

use bytes::Bytes;
use qanat_nic::Frame;
use std::rc::Rc;

/// Result of [`Source::fill`]: the ones'-complement sum of the bytes written, if the source knows it without reading
/// them again (host order, folded to 16 bits, uncomplemented, as if they started at an even offset).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// See above; `None`: the stack sums.
    pub sum: Option<u16>,
}

/// An owner of prepared bytes: a pure function from (stamp, offset) to bytes. What it returns for a given stamp and
/// offset never changes, so that a retransmission repeats what was sent.
///
/// `stamp` is chosen by the service at each `send_prepared` and handed back at every call: it lets one object serve
/// responses that differ in a few bytes (the `Date` of an HTTP header).
///
/// ```
/// use qanat_api::{Fill, Source};
///
/// /// As many of one letter as are asked for, without memory for them.
/// struct Letters(u8);
///
/// impl Source for Letters {
///     fn fill(&self, _stamp: u64, _offset: u64, target: &mut [u8]) -> Fill {
///         target.fill(self.0);
///         Fill { sum: None }
///     }
/// }
///
/// let mut segment = [0; 3];
/// Letters(b'a').fill(0, 1_000_000, &mut segment);
/// assert_eq!((&segment, Letters(b'a').lend(0, 0)), (b"aaa", &[][..]));
/// ```
pub trait Source {
    /// Writes the bytes from `offset` on into all of `target`. The stack never asks beyond the range it was given.
    fn fill(&self, stamp: u64, offset: u64, target: &mut [u8]) -> Fill;

    /// The bytes from `offset` on as they lie in the owner's memory, as far as they lie there in one piece as they are to be sent; they may
    /// go beyond the range that the stack was given. Empty: they must be copied, with [`fill`](Source::fill).
    fn lend(&self, _stamp: u64, _offset: u64) -> &[u8] {
        &[]
    }

    /// The bytes from `offset` on, as far as [`lend`](Source::lend) would give them, held by whoever takes them: for a stack that reads them
    /// after this call. `None`: they must be copied.
    fn share(&self, _stamp: u64, _offset: u64) -> Option<Bytes> {
        None
    }

    /// Bytes from `offset` to the next place where the source would like a segment to end (its frame's boundary);
    /// `None`: anywhere.
    fn boundary(&self, _stamp: u64, _offset: u64) -> Option<usize> {
        None
    }

    /// Offers a ready frame holding exactly the bytes from `offset` up to [`boundary`](Source::boundary): finds one that
    /// no device holds ([`Rc::get_mut`]), sets its data to the payload alone, calls `write_headers` once with it and the
    /// payload's sum (as in [`Fill::sum`]), and returns a clone for the device. The stack only prepends headers; the
    /// source undoes that before offering the frame again. `None` if it has none to spare now: the stack then copies
    /// with [`fill`](Source::fill).
    fn ready(&self, _stamp: u64, _offset: u64, _write_headers: &mut dyn FnMut(&mut Frame, u16)) -> Option<Rc<Frame>> {
        None
    }
}

/// A filled frame is the owner of its bytes: what was read from a disk is sent from where the disk put it. The one copy is into the
/// device's own memory, when a segment leaves.
impl Source for Frame {
    #[inline]
    fn fill(&self, _stamp: u64, offset: u64, target: &mut [u8]) -> Fill {
        let from = usize::try_from(offset).ok().and_then(|offset| self.bytes().get(offset..));
        if let Some(bytes) = from.and_then(|bytes| bytes.get(..target.len())) {
            target.copy_from_slice(bytes);
        }
        Fill { sum: None }
    }

    fn lend(&self, _stamp: u64, offset: u64) -> &[u8] {
        usize::try_from(offset).ok().and_then(|offset| self.bytes().get(offset..)).unwrap_or_default()
    }
}
