//! TCP's sequence numbers, for the header and the options alike.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A sequence number: arithmetic modulo 2^32, compared by the shorter way round (RFC 9293, section 3.4). Deliberately
/// not `Ord`: that order isn't transitive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct SequenceNumber(pub u32);

impl SequenceNumber {
    /// `self` < `other`.
    #[inline(always)]
    pub const fn before(self, other: SequenceNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// `self` > `other`.
    #[inline(always)]
    pub const fn after(self, other: SequenceNumber) -> bool {
        other.before(self)
    }

    /// `self` ≤ `other`.
    #[inline(always)]
    pub const fn at_or_before(self, other: SequenceNumber) -> bool {
        !other.before(self)
    }

    /// `self` ≥ `other`.
    #[inline(always)]
    pub const fn at_or_after(self, other: SequenceNumber) -> bool {
        !self.before(other)
    }

    /// `start` ≤ `self` < `start + length`, for any length up to 2^32 − 1.
    #[inline(always)]
    pub const fn is_within(self, start: SequenceNumber, length: u32) -> bool {
        self.0.wrapping_sub(start.0) < length
    }

    /// How far `self` is past `earlier`, going up: 0 to 2^32 − 1.
    #[inline(always)]
    pub const fn distance_from(self, earlier: SequenceNumber) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The later of two.
    #[inline(always)]
    pub const fn later(self, other: SequenceNumber) -> SequenceNumber {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two.
    #[inline(always)]
    pub const fn earlier(self, other: SequenceNumber) -> SequenceNumber {
        if other.before(self) { other } else { self }
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Add<u32> for SequenceNumber {
    type Output = SequenceNumber;
    #[inline(always)]
    fn add(self, length: u32) -> SequenceNumber {
        SequenceNumber(self.0.wrapping_add(length))
    }
}

impl AddAssign<u32> for SequenceNumber {
    #[inline(always)]
    fn add_assign(&mut self, length: u32) {
        *self = *self + length;
    }
}

impl Sub<u32> for SequenceNumber {
    type Output = SequenceNumber;
    #[inline(always)]
    fn sub(self, length: u32) -> SequenceNumber {
        SequenceNumber(self.0.wrapping_sub(length))
    }
}

impl Sub<SequenceNumber> for SequenceNumber {
    /// Signed distance, the shorter way round.
    type Output = i32;
    #[inline(always)]
    fn sub(self, other: SequenceNumber) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}
