//! [`Memory`]: what is lent to the program, by number.

use qanat::{Block, Chunk, CommandError, ConnectionId, FilledBlock};

/// Something that is lent.
#[derive(Debug)]
pub(crate) enum Loan {
    /// Bytes of a connection: given back, they open its window.
    Received(ConnectionId, Chunk),
    /// A datagram.
    Datagram(Chunk),
    /// A block to be filled.
    Block(Block),
    /// One that is filled.
    Sealed(FilledBlock),
}

impl Loan {
    /// The bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Loan::Received(_, chunk) | Loan::Datagram(chunk) => chunk.bytes(),
            Loan::Block(block) => block.bytes(),
            Loan::Sealed(filled) => filled.bytes(),
        }
    }
}

/// One place. Its generation is odd while something is there.
#[derive(Debug, Default)]
struct Place {
    generation: u32,
    loan: Option<Loan>,
}

/// What is lent. A number is a place and its generation; 0 is none's.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Memory {
    /// Lends something, by the number that is returned.
    #[inline]
    pub(crate) fn lend(&mut self, loan: Loan) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let Some(place) = self.places.get_mut(slot as usize) else { return 0 };
        place.generation = place.generation.wrapping_add(1);
        place.loan = Some(loan);
        u64::from(place.generation) << 32 | u64::from(slot)
    }

    #[inline]
    fn place(&mut self, number: u64) -> Result<&mut Place, CommandError> {
        let place = self.places.get_mut(number as u32 as usize);
        place.filter(|place| u64::from(place.generation) == number >> 32).ok_or(CommandError::Stale)
    }

    /// What is lent by a number.
    #[inline]
    pub(crate) fn get(&mut self, number: u64) -> Result<&mut Loan, CommandError> {
        self.place(number)?.loan.as_mut().ok_or(CommandError::Stale)
    }

    /// Takes it back: the number means nothing any more.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Result<Loan, CommandError> {
        let place = self.place(number)?;
        let loan = place.loan.take().ok_or(CommandError::Stale)?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(number as u32);
        Ok(loan)
    }

    /// What is lent now.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_one_loan_and_never_the_next_at_its_place() {
        let mut memory = Memory::default();
        let first = memory.lend(Loan::Block(Block::own(8)));
        let second = memory.lend(Loan::Block(Block::own(8)));
        assert!(first != 0 && second != 0 && first != second);
        assert!(memory.take(first).is_ok());
        assert_eq!(memory.take(first).unwrap_err(), CommandError::Stale);
        let third = memory.lend(Loan::Block(Block::own(8)));
        assert!(third as u32 == first as u32 && third != first);
        for wrong in [0, first, first ^ 1 << 32, u64::MAX, 7] {
            assert!(memory.get(wrong).is_err(), "{wrong:x}");
        }
        assert!(memory.get(second).is_ok() && memory.get(third).is_ok());
        assert_eq!(memory.count(), 2);
    }
}
