//! Numbers as they lie on the disk: little-endian, at fixed places.

/// Puts a value's bytes at a place. What does not fit is not written: callers give constants that do.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(target) = bytes.get_mut(at..at + value.len()) {
        target.copy_from_slice(value);
    }
}

fn array<const COUNT: usize>(bytes: &[u8], at: usize) -> Option<[u8; COUNT]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

pub(crate) fn identity_at(bytes: &[u8], at: usize) -> Option<[u8; 16]> {
    array(bytes, at)
}

/// The checksum of what lies in a store at a place (of the area) or position (of the log): it covers the store's identity and
/// the address, so what was written for another store, or lies elsewhere by mistake, does not pass.
pub(crate) fn sum(identity: &[u8; 16], address: u64, bytes: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(identity), &address.to_le_bytes());
    crc32c::crc32c_append(seed, bytes)
}
