//! [`CompletionEntry`]: an entry of a completion queue.

use super::status::Status;

/// Bytes in an entry of a completion queue.
pub const COMPLETION_BYTES: usize = 16;

/// The phase bit, in the upper word.
const PHASE: u64 = 1 << 48;

/// An entry of a completion queue: a copy, never the memory itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletionEntry {
    /// What depends on the command (double word 0).
    pub result: u32,
    /// The submission queue's head when this was posted (SQHD).
    pub submission_head: u16,
    /// The submission queue (SQID).
    pub submission_queue: u16,
    /// The command (CID).
    pub identifier: u16,
    /// The phase bit (P): changes each time round.
    pub phase: bool,
    /// How it went.
    pub status: Status,
}

impl CompletionEntry {
    /// Whether the upper word is of an entry of this phase.
    #[inline]
    pub fn is_of_phase(upper: u64, phase: bool) -> bool {
        (u64::from_le(upper) & PHASE != 0) == phase
    }

    /// From what lies in memory.
    #[inline]
    pub fn from_words(lower: u64, upper: u64) -> CompletionEntry {
        let upper = u64::from_le(upper);
        CompletionEntry {
            result: u64::from_le(lower) as u32,
            submission_head: upper as u16,
            submission_queue: (upper >> 16) as u16,
            identifier: (upper >> 32) as u16,
            phase: upper & PHASE != 0,
            status: Status::from_bits((upper >> 49) as u16),
        }
    }

    /// As it lies in memory: the lower word, and the upper one, which has the phase bit and is written last.
    #[inline]
    pub fn to_words(self) -> (u64, u64) {
        let upper = u64::from(self.submission_head)
            | u64::from(self.submission_queue) << 16
            | u64::from(self.identifier) << 32
            | if self.phase { PHASE } else { 0 }
            | u64::from(self.status.bits()) << 49;
        (u64::from(self.result).to_le(), upper.to_le())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_lies_in_memory_as_the_specification_says() {
        // LBA Out of Range, do not retry, of command 0x1234 of queue 1, whose head is at 5, in the first round.
        let bytes = [0xef, 0xbe, 0xad, 0xde, 0, 0, 0, 0, 5, 0, 1, 0, 0x34, 0x12, 0x01, 0x81];
        let word = |place: usize| u64::from_ne_bytes(bytes[place..place + 8].try_into().unwrap());
        let entry = CompletionEntry::from_words(word(0), word(8));
        let expected = CompletionEntry {
            result: 0xdead_beef,
            submission_head: 5,
            submission_queue: 1,
            identifier: 0x1234,
            phase: true,
            status: Status::LBA_OUT_OF_RANGE.without_retry(),
        };
        assert_eq!(entry, expected);
        assert_eq!(entry.to_words(), (word(0), word(8)));
        assert!(CompletionEntry::is_of_phase(word(8), true) && CompletionEntry::is_of_phase(0, false));
    }
}
