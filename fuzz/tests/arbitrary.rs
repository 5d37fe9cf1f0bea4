//! Arbitrary bytes: the checks of the targets for frames, run by proptest so that `make test-unit` covers them too.

use proptest::collection::vec;
use proptest::prelude::*;
use qanat_fuzz::{wire, wire_emit};

/// An IP header that passes the first checks, in front of noise.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let ethertype = prop_oneof![Just([0x08, 0x00]), Just([0x86, 0xdd]), Just([0x81, 0x00]), Just([0x08, 0x06])];
    let first = prop_oneof![Just(0x45u8), Just(0x46), Just(0x4f), Just(0x60), any::<u8>()];
    let protocol = prop_oneof![Just(0u8), Just(1), Just(6), Just(17), Just(43), Just(44), Just(51), Just(58), Just(60)];
    (ethertype, first, protocol, vec(any::<u8>(), 0..200)).prop_map(|(ethertype, first, protocol, noise)| {
        let mut bytes = vec![2; 12];
        bytes.extend(ethertype);
        bytes.push(first);
        bytes.extend(&noise);
        let length = (bytes.len() - 14) as u16;
        for (at, value) in [(18, length.saturating_sub(40)), (16, length)] {
            // IPv4's total length is at 2, IPv6's payload length at 4.
            if (first >> 4 == 6) == (at == 18)
                && let Some(place) = bytes.get_mut(at..at + 2)
            {
                place.copy_from_slice(&value.to_be_bytes());
            }
        }
        let at = if first >> 4 == 6 { 20 } else { 23 };
        if let Some(place) = bytes.get_mut(at) {
            *place = protocol;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise(data in vec(any::<u8>(), 0..300)) {
        wire::wire(&data);
        wire_emit::wire_emit(&data);
    }

    #[test]
    fn plausible_frames_and_their_beginnings(data in plausible(), cut in any::<prop::sample::Index>()) {
        wire::wire(&data);
        wire::wire(&data[..cut.index(data.len() + 1)]);
        wire::wire(&data[14..]);
    }
}
