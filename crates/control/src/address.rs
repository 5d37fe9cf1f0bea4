//! Addresses in the one form in which they are compared, and which of them a card may have.
//!
//! `10.99.0.50` and `::ffff:10.99.0.50` are one address (RFC 4291 section 2.5.5.2), and the fence's tables have one row for
//! both. So nothing here compares an [`IpAddr`] that somebody has sent or written: it becomes an [`Address`] first, and an
//! [`Address`] is never the mapped form.

use crate::field::Addresses;
use crate::parse_error::ParseError;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::str::FromStr;
use thiserror::Error;

/// An IP address in its canonical form: an IPv4 address that was written as an IPv6 one is an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "IpAddr", into = "IpAddr")]
pub struct Address(IpAddr);

/// Why no card can have an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// Its prefix has no bits.
    #[error("{0}/0 would be on a link that has all addresses: give it the length of the link's prefix")]
    Everywhere(Address),
    /// It is a special-purpose address.
    #[error("{address} is {what}: no card can have it")]
    Special {
        /// The address.
        address: Address,
        /// What it is.
        what: &'static str,
    },
    /// It is no host's on a link.
    #[error("{address} is {what} {network}/{length}: no card can have it")]
    NoHosts {
        /// The address.
        address: Address,
        /// What it is there.
        what: &'static str,
        /// The link's prefix.
        network: IpAddr,
        /// The length of that.
        length: u8,
    },
}

impl From<ClaimError> for Refusal {
    fn from(error: ClaimError) -> Refusal {
        error.to_string().into()
    }
}

impl Address {
    /// As the standard library has it.
    pub fn ip(self) -> IpAddr {
        self.0
    }

    /// As the tables have it: IPv4 as `::ffff:a.b.c.d`, which is no packet's own address.
    pub fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }

    /// Reads an address with its prefix length, as in `10.77.0.2/24`.
    ///
    /// # Errors
    /// What is wrong, and how it is to be written.
    pub fn parse_prefixed(text: &str) -> Result<(Address, u8), ParseError> {
        let wrong = |why: &str| ParseError(format!("`{text}`: {why}, as in 10.77.0.2/24"));
        let parts = text.split_once('/').ok_or_else(|| wrong("write it with its prefix length"))?;
        let written: IpAddr = parts.0.parse().map_err(|_| wrong("that is no address"))?;
        let length: u8 = parts.1.parse().map_err(|_| wrong("that is no prefix length"))?;
        let address = Address::from(written);
        // The length of a mapped address counts the 96 bits before the IPv4 address.
        let length = if written.is_ipv6() && address.is_ipv4() { length.checked_sub(96) } else { Some(length) };
        match length.filter(|length| Addresses::prefix(*address, *length).is_some()) {
            Some(length) => Ok((address, length)),
            None => Err(wrong("there is no such prefix length")),
        }
    }

    /// Whether a card may have this address, on a link with a prefix of `length` bits, whatever rules say. `links`: the
    /// kernel's addresses on the links that cards are on.
    ///
    /// # Errors
    /// Why not.
    pub fn check_claim(self, length: u8, links: &[(Address, u8)]) -> Result<(), ClaimError> {
        if length == 0 {
            return Err(ClaimError::Everywhere(self));
        }
        if let Some(what) = self.special() {
            return Err(ClaimError::Special { address: self, what });
        }
        for (base, length) in links.iter().copied().chain([(self, length)]) {
            if let Some(what) = self.place_in(base, length) {
                return Err(ClaimError::NoHosts { address: self, what, network: base.network(length), length });
            }
        }
        Ok(())
    }

    /// What a special-purpose address is (RFC 6890): one that is no single host's, that is another one on each link, or
    /// that stands for an IPv4 host behind a translator.
    fn special(self) -> Option<&'static str> {
        match self.0 {
            IpAddr::V4(address) => special_v4(address),
            IpAddr::V6(address) => special_v6(address),
        }
    }

    /// What this address is in the link's prefix that `base` is in, if it is no host's there.
    fn place_in(self, base: Address, length: u8) -> Option<&'static str> {
        let (one, other) = (self.octets(), base.octets());
        // RFC 3021 and RFC 6164: links between two have neither.
        let bits = if self.is_ipv4() { 96 } else { 0 } + u32::from(length);
        let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
        let (one, other) = (u128::from_be_bytes(one), u128::from_be_bytes(other));
        if self.is_ipv4() != base.is_ipv4() || bits >= 127 || (one ^ other) & !rest != 0 {
            return None;
        }
        match one & rest {
            0 if self.is_ipv4() => Some("the network's own address in"),
            0 => Some("the address of all routers (subnet-router anycast) in"),
            host if host == rest && self.is_ipv4() => Some("the broadcast address of"),
            _ => None,
        }
    }

    fn network(self, length: u8) -> IpAddr {
        let bits = if self.is_ipv4() { 96 } else { 0 } + u32::from(length);
        let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
        let address = Ipv6Addr::from_bits(u128::from_be_bytes(self.octets()) & !rest);
        IpAddr::V6(address).to_canonical()
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("of no host (0.0.0.0/8 means this host on this network)"),
        [127, ..] => Some("a loopback address"),
        [169, 254, ..] => Some("a link-local address, which means another host on each link"),
        [224..=239, ..] => Some("a multicast address"),
        [255, 255, 255, 255] => Some("the broadcast address"),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("of no host (the unspecified address)"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0, 0, 0, 0, 0, 0, ..] => Some("an IPv4 address in a form out of use (RFC 4291 section 2.5.5.1)"),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => {
            Some("the address of an IPv4 host behind a translator (RFC 6052)")
        }
        [0x2002, ..] | [0x2001, 0, ..] => Some("the address of an IPv4 host's tunnel (6to4, Teredo)"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address, which means another host on each link"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => None,
    }
}

impl Deref for Address {
    type Target = IpAddr;

    fn deref(&self) -> &IpAddr {
        &self.0
    }
}

macro_rules! from {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Address {
            fn from(address: $kind) -> Address {
                Address(IpAddr::from(address).to_canonical())
            }
        })*
    };
}
from!(IpAddr, Ipv4Addr, Ipv6Addr, [u8; 4], [u8; 16], [u16; 8]);

impl From<Address> for IpAddr {
    fn from(address: Address) -> IpAddr {
        address.0
    }
}

impl FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Address, Self::Err> {
        text.parse::<IpAddr>().map(Address::from)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_are_one_address() {
        let plain: Address = "10.99.0.50".parse().unwrap();
        for text in ["::ffff:10.99.0.50", "::ffff:a63:32", "0:0:0:0:0:ffff:0a63:0032"] {
            let other: Address = text.parse().unwrap();
            assert_eq!((other, other.octets()), (plain, plain.octets()), "{text}");
            let sent: Address = serde_json::from_value(serde_json::json!(text)).unwrap();
            assert_eq!(sent, plain, "{text}");
            assert_eq!(serde_json::to_value(sent).unwrap(), "10.99.0.50");
        }
        // What only looks alike is another address.
        for text in ["::10.99.0.50", "::fffe:10.99.0.50", "::ffff:0:10.99.0.50", "64:ff9b::10.99.0.50"] {
            assert_ne!(text.parse::<Address>().unwrap(), plain, "{text}");
        }
        assert_eq!(Address::parse_prefixed("::ffff:10.99.0.50/120"), Ok((plain, 24)));
        assert_eq!(Address::parse_prefixed("10.99.0.50/24"), Ok((plain, 24)));
        for wrong in
            ["10.99.0.50", "10.99.0.50/33", "::ffff:10.99.0.50/24", "::ffff:10.99.0.50/129", "fd00::1/129", "x/1"]
        {
            assert!(Address::parse_prefixed(wrong).unwrap_err().0.contains("10.77.0.2/24"), "{wrong}");
        }
    }

    #[test]
    fn addresses_that_are_no_hosts_are_nobodys() {
        let links = ["10.77.0.1/24", "fd77::1/64", "10.78.0.1/31"].map(|text| Address::parse_prefixed(text).unwrap());
        let check = |text: &str| {
            let (address, length) = Address::parse_prefixed(text).unwrap();
            address.check_claim(length, &links)
        };
        for good in [
            "10.77.0.2/24",
            "10.77.0.254/24",
            "10.77.1.0/23",
            "10.77.1.255/16",
            "10.78.0.0/31",
            "10.79.0.5/32",
            "fd77::2/64",
            "fd77::/127",
            "fd78::/128",
            "2001:db8::1/64",
            "240.0.0.1/8",
        ] {
            // One that is a link's first is no host's, however short a prefix the claim names.
            let expected = !good.starts_with("fd77::/");
            assert_eq!(check(good).is_ok(), expected, "{good}");
        }
        for (wrong, word) in [
            ("10.77.0.0/24", "network's own"),
            ("10.77.0.255/24", "broadcast address of 10.77.0.0/24"),
            ("10.77.0.255/32", "broadcast"),
            ("10.77.0.0/32", "network's own"),
            ("10.79.0.7/30", "broadcast"),
            ("fd77::/64", "all routers"),
            ("fd99::/64", "all routers"),
            ("10.99.0.5/0", "all addresses"),
            ("fd99::5/0", "all addresses"),
            ("0.0.0.0/8", "no host"),
            ("0.1.2.3/8", "no host"),
            ("127.0.0.1/8", "loopback"),
            ("169.254.169.254/32", "link-local"),
            ("224.0.0.1/32", "multicast"),
            ("255.255.255.255/32", "broadcast"),
            ("::ffff:127.0.0.1/128", "loopback"),
            ("::/128", "no host"),
            ("::1/128", "loopback"),
            ("::10.99.0.50/128", "out of use"),
            ("64:ff9b::a63:32/96", "translator"),
            ("2002:a63:32::1/48", "tunnel"),
            ("2001:0:1::1/64", "tunnel"),
            ("fe80::1/64", "link-local"),
            ("ff02::1/128", "multicast"),
        ] {
            let refusal = check(wrong).unwrap_err();
            assert!(refusal.to_string().contains(word), "{wrong}: {refusal}");
        }
    }
}
