//! The two byte streams of a connection: the peer's, and the application's.

/// Bytes either side sends at most.
pub(super) const STREAM_BYTES_MAX: u32 = 24_000;
/// Mixed into the bytes of the peer's stream.
pub(super) const PEER_SALT: u8 = 0x5a;
/// Mixed into the bytes of the application's stream.
pub(super) const APPLICATION_SALT: u8 = 0xc3;

/// A byte of a stream. It follows from its place alone.
fn byte(salt: u8, offset: u32) -> u8 {
    (offset.wrapping_mul(31) >> 3) as u8 ^ offset as u8 ^ salt
}

/// The `length` bytes of a stream that begin at `offset`.
pub(super) fn bytes(salt: u8, offset: u32, length: u32) -> Vec<u8> {
    (offset..offset + length).map(|offset| byte(salt, offset)).collect()
}
