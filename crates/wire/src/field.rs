//! Big-endian fields of fixed arrays, with offsets checked at compile time.
//!
//! `field::u16_at::<2, _>(header)` reads bytes 2 and 3 of `header: &[u8; N]`; an offset past the end doesn't compile,
//! so none of these can panic at run time.
#![allow(clippy::indexing_slicing, reason = "each offset is checked against the array's length at compile time")]

/// `LENGTH` bytes from `AT`.
#[inline(always)]
pub const fn array_at<const AT: usize, const LENGTH: usize, const N: usize>(bytes: &[u8; N]) -> [u8; LENGTH] {
    const { assert!(AT + LENGTH <= N, "field past the end of its header") };
    let mut field = [0; LENGTH];
    let mut index = 0;
    while index < LENGTH {
        field[index] = bytes[AT + index];
        index += 1;
    }
    field
}

/// The byte at `AT`.
#[inline(always)]
pub const fn u8_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u8 {
    const { assert!(AT < N, "field past the end of its header") };
    bytes[AT]
}

/// The big-endian 16-bit field at `AT`.
#[inline(always)]
pub const fn u16_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    u16::from_be_bytes(array_at::<AT, 2, N>(bytes))
}

/// The big-endian 32-bit field at `AT`.
#[inline(always)]
pub const fn u32_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    u32::from_be_bytes(array_at::<AT, 4, N>(bytes))
}

/// Eight bytes from `AT` as they lie in memory: for sums, comparisons and copies, which need no order.
#[inline(always)]
pub const fn raw_u64_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u64 {
    u64::from_ne_bytes(array_at::<AT, 8, N>(bytes))
}

/// Four bytes from `AT` as they lie in memory.
#[inline(always)]
pub const fn raw_u32_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    u32::from_ne_bytes(array_at::<AT, 4, N>(bytes))
}

/// Two bytes from `AT` as they lie in memory.
#[inline(always)]
pub const fn raw_u16_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    u16::from_ne_bytes(array_at::<AT, 2, N>(bytes))
}

/// Writes `field` at `AT`.
#[inline(always)]
pub const fn put_array_at<const AT: usize, const LENGTH: usize, const N: usize>(
    bytes: &mut [u8; N],
    field: [u8; LENGTH],
) {
    const { assert!(AT + LENGTH <= N, "field past the end of its header") };
    let mut index = 0;
    while index < LENGTH {
        bytes[AT + index] = field[index];
        index += 1;
    }
}

/// Writes the byte at `AT`.
#[inline(always)]
pub const fn put_u8_at<const AT: usize, const N: usize>(bytes: &mut [u8; N], field: u8) {
    put_array_at::<AT, 1, N>(bytes, [field]);
}

/// Writes the big-endian 16-bit field at `AT`.
#[inline(always)]
pub const fn put_u16_at<const AT: usize, const N: usize>(bytes: &mut [u8; N], field: u16) {
    put_array_at::<AT, 2, N>(bytes, field.to_be_bytes());
}

/// Writes the big-endian 32-bit field at `AT`.
#[inline(always)]
pub const fn put_u32_at<const AT: usize, const N: usize>(bytes: &mut [u8; N], field: u32) {
    put_array_at::<AT, 4, N>(bytes, field.to_be_bytes());
}

/// Writes eight bytes as they lie in memory.
#[inline(always)]
pub const fn put_raw_u64_at<const AT: usize, const N: usize>(bytes: &mut [u8; N], field: u64) {
    put_array_at::<AT, 8, N>(bytes, field.to_ne_bytes());
}

/// Writes four bytes as they lie in memory.
#[inline(always)]
pub const fn put_raw_u32_at<const AT: usize, const N: usize>(bytes: &mut [u8; N], field: u32) {
    put_array_at::<AT, 4, N>(bytes, field.to_ne_bytes());
}

/// Writes two bytes as they lie in memory.
#[inline(always)]
pub const fn put_raw_u16_at<const AT: usize, const N: usize>(bytes: &mut [u8; N], field: u16) {
    put_array_at::<AT, 2, N>(bytes, field.to_ne_bytes());
}
