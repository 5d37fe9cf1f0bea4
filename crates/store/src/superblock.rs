//! The superblock: what the store is, and where its log begins. There are two copies, written one after the other.
//!
//! ```text
//!   0 magic "QANATsto"      8 format 4    12 kind 4        16 identity 16    32 serial 8      40 epoch 8
//!  48 bytes of the area 8  56 log's place 8   64 log's bytes 8   72 bytes of a frame, at most 4   76 CRC-32C of the frame before `durable` 4
//!  80 start 8              88 durable 8    96 opened 8   104 zeroes   508 CRC-32C 4    512 zeroes up to 4096
//! ```
//! All that means something is in one sector, so no loss of power tears it.

use crate::codec::{identity_at, put, sum, u32_at, u64_at};
use crate::error::StoreError;
use crate::kind::Kind;
use crate::layout::{DATA, FRAME_BYTES_MAX, LOG_BYTES_MIN, Ring, SUPERBLOCKS, UNIT_BYTES};

const MAGIC: &[u8; 8] = b"QANATsto";
/// The format described here and in `frame`.
const FORMAT: u32 = 1;
/// Of a superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = UNIT_BYTES as usize;
/// Where the checksum is.
const SEAL: usize = 512 - 4;
/// Where the zeroes begin.
const END: usize = 104;

/// A superblock's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) kind: Kind,
    pub(crate) identity: [u8; 16],
    /// Counts superblocks written: the higher is the newer.
    pub(crate) serial: u64,
    /// Counts openings for writing. No frame of a higher epoch than this is on the disk.
    pub(crate) epoch: u64,
    pub(crate) area_bytes: u64,
    pub(crate) ring: Ring,
    pub(crate) frame_bytes: u32,
    /// The position of the first frame that counts.
    pub(crate) start: u64,
    /// All frames before this position were durable when it was written.
    pub(crate) durable: u64,
    /// The checksum of the frame that ends at `durable`: what follows it names it.
    pub(crate) previous: u32,
    /// Where the log ended when this epoch began. A frame from there on counts only if it is of this epoch: what earlier ones left there
    /// was cut off, and must not come back when a torn write of this epoch happens to mend it.
    pub(crate) opened: u64,
}

/// What is where a superblock should be.
#[derive(Debug)]
pub(crate) enum Found {
    Good(Superblock),
    /// Begins like one, and its checksum is wrong.
    Damaged,
    Nothing,
    Wrong(StoreError),
}

impl Superblock {
    /// Its bytes as copy `copy`: 0 or 1.
    pub(crate) fn write(&self, copy: usize, bytes: &mut [u8]) {
        bytes.fill(0);
        put(bytes, 0, MAGIC);
        put(bytes, 8, &FORMAT.to_le_bytes());
        put(bytes, 12, &self.kind.number().to_le_bytes());
        put(bytes, 16, &self.identity);
        put(bytes, 72, &self.frame_bytes.to_le_bytes());
        let numbers = [self.serial, self.epoch, self.area_bytes, self.ring.start, self.ring.bytes];
        for (index, number) in numbers.into_iter().enumerate() {
            put(bytes, 32 + 8 * index, &number.to_le_bytes());
        }
        put(bytes, 80, &self.start.to_le_bytes());
        put(bytes, 88, &self.durable.to_le_bytes());
        put(bytes, 76, &self.previous.to_le_bytes());
        put(bytes, 96, &self.opened.to_le_bytes());
        let seal = bytes.get(..SEAL).map_or(0, |body| sum(&[0; 16], place(copy), body));
        put(bytes, SEAL, &seal.to_le_bytes());
    }

    /// Reads copy `copy`.
    pub(crate) fn read(copy: usize, bytes: &[u8]) -> Found {
        if bytes.get(..MAGIC.len()) != Some(MAGIC) {
            return Found::Nothing;
        }
        let sealed = bytes.get(..SEAL).map(|body| sum(&[0; 16], place(copy), body));
        let rest = bytes.get(SEAL + 4..).unwrap_or_default();
        if sealed.is_none() || sealed != u32_at(bytes, SEAL) || rest.iter().any(|byte| *byte != 0) {
            return Found::Damaged;
        }
        Superblock::parse(copy, bytes).unwrap_or(Found::Damaged)
    }

    fn parse(copy: usize, bytes: &[u8]) -> Option<Found> {
        let format = u32_at(bytes, 8)?;
        if format != FORMAT {
            return Some(Found::Wrong(StoreError::Version { found: format, known: FORMAT }));
        }
        let wrong = |what| Some(Found::Wrong(StoreError::Contradiction { place: place(copy), what }));
        let Some(kind) = Kind::of(u32_at(bytes, 12)?) else { return wrong("the store is of a kind that there is not") };
        let superblock = Superblock {
            kind,
            identity: identity_at(bytes, 16)?,
            serial: u64_at(bytes, 32)?,
            epoch: u64_at(bytes, 40)?,
            area_bytes: u64_at(bytes, 48)?,
            ring: Ring { start: u64_at(bytes, 56)?, bytes: u64_at(bytes, 64)? },
            frame_bytes: u32_at(bytes, 72)?,
            start: u64_at(bytes, 80)?,
            durable: u64_at(bytes, 88)?,
            previous: u32_at(bytes, 76)?,
            opened: u64_at(bytes, 96)?,
        };
        if bytes.get(END..SEAL)?.iter().any(|byte| *byte != 0) {
            return wrong("a superblock has something where zeroes belong");
        }
        match superblock.contradiction() {
            Some(what) => wrong(what),
            None => Some(Found::Good(superblock)),
        }
    }

    /// What can't be, though the checksum is right.
    fn contradiction(&self) -> Option<&'static str> {
        let is_whole = |number: u64| number.is_multiple_of(UNIT_BYTES);
        let Ring { start, bytes } = self.ring;
        let frame_bytes = u64::from(self.frame_bytes);
        match () {
            () if start != DATA || !is_whole(bytes) || bytes < LOG_BYTES_MIN => {
                Some("the log's place or length can't be")
            }
            () if start.checked_add(bytes).is_none_or(|end| end > self.area_bytes) => {
                Some("the log is beyond the area's end")
            }
            () if !is_whole(frame_bytes) || frame_bytes == 0 || self.frame_bytes > FRAME_BYTES_MAX => {
                Some("the length of a frame can't be")
            }
            () if !is_whole(self.start) || !is_whole(self.durable) => Some("a position is not that of a unit"),
            () if self.durable < self.start || self.durable - self.start > bytes => {
                Some("the log is longer than its ring")
            }
            () if self.opened > self.durable || !is_whole(self.opened) => Some("the log was opened behind its end"),
            // Numbers that count up could not reach this; it leaves room to calculate in.
            () if self.durable > u64::MAX >> 8 || self.serial > u64::MAX >> 8 || self.epoch > u64::MAX >> 8 => {
                Some("a number is higher than it could have become")
            }
            () => None,
        }
    }
}

/// Where copy `copy` lies.
pub(crate) fn place(copy: usize) -> u64 {
    SUPERBLOCKS.get(copy).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Superblock {
        Superblock {
            kind: Kind::Log,
            identity: [7; 16],
            serial: 3,
            epoch: 2,
            area_bytes: 1 << 20,
            ring: Ring { start: DATA, bytes: 1 << 19 },
            frame_bytes: 16 << 10,
            start: 4_096,
            durable: 8_192,
            previous: 5,
            opened: 8_192,
        }
    }

    #[test]
    fn it_is_read_as_written_and_no_changed_byte_passes() {
        let mut bytes = vec![1; SUPERBLOCK_BYTES];
        some().write(1, &mut bytes);
        assert!(matches!(Superblock::read(1, &bytes), Found::Good(read) if read == some()));
        assert!(matches!(Superblock::read(0, &bytes), Found::Damaged), "it is bound to its place");
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(!matches!(Superblock::read(1, &bytes), Found::Good(_)), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn contradictions_with_right_checksums_are_refused() {
        let changes: [fn(&mut Superblock); 8] = [
            |it| it.ring.bytes = 0,
            |it| it.ring.start = 0,
            |it| it.ring.bytes = u64::MAX - 4_095,
            |it| it.frame_bytes = 0,
            |it| it.frame_bytes = 128 << 10,
            |it| it.start = 1,
            |it| it.durable = 0,
            |it| it.epoch = u64::MAX,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut superblock = some();
            change(&mut superblock);
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            superblock.write(0, &mut bytes);
            let found = Superblock::read(0, &bytes);
            assert!(matches!(found, Found::Wrong(StoreError::Contradiction { place: 0, .. })), "{index}: {found:?}");
        }
    }
}
