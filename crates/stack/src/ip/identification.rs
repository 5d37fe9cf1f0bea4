//! Identifications of fragmented datagrams (RFC 7739).

use crate::ip::packet::IpMeta;
use crate::permutation::Numbers;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};

/// Identifications: none comes again to a host before all others have been used, and none tells how many
/// fragments others were sent.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Identifications {
    key: (u64, u64),
    numbers: Numbers,
}

impl Identifications {
    pub(crate) fn new(key: (u64, u64)) -> Identifications {
        Identifications { key, numbers: Numbers::new(key) }
    }

    pub(super) fn next(&mut self, meta: &IpMeta) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.key.1, !self.key.0);
        (meta.source, meta.destination, meta.protocol.0).hash(&mut hasher);
        let bits = if meta.source.is_ipv4() { u16::BITS } else { u32::BITS };
        self.numbers.next(hasher.finish(), 1 << bits) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_wire::ip::Protocol;

    // Attack: side channels: how many fragments others were sent, by the identifications of one's own
    #[test]
    fn identifications_of_a_pair_differ_and_tell_nothing_of_other_pairs() {
        let meta = |host: u8| IpMeta::new([10, 0, 0, 1].into(), [10, 0, 0, host].into(), Protocol::UDP);
        let mut identifications = Identifications::new((3, 4));
        let mut seen: Vec<u32> = (0..1_000).map(|_| identifications.next(&meta(2))).collect();
        let counts_up = seen.windows(2).filter(|two| two[1].wrapping_sub(two[0]) < 16).count();
        assert!(counts_up < 10, "{counts_up} of 1,000 steps are small");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1_000);
        assert!(seen.iter().all(|identification| *identification < 65_536));
    }
}
