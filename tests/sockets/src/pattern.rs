//! Bytes that tell where in a stream they belong: a lost, doubled or moved piece shows.

/// The byte at `offset` of every stream. Its period (a prime) is no multiple of a segment's or buffer's length.
fn byte(offset: usize) -> u8 {
    let place = offset % 65_521;
    (place ^ (place >> 7)).to_le_bytes()[0]
}

/// Fills `bytes` with what belongs at `offset`.
pub fn fill(bytes: &mut [u8], offset: usize) {
    for (at, place) in bytes.iter_mut().enumerate() {
        *place = byte(offset + at);
    }
}

/// As many bytes of the pattern, from its beginning.
pub fn bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    fill(&mut bytes, 0);
    bytes
}

/// Whether `bytes` are what belongs at `offset`.
pub fn is_intact(bytes: &[u8], offset: usize) -> bool {
    bytes.iter().enumerate().all(|(at, value)| *value == byte(offset + at))
}
