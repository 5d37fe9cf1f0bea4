//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A *sum* here is the ones'-complement sum of big-endian 16-bit words, folded to 16 bits and **not** complemented;
//! sums of parts are joined with [`combine`]. A *checksum* is what stands in a header: [`finish`] of a sum.
//! Zero has two representations, 0 and `0xffff`; a sum is 0 only if every byte was 0.

use crate::ip::Protocol;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes per unrolled step of [`sum`].
const STEP: usize = 64;

/// Folds a sum of 16-bit words to 16 bits. 2^16 ≡ 1 (mod 2^16 − 1), so adding the halves, with the carry put back, keeps the
/// value.
#[inline(always)]
pub const fn fold_u32(wide: u32) -> u16 {
    combine((wide >> 16) as u16, wide as u16)
}

/// Adds with the carry put back at the other end: 2^64 ≡ 1 (mod 2^16 − 1), so that whole words may be summed.
#[inline(always)]
pub const fn add_u64(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    // Can't overflow again: a carry leaves at most 2^64 − 2.
    sum + carry as u64
}

/// Folds a sum of 64-bit words (see [`add_u64`]) to 16 bits.
#[inline(always)]
pub const fn fold(wide: u64) -> u16 {
    let (half, carry) = ((wide >> 32) as u32).overflowing_add(wide as u32);
    fold_u32(half + carry as u32)
}

/// Both 32-bit halves of eight bytes in native order, added. Carries collect in the upper half of the accumulator:
/// room for 2^32 words before it could overflow, more than any slice that is summed here.
#[inline(always)]
fn halves(word: &[u8; 8]) -> u64 {
    let word = u64::from_ne_bytes(*word);
    (word & 0xffff_ffff) + (word >> 32)
}

/// The last 0 to 7 bytes: four, two, and one padded with zero, as far as they are there. Each stands at an even offset,
/// and 2^16 ≡ 1, so they are added as they are.
#[inline(always)]
fn tail(mut bytes: &[u8]) -> u64 {
    let mut wide = 0u64;
    if let Some((four, rest)) = bytes.split_first_chunk::<4>() {
        wide += u64::from(u32::from_ne_bytes(*four));
        bytes = rest;
    }
    if let Some((two, rest)) = bytes.split_first_chunk::<2>() {
        wide += u64::from(u16::from_ne_bytes(*two));
        bytes = rest;
    }
    if let Some(last) = bytes.first() {
        wide += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    wide
}

/// Sums less than a step: whole words, then the tail.
#[inline(always)]
fn sum_short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().fold(tail(rest), |wide, word| add_u64(wide, u64::from_ne_bytes(*word)))
}

/// The sum of `bytes` from `start` on, in native order and unfolded: to be added to other such sums by [`add_u64`], and
/// folded with [`fold`] once. `start` is at least 8; `None`: more than `bytes`.
#[inline(always)]
pub fn raw_sum_from(bytes: &[u8], start: usize) -> Option<u64> {
    let part = bytes.get(start..)?;
    if part.len() >= STEP {
        return Some(wide_sum(part));
    }
    let (words, rest) = part.as_chunks::<8>();
    // What is left after whole words are the last bytes of the last eight, moved to the place of the first.
    let last = u64::from_le_bytes(*bytes.last_chunk::<8>()?);
    let rest = (last >> 1 >> (63 - 8 * rest.len() as u32)).to_le();
    Some(words.iter().fold(rest, |wide, word| add_u64(wide, u64::from_ne_bytes(*word))))
}

/// Whether the unfolded sum over everything a checksum covers, the field included, is right. As [`is_valid`] of [`fold`],
/// but for a sum of nothing but zeros, which no header is: 0 counts as right.
#[inline(always)]
pub const fn is_valid_unfolded(wide: u64) -> bool {
    // Folding keeps the remainder by 2^16 − 1, of which 0xffff is a multiple. (Compiles to a multiplication.)
    wide.is_multiple_of(0xffff)
}

/// Native-order word sums differ from big-endian ones only by a byte swap (RFC 1071, section 2 (B)); and the other way.
#[inline(always)]
pub const fn native_to_big(sum: u16) -> u16 {
    u16::from_be_bytes(sum.to_ne_bytes())
}

/// Ones'-complement sum of `bytes` as big-endian 16-bit words; an odd last byte is padded with zero. Uncomplemented.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    let wide = if bytes.len() < STEP { sum_short(bytes) } else { wide_sum(bytes) };
    native_to_big(fold(wide))
}

/// The sum in native order, unfolded.
///
/// (Too large to be put in line, but so marked: where it is called the compiler must see that it writes nothing and can't
/// fail, or would look again at all that it knows.)
#[inline]
fn wide_sum(bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    // Independent lanes: the compiler turns them into vector registers (two 64-bit lanes each on baseline x86-64).
    let mut lanes = [0u64; STEP / 8];
    for step in steps {
        let (words, _) = step.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += halves(word);
        }
    }
    add_u64(sum_short(rest), lanes.iter().sum())
}

/// Copies `source` to the start of `destination` and returns the source's [`sum`], reading it once. If `destination` is
/// shorter, only what fits is copied and summed.
#[inline]
pub fn copy_and_sum(source: &[u8], destination: &mut [u8]) -> u16 {
    let length = source.len().min(destination.len());
    let (Some(source), Some(destination)) = (source.get(..length), destination.get_mut(..length)) else { return 0 };
    let (steps, rest) = source.as_chunks::<STEP>();
    let (steps_to, rest_to) = destination.as_chunks_mut::<STEP>();
    let mut lanes = [0u64; STEP / 8];
    for (step, to) in steps.iter().zip(steps_to) {
        *to = *step;
        let (words, _) = step.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += halves(word);
        }
    }
    // As long as `rest`. (Byte by byte the compiler does not always see that this is a copy: 50 instructions of a short datagram.)
    if let Some(to) = rest_to.get_mut(..rest.len()) {
        to.copy_from_slice(rest);
    }
    let wide = add_u64(sum_short(rest), lanes.iter().sum());
    native_to_big(fold(wide))
}

/// The sum of two parts of which the first has an even length (or which are laid out apart).
#[inline(always)]
pub const fn combine(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // Can't overflow again: a carry leaves at most 0xfffe.
    sum + carry as u16
}

/// The sum of two parts of which the second starts at an odd offset: its bytes stand in the other half of each word.
#[inline(always)]
pub const fn combine_at_odd(a: u16, b: u16) -> u16 {
    combine(a, b.swap_bytes())
}

/// The checksum `checksum` once `word`, which was zero, is covered too: the sum grows, so its complement shrinks.
#[inline(always)]
pub const fn subtract(checksum: u16, word: u16) -> u16 {
    let (difference, borrow) = checksum.overflowing_sub(word);
    // Can't borrow again: a borrow leaves at least 1.
    difference - borrow as u16
}

/// The checksum for a header from the sum over everything it covers, its own field counted as zero.
#[inline(always)]
pub const fn finish(sum: u16) -> u16 {
    !sum
}

/// [`finish`] for UDP, whose checksum 0 would mean that there is none (RFC 768): 0xffff, the same value, is sent for it.
#[inline(always)]
pub const fn finish_nonzero(sum: u16) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// [`finish_nonzero`] of [`fold`].
#[inline(always)]
pub const fn finish_unfolded(wide: u64) -> u16 {
    // The remainder by 2^16 - 1, which is less than that, is wide - quotient * (2^16 - 1); of it the lower 16 bits. (Compiles
    // to a multiplication.)
    let remainder = (wide as u16).wrapping_add((wide / 0xffff) as u16);
    !remainder
}

/// Whether the sum over everything a checksum covers, the field included, is right.
#[inline(always)]
pub const fn is_valid(sum: u16) -> bool {
    sum == 0xffff
}

/// The checksum after one 16-bit word it covers changed from `old` to `new` (RFC 1624, equation 3).
#[inline(always)]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !combine(combine(!checksum, !old), new)
}

/// [`update`] for an aligned 32-bit field (an address, a sequence number).
#[inline(always)]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    !combine(combine(!checksum, sum_u32(!old)), sum_u32(new))
}

/// The sum of a 32-bit field at an even offset.
#[inline(always)]
pub const fn sum_u32(value: u32) -> u16 {
    combine((value >> 16) as u16, value as u16)
}

/// The sum of the pseudo-header of TCP and UDP over IPv4 (RFC 9293, section 3.1). `length`: transport header and
/// payload, bytes.
#[inline]
pub const fn pseudo_header_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: Protocol, length: usize) -> u16 {
    let addresses = source.to_bits() as u64 + destination.to_bits() as u64;
    fold(addresses + protocol.0 as u64 + length as u32 as u64)
}

/// The sum of the pseudo-header over IPv6 (RFC 8200, section 8.1). `length`: upper-layer header and payload, bytes.
#[inline]
pub const fn pseudo_header_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: Protocol, length: usize) -> u16 {
    let rest = fold(protocol.0 as u64 + length as u32 as u64);
    combine(combine(sum_u128(source.to_bits()), sum_u128(destination.to_bits())), rest)
}

/// The sum of an IPv6 address.
#[inline(always)]
const fn sum_u128(value: u128) -> u16 {
    let (high, low) = ((value >> 64) as u64, value as u64);
    fold((high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff))
}
