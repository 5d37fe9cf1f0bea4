//! What a target makes of its input: values taken off its front.

/// The rest of an input. Where it has ended, its values are zeros.
pub(crate) struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Values<'a> {
        Values(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    pub(crate) fn u128(&mut self) -> u128 {
        (0..4).fold(0, |value, _| value << 32 | u128::from(self.u32()))
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// The next `count` bytes, or as many as are left.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
