//! [`Budget`]: what one SORT may cost. Elements times patterns may be far more than what a client has sent.

use crate::engine::fault::Fault;

/// Look-ups of other keys, at most. One with a long pattern counts as several.
const LOOKUPS_MAX: usize = 4 << 20;
/// Bytes of a pattern and an element that count as a look-up more.
const LOOKUP_BYTES: usize = 256;
/// Bytes of what is answered, at most: as many as a key may have.
const ANSWER_BYTES_MAX: usize = crate::limits::RECORD_BYTES_MAX;
/// What an element of the answer takes besides its bytes.
pub const ELEMENT_BYTES: usize = 16;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    lookups: usize,
    bytes: usize,
}

impl Budget {
    /// A whole one.
    pub fn new() -> Budget {
        Budget { lookups: LOOKUPS_MAX, bytes: ANSWER_BYTES_MAX }
    }

    /// Takes a look-up, by so many bytes of a pattern and an element.
    ///
    /// # Errors
    /// There were too many.
    pub fn look_up(&mut self, bytes: usize) -> Result<(), Fault> {
        let left = self.lookups.checked_sub(1 + bytes / LOOKUP_BYTES);
        self.lookups = left.ok_or(Fault::Said("ERR SORT looks up too many keys: use LIMIT, or fewer patterns"))?;
        Ok(())
    }

    /// Takes an element of the answer.
    ///
    /// # Errors
    /// They are too long together.
    pub fn answer(&mut self, bytes: usize) -> Result<(), Fault> {
        let left = self.bytes.checked_sub(bytes + ELEMENT_BYTES);
        self.bytes = left.ok_or(Fault::Said("ERR what SORT answers is too long: use LIMIT, or fewer patterns"))?;
        Ok(())
    }

    /// Bytes of the answer so far.
    pub fn answered(&self) -> usize {
        ANSWER_BYTES_MAX - self.bytes
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends() {
        let mut budget = Budget::new();
        assert!((0..4).all(|_| budget.look_up(LOOKUP_BYTES * (LOOKUPS_MAX / 4 - 1)).is_ok()));
        assert!(budget.look_up(0).is_err());
        assert_eq!(budget.answer(ANSWER_BYTES_MAX - ELEMENT_BYTES), Ok(()));
        assert!(budget.answered() == ANSWER_BYTES_MAX && budget.answer(0).is_err());
    }
}
