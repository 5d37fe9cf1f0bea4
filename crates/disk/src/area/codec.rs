//! Numbers and names as they lie on the disk: little-endian, sealed by a CRC-32C that also covers where they lie.

/// Writes values one after the other.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// Something did not fit.
    overflowed: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer { bytes, at: 0, overflowed: false }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        match self.bytes.get_mut(self.at..self.at + value.len()) {
            Some(target) => {
                target.copy_from_slice(value);
                self.at += value.len();
            }
            None => self.overflowed = true,
        }
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// How many bytes were written; `None`: it did not fit.
    pub(super) fn finish(self) -> Option<usize> {
        (!self.overflowed).then_some(self.at)
    }
}

/// Reads values one after the other; `None` at the end of the bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (value, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(value)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.bytes(COUNT)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[value]| value)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn array16(&mut self) -> Option<[u8; 16]> {
        self.array()
    }

    /// Whether nothing but zeroes is left.
    pub(super) fn is_spent(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }
}

/// The checksum's bytes, the last of what is sealed.
pub(super) const SEAL_BYTES: usize = 4;

fn sum(place: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&place.to_le_bytes()), bytes)
}

/// Writes the checksum of all before it, and of `place`, into the last four bytes: what lies elsewhere by mistake does not pass.
pub(super) fn seal(place: u64, bytes: &mut [u8]) {
    if let Some((body, seal)) = bytes.split_last_chunk_mut::<SEAL_BYTES>() {
        *seal = sum(place, body).to_le_bytes();
    }
}

/// What was sealed there, without the checksum; `None` if it is not as it was.
pub(super) fn unseal(place: u64, bytes: &[u8]) -> Option<&[u8]> {
    let (body, seal) = bytes.split_last_chunk::<SEAL_BYTES>()?;
    (sum(place, body) == u32::from_le_bytes(*seal)).then_some(body)
}
