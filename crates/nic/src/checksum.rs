//! The ones'-complement checksum a device fills in (RFC 1071): where, and how drivers do it in software.

use qanat_wire::checksum;

/// A layer-4 checksum for the device to fill in (as `CHECKSUM_PARTIAL`): the field at `start + offset` holds the folded,
/// uncomplemented pseudo-header sum; the device sums from `start` to the end of the packet into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ChecksumOffload {
    /// Where summing starts, bytes from the start of the frame.
    pub start: u16,
    /// Where the field is, bytes from `start`.
    pub offset: u16,
}

/// Adds the sum of `bytes`, which begin `position` bytes into the summed part, to `sum` (folded, uncomplemented).
pub(crate) fn add(sum: u16, position: usize, bytes: &[u8]) -> u16 {
    let part = checksum::sum(bytes);
    if position.is_multiple_of(2) { checksum::combine(sum, part) } else { checksum::combine_at_odd(sum, part) }
}

/// Complements; 0 becomes 0xffff (RFC 768: zero means none; the same value in ones' complement).
pub(crate) fn finish(sum: u16) -> u16 {
    match checksum::finish(sum) {
        0 => 0xffff,
        value => value,
    }
}
