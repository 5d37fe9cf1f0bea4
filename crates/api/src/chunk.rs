//! [`Chunk`]: received bytes, where the device put them.

use qanat_nic::Frame;
use qanat_wire::checksum;

/// Received bytes, lent where the device put them. The frame returns when the chunk is dropped, or given to
/// [`consume`](crate::Commands::consume).
///
/// ```
/// use qanat_api::Chunk;
/// use qanat_nic::Region;
///
/// // The stack makes chunks of the frames it receives; a test makes them of any frame.
/// let pool = Region::new(1, 2_048).unwrap().pool(1).unwrap();
/// let mut frame = pool.allocate(0).unwrap();
/// frame.append(5).unwrap().copy_from_slice(b"hello");
/// let mut chunk = Chunk::new(frame);
/// assert_eq!(chunk.bytes(), b"hello");
///
/// // A service of datagrams may write its answer over the question, and send the same frame back.
/// chunk.resize(3).unwrap().copy_from_slice(b"yes");
/// assert_eq!(chunk.bytes(), b"yes");
///
/// drop(chunk);
/// assert_eq!(pool.in_use_count(), 0);
/// ```
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Chunk {
    frame: Frame,
    /// The sum of a datagram whose sum was taken when it came: of all that UDP's checksum covers but addresses and ports, unfolded
    /// ([`raw_sum_from`](qanat_wire::checksum::raw_sum_from)). A datagram that is sent on need not be summed again. 0: none.
    sum: u64,
    /// The place of the remembered path it came on, which may be the way back (the stack's affair); else any.
    path: usize,
}

impl Chunk {
    /// The data of `frame` as received bytes.
    #[inline]
    pub fn new(frame: Frame) -> Chunk {
        Chunk { frame, sum: 0, path: 0 }
    }

    /// The same, with what only the stack knows of it: the sum of a datagram, as [`sum`](Chunk::sum) has it, and the place of its path.
    #[inline(always)]
    pub fn from_parts(frame: Frame, sum: u64, path: usize) -> Chunk {
        Chunk { frame, sum, path }
    }

    /// What [`from_parts`](Chunk::from_parts) made it from.
    #[inline(always)]
    pub fn into_parts(self) -> (Frame, u64, usize) {
        (self.frame, self.sum, self.path)
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.frame.len()
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frame.is_empty()
    }

    /// Drops up to `count` bytes at the front (overlap with bytes already delivered).
    #[inline]
    pub fn trim_front(&mut self, count: usize) {
        self.frame.trim_front(count);
        self.sum = 0;
    }

    /// Shortens to at most `length` bytes.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.frame.truncate(length);
        self.sum = 0;
    }

    /// Makes it `length` bytes long, what is new at the end as its last user left it, and gives them to be written: an
    /// answer in the frame its question came in. `None`: the frame is too small, and nothing has changed.
    #[inline]
    pub fn resize(&mut self, length: usize) -> Option<&mut [u8]> {
        self.sum = 0;
        self.frame.resize(length)
    }

    /// Adds `bytes` at the end; `sum` is theirs (as they lie in memory: [`native_to_big`](qanat_wire::checksum::native_to_big)
    /// of [`sum`](qanat_wire::checksum::sum)), so that nobody need take it again. `None`: the frame is too small, and nothing
    /// has changed.
    #[inline]
    pub fn append_summed(&mut self, bytes: &[u8], sum: u16) -> Option<()> {
        let length = self.frame.len();
        self.frame.append_bytes(bytes)?;
        if self.sum != 0 {
            self.sum = checksum::add_u64(self.sum, appended_sum(length, bytes.len(), sum));
        }
        Some(())
    }

    /// Replaces the first eight bytes by what `update` makes of them; their sum stays known if it was (RFC 1624). `None`: there
    /// are fewer.
    #[inline]
    pub fn update_front(&mut self, update: impl FnOnce([u8; 8]) -> [u8; 8]) -> Option<()> {
        let front = self.frame.writable()?.first_chunk_mut::<8>()?;
        let old = u64::from_ne_bytes(*front);
        *front = update(*front);
        if self.sum != 0 {
            self.sum = checksum::add_u64(checksum::add_u64(self.sum, !old), u64::from_ne_bytes(*front));
        }
        Some(())
    }

    /// [`append_summed`](Chunk::append_summed) and [`update_front`](Chunk::update_front) in one, if the frame can be written as
    /// it is: what a short answer does to its question. `false`: it can't be written, it is too small, or there are fewer than eight
    /// bytes; nothing has changed.
    #[inline(always)]
    pub fn answer_in_place(&mut self, bytes: &[u8], sum: u16, update: impl FnOnce([u8; 8]) -> [u8; 8]) -> bool {
        let length = self.frame.len();
        if length < 8 {
            return false;
        }
        let Some(front) = self.frame.append_in_place(bytes).and_then(|data| data.first_chunk_mut::<8>()) else {
            return false;
        };
        let old = u64::from_ne_bytes(*front);
        *front = update(*front);
        if self.sum != 0 {
            let change = checksum::add_u64(!old, u64::from_ne_bytes(*front));
            self.sum = checksum::add_u64(checksum::add_u64(self.sum, appended_sum(length, bytes.len(), sum)), change);
        }
        true
    }

    /// The sum of all that UDP's checksum covers but addresses and ports, unfolded; 0: not known.
    #[inline(always)]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Free bytes after the bytes: what [`resize`](Chunk::resize) may add.
    #[inline]
    pub fn room(&self) -> usize {
        self.frame.tailroom()
    }

    /// The frame they are in.
    #[inline]
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The frame; its data is the received bytes. A net core lends its frames to a service's process for reading only: a write to one
    /// of them is a fault.
    #[inline]
    pub fn into_frame(self) -> Frame {
        self.frame
    }

    /// Replaces the bytes from `offset` on by `bytes`, as far as they fit (overlapping segments: first data wins).
    #[inline]
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(target) = self.frame.bytes_mut().get_mut(offset..offset + bytes.len()) {
            target.copy_from_slice(bytes);
        }
        self.sum = 0;
    }
}

/// By what [`Chunk::sum`] grows when `count` bytes whose sum is `sum` come after `length` others.
#[inline(always)]
fn appended_sum(length: usize, count: usize, sum: u16) -> u64 {
    // RFC 1071 section 2 (B): at an odd place each word's bytes have changed sides.
    let sum = if length & 1 == 1 { sum.swap_bytes() } else { sum };
    // The length counts twice. It has 16 bits, so its bytes' sides are a matter of the sum's.
    u64::from(sum) + 2 * u64::from((count as u16).to_be())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use qanat_nic::{MemoryPlan, PairConfig, Vnic, pair};
    use qanat_wire::ip::Protocol;
    use qanat_wire::udp;

    /// The payload, and twice UDP's length: in the pseudo-header and in the header.
    fn payload_sum(payload: &[u8]) -> u64 {
        let length = u64::from(((payload.len() + udp::HEADER_LENGTH) as u16).to_be());
        u64::from(checksum::sum(payload).to_be()) + 2 * length + u64::from(u16::from(Protocol::UDP.0).to_be())
    }

    proptest! {
        #[test]
        fn an_answer_in_its_frame_keeps_its_sum(
            question in proptest::collection::vec(any::<u8>(), 8..100),
            records in proptest::collection::vec(any::<u8>(), 0..100),
            front in any::<[u8; 8]>(),
            known in any::<bool>(),
            at_once in any::<bool>(),
        ) {
            let vnic = pair(PairConfig::default()).unwrap().0.open(MemoryPlan::default()).unwrap();
            let mut frame = vnic.transmit_pool().allocate(64).unwrap();
            frame.append(question.len()).unwrap().copy_from_slice(&question);
            let mut chunk = Chunk::from_parts(frame, if known { payload_sum(&question) } else { 0 }, 0);
            let sum = u16::from_ne_bytes(checksum::sum(&records).to_be_bytes());
            if at_once {
                prop_assert!(chunk.answer_in_place(&records, sum, |_| front));
            } else {
                chunk.append_summed(&records, sum).unwrap();
                chunk.update_front(|_| front).unwrap();
            }
            prop_assert_eq!(chunk.bytes(), [&front, &question[8..], &records].concat());
            if known {
                prop_assert_eq!(checksum::fold(chunk.sum), checksum::fold(payload_sum(chunk.bytes())));
            } else {
                prop_assert_eq!(chunk.sum, 0, "what is not known is taken by who sends");
            }
            let room = chunk.room();
            prop_assert!(chunk.append_summed(&vec![0; room + 1], 0).is_none());
            prop_assert!(!chunk.answer_in_place(&vec![0; room + 1], 0, |_| [0; 8]));
            prop_assert_eq!(chunk.room(), room, "nothing has changed");
        }
    }
}
