//! A payload that carries its mark: an echo gives it back.

use crate::load::datagrams::frame::HEADERS_LENGTH;
use crate::load::datagrams::traffic::{Incoming, Traffic};
use crate::load::datagrams::window::Mark;
use qanat_wire::checksum;

/// Bytes of a mark: the first of the payload.
pub const MARK_LENGTH: usize = 8;
const FILLING: u8 = 0x5a;

/// Datagrams of one length, told by their mark.
pub struct Marked {
    /// Where the mark goes, zeros.
    payload: Vec<u8>,
    sum: u16,
}

impl Marked {
    /// Frames of `length` bytes, headers included.
    pub fn new(length: usize) -> Marked {
        let mut payload = vec![FILLING; length.saturating_sub(HEADERS_LENGTH).max(MARK_LENGTH)];
        if let Some(mark) = payload.get_mut(..MARK_LENGTH) {
            mark.fill(0);
        }
        Marked { sum: checksum::sum(&payload), payload }
    }
}

impl Traffic for Marked {
    #[inline]
    fn prepare(&mut self, _mark: Mark) -> usize {
        self.payload.len()
    }

    #[inline]
    fn write(&mut self, mark: Mark, payload: &mut [u8]) -> u16 {
        payload.copy_from_slice(&self.payload);
        let mut bytes = [0; MARK_LENGTH];
        bytes[..4].copy_from_slice(&mark.slot.to_be_bytes());
        bytes[4..].copy_from_slice(&mark.uses.to_be_bytes());
        if let Some(place) = payload.first_chunk_mut() {
            *place = bytes;
        }
        checksum::combine(self.sum, checksum::sum(&bytes))
    }

    #[inline]
    fn read(&mut self, payload: &[u8]) -> Incoming {
        let Some(bytes) = payload.first_chunk::<MARK_LENGTH>() else { return Incoming::Foreign };
        let [a, b, c, d, e, f, g, h] = *bytes;
        Incoming::Answer(Mark { slot: u32::from_be_bytes([a, b, c, d]), uses: u32::from_be_bytes([e, f, g, h]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_summed_and_known_again() {
        for length in [60, 61, 64, 1_514] {
            let mut marked = Marked::new(length);
            for mark in [Mark { slot: 0, uses: 0 }, Mark { slot: 65_535, uses: u32::MAX }, Mark { slot: 7, uses: 1 }] {
                let mut payload = vec![0; marked.prepare(mark)];
                assert_eq!(payload.len(), length - HEADERS_LENGTH);
                let sum = marked.write(mark, &mut payload);
                assert_eq!(sum, checksum::sum(&payload));
                assert_eq!(marked.read(&payload), Incoming::Answer(mark));
                assert_eq!(marked.read(&payload[..7]), Incoming::Foreign);
            }
        }
    }
}
