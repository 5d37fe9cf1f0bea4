//! A request's header and question (RFC 1035 section 4.1), in one pass.

use crate::message::HEADER_LENGTH;
use crate::name::NAME_BYTES_MAX;

/// A question whose name is whole at byte 12.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// After the root's label.
    pub name_end: usize,
    /// Its type.
    pub qtype: u16,
    /// Its class.
    pub class: u16,
}

impl Question {
    /// Reads it; `None`: not whole, or the name is compressed (there is nothing it could point to).
    #[inline(always)]
    pub fn parse(message: &[u8]) -> Option<Question> {
        let mut at = HEADER_LENGTH;
        loop {
            let length = *message.get(at)?;
            if length == 0 {
                break;
            }
            if length > 63 {
                return None;
            }
            at += usize::from(length) + 1;
        }
        let name_end = at + 1;
        if name_end > HEADER_LENGTH + NAME_BYTES_MAX {
            return None;
        }
        let rest = message.get(name_end..)?.first_chunk::<4>()?;
        let (qtype, class) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
        Some(Question { name_end, qtype, class })
    }

    /// Takes the rest of the message for it, its name's labels unseen: for who compares the name with one that is known to be
    /// whole. Nothing else may be said of it.
    #[inline(always)]
    pub(super) fn up_to_the_end(message: &[u8]) -> Option<Question> {
        let (before, rest) = message.split_last_chunk::<4>()?;
        let (qtype, class) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
        Some(Question { name_end: before.len(), qtype, class }).filter(|question| question.name_end > HEADER_LENGTH)
    }

    /// Where the question ends.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.name_end + 4
    }

    /// Where labels begin, from the name's beginning, without the root's: as many as the second says.
    pub fn starts(&self, message: &[u8]) -> ([u8; 128], usize) {
        crate::name::label_starts(message.get(HEADER_LENGTH..self.name_end).unwrap_or_default())
    }
}

/// The flags of a header (RFC 1035 section 4.1.1, RFC 4035 section 3).
pub mod flags {
    #![expect(missing_docs, reason = "they are named as the RFCs name them")]
    pub const QR: u8 = 0x80;
    pub const OPCODE: u8 = 0x78;
    pub const AA: u8 = 0x04;
    pub const TC: u8 = 0x02;
    pub const RD: u8 = 0x01;
    /// This flag is in the second byte.
    pub const CD: u8 = 0x10;
}
