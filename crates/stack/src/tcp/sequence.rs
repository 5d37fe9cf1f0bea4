//! Sequence numbers and timestamps, modulo 2³² (RFC 9293 §3.4, RFC 7323 §5.2).

pub use qanat_wire::tcp::SequenceNumber;

/// Whether timestamp `a` is earlier than `b` (RFC 7323 §5.2: the same modular comparison).
#[inline]
pub fn timestamp_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_wrap() {
        assert!(timestamp_before(u32::MAX, 0));
        assert!(!timestamp_before(0, u32::MAX));
        assert!(!timestamp_before(7, 7));
    }
}
