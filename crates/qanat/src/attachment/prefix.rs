//! Addresses of a prefix, for ends that nobody has named.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first host address of a prefix, or the second if that is the one given.
pub(super) fn first_of_prefix((address, length): (IpAddr, u8)) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            let first = (v4.to_bits() & mask) + 1;
            Ipv4Addr::from_bits(if first == v4.to_bits() { first + 1 } else { first }).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            let first = (v6.to_bits() & mask) + 1;
            Ipv6Addr::from_bits(if first == v6.to_bits() { first + 1 } else { first }).into()
        }
    }
}

/// Host addresses of a prefix from the top down, at most 4,096 of them.
pub(super) fn last_of_prefix(address: IpAddr, length: u8) -> Box<dyn Iterator<Item = IpAddr>> {
    const LOOKED_AT_MAX: u32 = 4_096;
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            let (first, broadcast) = (v4.to_bits() & mask, v4.to_bits() | !mask);
            let lowest = (first + 1).max(broadcast.saturating_sub(LOOKED_AT_MAX));
            Box::new((lowest..broadcast).rev().map(|bits| Ipv4Addr::from_bits(bits).into()))
        }
        IpAddr::V6(v6) => {
            let base = v6.to_bits() & !0xffff;
            Box::new(
                (0xf000u128..0xf000 + u128::from(LOOKED_AT_MAX)).map(move |low| Ipv6Addr::from_bits(base | low).into()),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        assert_eq!(first_of_prefix((address("10.77.0.2"), 24)), address("10.77.0.1"));
        assert_eq!(first_of_prefix((address("10.77.0.1"), 24)), address("10.77.0.2"));
        assert_eq!(first_of_prefix((address("fd00::2"), 64)), address("fd00::1"));
        let last: Vec<IpAddr> = last_of_prefix(address("10.77.0.2"), 24).take(2).collect();
        assert_eq!(last, [address("10.77.0.254"), address("10.77.0.253")]);
        assert_eq!(last_of_prefix(address("10.0.0.0"), 32).count(), 0);
    }
}
