//! [`Id`]: what an entry of a stream is known by.

use std::fmt;

/// A time (Unix, ms), and a number among those of the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Id {
    /// The time.
    pub ms: u64,
    /// The number.
    pub number: u64,
}

impl Id {
    /// The least one. No entry has it.
    pub const MIN: Id = Id { ms: 0, number: 0 };
    /// The greatest one.
    pub const MAX: Id = Id { ms: u64::MAX, number: u64::MAX };

    /// The next greater one.
    pub fn next(self) -> Option<Id> {
        match self.number.checked_add(1) {
            Some(number) => Some(Id { ms: self.ms, number }),
            None => Some(Id { ms: self.ms.checked_add(1)?, number: 0 }),
        }
    }

    /// The next smaller one.
    pub fn previous(self) -> Option<Id> {
        match self.number.checked_sub(1) {
            Some(number) => Some(Id { ms: self.ms, number }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, number: u64::MAX }),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}
