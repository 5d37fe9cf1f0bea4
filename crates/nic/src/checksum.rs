//! The ones'-complement checksum a device fills in (RFC 1071), for drivers that do it in software.

/// Sums `bytes` as big-endian 16-bit words onto `sum`; an odd last byte is padded with zero. Unfolded.
pub(crate) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let mut total = sum;
    for word in &mut words {
        total += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        total += u64::from(u16::from_be_bytes([*last, 0]));
    }
    total
}

/// Folds to 16 bits and complements; 0 becomes 0xffff (RFC 768: zero means none; the same value in ones' complement).
pub(crate) fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        value => value,
    }
}
