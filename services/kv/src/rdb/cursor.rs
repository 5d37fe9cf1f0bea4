//! [`Cursor`]: goes through bytes, and never beyond their end.

/// What is left of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (piece, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(piece)
    }

    /// The next bytes of a number.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (piece, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*piece)
    }

    /// The next two bytes, the lower one first.
    pub fn small(&mut self) -> Option<i64> {
        self.array().map(i16::from_le_bytes).map(i64::from)
    }

    /// Three bytes.
    pub fn medium(&mut self) -> Option<i64> {
        let [low, middle, high] = self.array()?;
        Some(i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8))
    }

    /// Four bytes.
    pub fn large(&mut self) -> Option<i64> {
        self.array().map(i32::from_le_bytes).map(i64::from)
    }

    /// Eight bytes.
    pub fn whole(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}
