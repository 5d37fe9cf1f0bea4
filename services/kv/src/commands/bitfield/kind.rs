//! [`Kind`]: an integer of so many bits, and what happens to numbers that it can't have.

use crate::resp::number::integer;

/// An integer: `i1` to `i64`, or `u1` to `u63`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Whether it has a sign.
    pub is_signed: bool,
    /// Its bits.
    pub bits: u32,
}

/// What is done with a number that is too small or too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overflow {
    /// Only its lower bits are taken.
    #[default]
    Wrap,
    /// The nearest number is taken.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl Overflow {
    /// What is called so.
    pub fn of(text: &[u8]) -> Option<Overflow> {
        match text.to_ascii_uppercase().as_slice() {
            b"WRAP" => Some(Overflow::Wrap),
            b"SAT" => Some(Overflow::Saturate),
            b"FAIL" => Some(Overflow::Fail),
            _ => None,
        }
    }
}

impl Kind {
    /// What is called so.
    pub fn of(text: &[u8]) -> Option<Kind> {
        let (is_signed, most, bits) = match text {
            [b'i', bits @ ..] => (true, 64, bits),
            [b'u', bits @ ..] => (false, 63, bits),
            _ => return None,
        };
        let bits = u32::try_from(integer(bits)?).ok().filter(|bits| (1..=most).contains(bits))?;
        Some(Kind { is_signed, bits })
    }

    /// The least number, and the greatest.
    fn range(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// The number that these bits are. What is above them is passed over.
    pub fn number(self, bits: u64) -> i64 {
        let unused = u64::BITS - self.bits;
        match self.is_signed {
            true => (bits << unused) as i64 >> unused,
            false => (bits << unused >> unused) as i64,
        }
    }

    /// The number that a client says. Without a sign a negative one is as large as its bits are.
    pub fn said(self, number: i64) -> i128 {
        if self.is_signed { i128::from(number) } else { i128::from(number as u64) }
    }

    /// A number as this integer has it; `None`: it can't, and nothing is to be written.
    pub fn fitted(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (least, greatest) = self.range();
        match overflow {
            _ if (least..=greatest).contains(&number) => Some(number as i64),
            Overflow::Wrap => Some(self.number(number as u64)),
            Overflow::Saturate => Some(number.clamp(least, greatest) as i64),
            Overflow::Fail => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I8: Kind = Kind { is_signed: true, bits: 8 };
    const U8: Kind = Kind { is_signed: false, bits: 8 };
    const I64: Kind = Kind { is_signed: true, bits: 64 };

    #[test]
    fn names_are_those_of_redis() {
        for (text, kind) in [
            ("i8", Some(I8)),
            ("u8", Some(U8)),
            ("i64", Some(I64)),
            ("u64", None),
            ("i65", None),
            ("i0", None),
            ("u-1", None),
            ("U8", None),
            ("8", None),
            ("u", None),
            ("", None),
        ] {
            assert_eq!(Kind::of(text.as_bytes()), kind, "{text}");
        }
    }

    #[test]
    fn numbers_wrap_saturate_or_fail() {
        for (kind, number, wrapped, saturated) in [
            (I8, 128, -128, 127),
            (I8, -129, 127, -128),
            (I8, 300, 44, 127),
            (U8, 256, 0, 255),
            (U8, -1, 255, 0),
            (I64, i128::from(i64::MAX) + 1, i64::MIN, i64::MAX),
            (I64, i128::from(i64::MIN) - 1, i64::MAX, i64::MIN),
        ] {
            assert_eq!(kind.fitted(number, Overflow::Wrap), Some(wrapped), "{kind:?} {number}");
            assert_eq!(kind.fitted(number, Overflow::Saturate), Some(saturated), "{kind:?} {number}");
            assert_eq!(kind.fitted(number, Overflow::Fail), None, "{kind:?} {number}");
        }
        assert_eq!(U8.fitted(U8.said(-1), Overflow::Saturate), Some(255));
        assert_eq!((I8.number(0xff), U8.number(0x1ff)), (-1, 255));
        assert_eq!(I64.number(u64::MAX), -1);
    }
}
