//! memcached over UDP: a frame header of eight bytes (identifier, number, count, zero), then the text protocol
//! (doc/protocol.txt, "UDP protocol"). The identifier holds the slot and as much of its use count as there is room for.

use super::tally::{Tally, not_filled};
use super::workload::{Request, Workload};
use crate::load::datagrams::traffic::{Incoming, Traffic};
use crate::load::datagrams::window::Mark;
use crate::load::http::LoadError;
use qanat_wire::checksum;

const HEADER_LENGTH: usize = 8;
/// Longest payload of a request. A request is one datagram.
const PAYLOAD_MAX: usize = 1_472;
/// Bits of an identifier.
const IDENTIFIER_BITS: u32 = 16;

#[derive(Clone, Copy)]
struct Asked {
    identifier: u16,
    uses: u32,
    request: Request,
}

/// See the [module](self).
pub struct Datagrams {
    workload: Workload,
    /// By slot.
    asked: Vec<Option<Asked>>,
    slot_bits: u32,
    tally: Tally,
    was_filled: bool,
}

impl Datagrams {
    /// At most `window` on their way.
    ///
    /// # Errors
    /// [`LoadError::Option`]: requests or the window are too large.
    pub fn new(workload: Workload, window: usize) -> Result<Datagrams, LoadError> {
        let slot_bits = window.next_power_of_two().trailing_zeros();
        if slot_bits + 4 > IDENTIFIER_BITS {
            return Err(LoadError::Option(format!("--window {window}: identifiers have room for 4096")));
        }
        if workload.request_length_max() + HEADER_LENGTH > PAYLOAD_MAX {
            return Err(LoadError::Option(format!("a request has at most {PAYLOAD_MAX} bytes: smaller values")));
        }
        let asked = vec![None; window];
        Ok(Datagrams { workload, asked, slot_bits, tally: Tally::default(), was_filled: true })
    }

    /// Counts.
    ///
    /// # Errors
    /// [`LoadError::Option`]: keys were still being written when counting began.
    pub fn tally(&self) -> Result<Tally, LoadError> {
        if self.was_filled { Ok(self.tally) } else { Err(not_filled()) }
    }
}

impl Traffic for Datagrams {
    #[inline]
    fn prepare(&mut self, mark: Mark) -> usize {
        // A key's first write that was not answered, or not sent, is asked for again: reads count on it.
        let before = self.asked.get(mark.slot as usize).copied().flatten().map(|asked| asked.request);
        let request = before.filter(|request| request.is_first()).unwrap_or_else(|| self.workload.draw());
        let identifier = (mark.slot | mark.uses.checked_shl(self.slot_bits).unwrap_or_default()) as u16;
        if let Some(asked) = self.asked.get_mut(mark.slot as usize) {
            *asked = Some(Asked { identifier, uses: mark.uses, request });
        }
        self.workload.request(request).map_or(0, |bytes| bytes.len()) + HEADER_LENGTH
    }

    #[inline]
    fn write(&mut self, mark: Mark, payload: &mut [u8]) -> u16 {
        let asked = self.asked.get(mark.slot as usize).copied().flatten();
        let request = asked.and_then(|asked| Some((asked.identifier, self.workload.request(asked.request)?)));
        if let Some((identifier, bytes)) = request
            && let Some((header, text)) = payload.split_first_chunk_mut::<HEADER_LENGTH>()
        {
            let [a, b] = identifier.to_be_bytes();
            *header = [a, b, 0, 0, 0, 1, 0, 0];
            text.copy_from_slice(bytes);
        }
        checksum::sum(payload)
    }

    #[inline]
    fn read(&mut self, payload: &[u8]) -> Incoming {
        let Some((header, text)) = payload.split_first_chunk::<HEADER_LENGTH>() else { return Incoming::Foreign };
        let [a, b, number_high, number_low, ..] = *header;
        let identifier = u16::from_be_bytes([a, b]);
        let slot = u32::from(identifier) & ((1 << self.slot_bits) - 1);
        let asked = self.asked.get(slot as usize).copied().flatten();
        let Some(asked) = asked.filter(|asked| asked.identifier == identifier) else { return Incoming::Foreign };
        let answer = self.workload.answer(asked.request);
        if [number_high, number_low] != [0, 0] || text.len() != answer.len() || !answer.has(0, text) {
            self.tally.wrong += 1;
            return Incoming::Wrong;
        }
        self.workload.answered(asked.request);
        if let Some(slot) = self.asked.get_mut(slot as usize) {
            *slot = None;
        }
        Incoming::Answer(Mark { slot, uses: asked.uses })
    }

    fn is_ready(&self) -> bool {
        self.workload.is_filled()
    }

    fn begin(&mut self) {
        self.was_filled = self.workload.is_filled();
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Protocol, WorkloadOptions};
    use super::*;

    #[test]
    fn answers_belong_to_their_request() {
        let options = WorkloadOptions { keys: 1, value_length: 2, ..WorkloadOptions::new(Protocol::Memcached) };
        let mut datagrams = Datagrams::new(Workload::new(&options), 4).unwrap();
        let mark = Mark { slot: 3, uses: 9 };
        let mut payload = vec![0; datagrams.prepare(mark)];
        let sum = datagrams.write(mark, &mut payload);
        assert_eq!(sum, checksum::sum(&payload));
        assert!(payload[8..].starts_with(b"set k0000000"));
        let mut answer = payload[..8].to_vec();
        answer.extend_from_slice(b"STORED\r\n");
        assert_eq!(datagrams.read(&answer[..12]), Incoming::Wrong);
        assert_eq!(datagrams.read(&answer[..7]), Incoming::Foreign);
        assert_eq!(datagrams.read(&answer), Incoming::Answer(mark));
        assert_eq!(datagrams.read(&answer), Incoming::Foreign, "twice");
        datagrams.prepare(Mark { uses: 10, ..mark });
        assert_eq!(datagrams.read(&answer), Incoming::Foreign, "late");
        assert!(datagrams.tally().is_ok_and(|tally| tally.wrong == 1));
        datagrams.begin();
        assert!(datagrams.tally().is_ok(), "all are written");
        let large = WorkloadOptions { value_length: 2_000, ..options };
        assert!(Datagrams::new(Workload::new(&large), 4).is_err());
    }

    #[test]
    fn a_first_write_that_is_lost_is_asked_for_again() {
        let options = WorkloadOptions { keys: 2, value_length: 2, ..WorkloadOptions::new(Protocol::Memcached) };
        let mut datagrams = Datagrams::new(Workload::new(&options), 1).unwrap();
        let mut key_of = |uses: u32, answered: bool| {
            let mark = Mark { slot: 0, uses };
            let mut payload = vec![0; datagrams.prepare(mark)];
            datagrams.write(mark, &mut payload);
            let answer = [&payload[..8], b"STORED\r\n"].concat();
            if answered {
                assert_eq!(datagrams.read(&answer), Incoming::Answer(mark));
            }
            datagrams.begin();
            (payload[13 + 6], datagrams.tally().is_ok())
        };
        assert_eq!([key_of(1, false), key_of(2, true)], [(b'0', false), (b'0', false)]);
        assert_eq!([key_of(3, false), key_of(4, true)], [(b'1', false), (b'1', true)]);
    }
}
