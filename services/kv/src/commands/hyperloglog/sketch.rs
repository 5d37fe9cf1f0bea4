//! [`Sketch`]: the string that has the registers.

use crate::commands::hyperloglog::REGISTERS;
use crate::commands::hyperloglog::cardinality::{Histogram, count, estimate};
use crate::commands::hyperloglog::dense::{self, DENSE_BYTES};
use crate::commands::hyperloglog::sparse::{self, Corrupted, RUNS_BYTES_MAX, Raised};
use crate::engine::fault::Fault;

/// Where the registers begin.
pub const HEADER_BYTES: usize = 16;
/// Where the cardinality is.
pub const CARDINALITY: usize = 8;
/// Where the byte is whose highest bit says that the cardinality is not known.
pub const UNKNOWN: usize = 15;
/// That bit.
pub const UNKNOWN_BIT: u8 = 0x80;
/// Bytes of a dense one.
pub const SKETCH_BYTES: usize = HEADER_BYTES + DENSE_BYTES;
const ENCODING: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// The string is none.
const OTHER: Fault = Fault::Said("WRONGTYPE Key is not a valid HyperLogLog string value.");
const BROKEN: Fault = Fault::Said("INVALIDOBJ Corrupted HLL object detected");

impl From<Corrupted> for Fault {
    fn from(_: Corrupted) -> Fault {
        BROKEN
    }
}

/// A string that is a sketch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View<'a> {
    /// Packed registers.
    Dense(&'a [u8]),
    /// Runs of registers.
    Sparse(&'a [u8]),
}

impl<'a> View<'a> {
    /// Of a string.
    ///
    /// # Errors
    /// As Redis words them.
    pub fn of(text: &'a [u8]) -> Result<View<'a>, Fault> {
        let (header, registers) = text.split_at_checked(HEADER_BYTES).ok_or(OTHER)?;
        match header.get(ENCODING) {
            _ if !header.starts_with(b"HYLL") => Err(OTHER),
            Some(&DENSE) if registers.len() == DENSE_BYTES => Ok(View::Dense(registers)),
            // No sketch has so many runs. It is refused before it is copied or walked.
            Some(&SPARSE) if registers.len() > RUNS_BYTES_MAX => Err(BROKEN),
            Some(&SPARSE) => Ok(View::Sparse(registers)),
            _ => Err(OTHER),
        }
    }

    /// Whether its registers are packed.
    pub fn is_dense(self) -> bool {
        matches!(self, View::Dense(_))
    }

    /// How many elements there were, about.
    ///
    /// # Errors
    /// [`Corrupted`].
    pub fn count(self) -> Result<u64, Corrupted> {
        let mut histogram: Histogram = [0; 64];
        match self {
            View::Dense(packed) => dense::iter(packed).for_each(|value| count(&mut histogram, value, 1)),
            View::Sparse(runs) => {
                let mut others = REGISTERS;
                sparse::each(runs, |_, run| {
                    count(&mut histogram, run.value, run.length);
                    others -= run.length;
                })?;
                count(&mut histogram, 0, others);
            }
        }
        Ok(estimate(&histogram))
    }

    /// Raises registers to what this one has.
    ///
    /// # Errors
    /// [`Corrupted`]: some were raised before that was known.
    pub fn merge_into(self, registers: &mut [u8; REGISTERS]) -> Result<(), Corrupted> {
        match self {
            View::Dense(packed) => {
                let pairs = registers.iter_mut().zip(dense::iter(packed));
                pairs.for_each(|(register, value)| *register = (*register).max(value));
                Ok(())
            }
            View::Sparse(runs) => sparse::each(runs, |place, run| {
                let raised = registers.iter_mut().skip(place).take(run.length);
                raised.for_each(|register| *register = (*register).max(run.value));
            }),
        }
    }
}

/// The cardinality that a sketch knows, if nothing has changed since it was counted.
pub fn known(text: &[u8]) -> Option<u64> {
    let bytes = text.get(CARDINALITY..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes)).filter(|known| known >> 63 == 0)
}

/// How many elements the union has whose registers these are.
pub fn count_plain(registers: &[u8; REGISTERS]) -> u64 {
    let mut histogram: Histogram = [0; 64];
    registers.iter().for_each(|value| count(&mut histogram, *value, 1));
    estimate(&histogram)
}

/// A sketch that is changed before it becomes a key's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch {
    header: [u8; HEADER_BYTES],
    is_dense: bool,
    /// Packed registers, or runs.
    registers: Vec<u8>,
}

impl Sketch {
    /// One that has met nothing.
    pub fn new() -> Sketch {
        let mut header = [0; HEADER_BYTES];
        header.iter_mut().zip([b'H', b'Y', b'L', b'L', SPARSE]).for_each(|(place, byte)| *place = byte);
        // One run of zeroes.
        Sketch { header, is_dense: false, registers: vec![0x7f, 0xff] }
    }

    /// A copy of a string.
    ///
    /// # Errors
    /// As [`View::of`].
    pub fn of(text: &[u8]) -> Result<Sketch, Fault> {
        let (is_dense, registers) = match View::of(text)? {
            View::Dense(packed) => (true, packed.to_vec()),
            View::Sparse(runs) => (false, runs.to_vec()),
        };
        Ok(Sketch { header: *text.first_chunk().ok_or(OTHER)?, is_dense, registers })
    }

    /// The string.
    pub fn text(&self) -> Vec<u8> {
        let mut header = self.header;
        header.iter_mut().skip(ENCODING).take(1).for_each(|byte| *byte = if self.is_dense { DENSE } else { SPARSE });
        [&header, self.registers.as_slice()].concat()
    }

    /// Its cardinality is not known any more.
    pub fn forget(&mut self) {
        self.header.iter_mut().skip(UNKNOWN).for_each(|byte| *byte |= UNKNOWN_BIT);
    }

    /// Packs the registers, if they are not; whether they were not.
    ///
    /// # Errors
    /// [`Corrupted`].
    pub fn make_dense(&mut self) -> Result<bool, Corrupted> {
        if self.is_dense {
            return Ok(false);
        }
        let mut packed = vec![0; DENSE_BYTES];
        sparse::each(&self.registers, |place, run| {
            (place..place + run.length).for_each(|index| dense::set(&mut packed, index, run.value));
        })?;
        (self.is_dense, self.registers) = (true, packed);
        Ok(true)
    }

    /// Raises a register, if it has less; whether it had. `sparse_bytes_max`: one that is longer is made dense.
    ///
    /// # Errors
    /// [`Corrupted`].
    pub fn raise(&mut self, index: usize, value: u8, sparse_bytes_max: usize) -> Result<bool, Corrupted> {
        if !self.is_dense {
            let bytes_max = sparse_bytes_max.saturating_sub(HEADER_BYTES);
            match sparse::raise(&mut self.registers, index, value, bytes_max)? {
                Raised::No => return Ok(false),
                Raised::Yes => return Ok(true),
                Raised::NeedsDense => self.make_dense()?,
            };
        }
        let is_less = dense::get(&self.registers, index) < value;
        if is_less {
            dense::set(&mut self.registers, index, value);
        }
        Ok(is_less)
    }
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hyperloglog::hash::place;

    #[test]
    fn dense_and_sparse_are_the_same_sketch() {
        let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
        assert_eq!(dense.make_dense(), Ok(true));
        for number in 0..500_u32 {
            let (index, value) = place(&number.to_le_bytes());
            assert_eq!(sparse.raise(index, value, 3_000), dense.raise(index, value, 3_000));
        }
        let (few, many) = (sparse.text(), dense.text());
        let (few, many) = (View::of(&few).unwrap(), View::of(&many).unwrap());
        assert!(!few.is_dense() && many.is_dense());
        assert_eq!(few.count(), many.count());
        let mut registers = [[0; REGISTERS]; 2];
        few.merge_into(&mut registers[0]).unwrap();
        many.merge_into(&mut registers[1]).unwrap();
        assert!(registers[0] == registers[1] && Ok(count_plain(&registers[0])) == few.count());
        assert_eq!(sparse.make_dense(), Ok(true));
        assert_eq!(sparse, dense);
    }

    #[test]
    fn what_is_no_sketch_is_refused() {
        let text = Sketch::new().text();
        assert_eq!(known(&text), Some(0));
        assert!(View::of(&text).is_ok());
        for (at, byte) in [(0, b'h'), (3, b'l'), (4, 0), (4, 2)] {
            let mut text = text.clone();
            text[at] = byte;
            assert_eq!(View::of(&text), Err(OTHER));
        }
        assert_eq!(View::of(&text[..15]), Err(OTHER));
        let long = [text.as_slice(), &[0; RUNS_BYTES_MAX]].concat();
        assert_eq!(View::of(&long), Err(BROKEN));
        let short = View::of(&text[..17]).unwrap();
        assert_eq!(short.count(), Err(Corrupted));
    }
}
