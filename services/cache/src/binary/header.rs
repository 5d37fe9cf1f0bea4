//! [`Request`]: a request's header.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;
/// The first byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// See the module. All numbers are big-endian on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub opcode: u8,
    pub key_bytes: u16,
    pub extras_bytes: u8,
    /// Extras, key and value.
    pub body_bytes: u32,
    /// Comes back as it is.
    pub opaque: [u8; 4],
    pub cas: u64,
}

impl Request {
    /// Reads one; `None`: it is no request.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Request> {
        let [magic, opcode, k0, k1, extras_bytes, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = *bytes;
        (magic == REQUEST_MAGIC).then_some(Request {
            opcode,
            key_bytes: u16::from_be_bytes([k0, k1]),
            extras_bytes,
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: [o0, o1, o2, o3],
            cas: u64::from_be_bytes(cas),
        })
    }

    /// Bytes of extras and key, which are read before the request is executed.
    pub fn parts_bytes(&self) -> usize {
        usize::from(self.key_bytes) + usize::from(self.extras_bytes)
    }

    /// Bytes behind them; `None`: the lengths contradict each other.
    pub fn value_bytes(&self) -> Option<usize> {
        (self.body_bytes as usize).checked_sub(self.parts_bytes())
    }
}
