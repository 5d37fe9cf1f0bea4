//! Values of one header field: ranges and masks of addresses, Ethernet addresses, VLANs and EtherTypes.

use crate::parse_error::ParseError;
use qanat_wire::ethernet::MacAddress;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Text both ways, as messages and the policy file have it.
macro_rules! as_text {
    ($name:ty) => {
        impl TryFrom<String> for $name {
            type Error = $crate::ParseError;

            fn try_from(text: String) -> Result<$name, $crate::ParseError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}
pub(crate) use as_text;

/// Numbers from `first` to `last`, and of those the ones whose bits under `mask` are `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The lowest.
    pub first: u128,
    /// The highest.
    pub last: u128,
    /// Bits that count.
    pub mask: u128,
    /// What they are.
    pub value: u128,
}

impl Span {
    const fn range(first: u128, last: u128) -> Span {
        Span { first, last, mask: 0, value: 0 }
    }

    fn masked(value: u128, mask: u128, most: u128) -> Span {
        Span { first: 0, last: most, mask, value: value & mask }
    }

    /// Whether all of `other` is in it. A mask that is a whole range's is one: `2-3` holds what `…1x` does only if said
    /// as a range.
    fn contains(self, other: Span) -> bool {
        let wide = self.first <= other.first && other.last <= self.last;
        // What is one number has every mask it fits.
        let one = other.first == other.last && other.first & self.mask == self.value;
        wide && (one || (self.mask & !other.mask == 0 && other.value & self.mask == self.value))
    }
}

/// Addresses: `10.77.0.0/24`, `10.77.0.2`, `10.77.0.2-10.77.0.9`, `10.0.0.1/255.0.0.255`, or `any` (of both families).
/// IPv4 is compared as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Addresses(Span);

const V4: u128 = 0xffff_0000_0000;

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn unmapped(bits: u128) -> IpAddr {
    let address = Ipv6Addr::from_bits(bits);
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

impl Addresses {
    /// Every address.
    pub const ANY: Addresses = Addresses(Span::range(0, u128::MAX));

    /// The addresses that begin with the same `length` bits as `address`.
    pub fn prefix(address: IpAddr, length: u8) -> Option<Addresses> {
        let before = if address.is_ipv4() { 96 } else { 0 };
        let length = length.checked_add(before).filter(|length| *length <= 128)?;
        let rest = u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        let first = mapped(address) & !rest;
        Some(Addresses(Span::range(first, first | rest)))
    }

    /// One address.
    pub fn host(address: IpAddr) -> Addresses {
        Addresses(Span::range(mapped(address), mapped(address)))
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Addresses) -> bool {
        self.0.contains(other.0)
    }

    /// Whether it holds IPv4 addresses without being about them: `::/0` is the mapped ones, too.
    fn is_mixed(self) -> bool {
        let Span { first, last, mask, value } = self.0;
        let all = V4 | 0xffff_ffff;
        let is_within = V4 <= first && last <= all;
        !is_within && first <= all && V4 <= last && (value ^ V4) & mask & !0xffff_ffff == 0
    }

    /// As it is compared.
    pub fn span(self) -> Span {
        self.0
    }
}

impl FromStr for Addresses {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Addresses, ParseError> {
        if matches!(text, "any" | "*") {
            return Ok(Addresses::ANY);
        }
        match Addresses::parse(text)? {
            mixed if mixed.is_mixed() => Err(ParseError(format!(
                "`{text}` holds IPv4 addresses, too (as ::ffff:0.0.0.0/96): write any, or IPv6 addresses without them, \
                 as 2000::/3 or fc00::/7"
            ))),
            found => Ok(found),
        }
    }
}

impl Addresses {
    fn parse(text: &str) -> Result<Addresses, ParseError> {
        let wrong = || {
            ParseError(format!("`{text}` are no addresses: write 10.77.0.0/24, fd00::1, 10.77.0.2-10.77.0.9 or any"))
        };
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| wrong());
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (address(first)?, address(last)?);
            let (low, high) = (mapped(first), mapped(last));
            let good = first.is_ipv4() == last.is_ipv4() && low <= high;
            return good.then_some(Addresses(Span::range(low, high))).ok_or_else(wrong);
        }
        let Some((base, rest)) = text.split_once('/') else { return Ok(Addresses::host(address(text)?)) };
        let base = address(base)?;
        if let Ok(mask) = rest.parse::<IpAddr>() {
            let family = if base.is_ipv4() { Span::range(V4, V4 | 0xffff_ffff) } else { Span::range(0, u128::MAX) };
            let bits = if base.is_ipv4() { mapped(mask) & 0xffff_ffff } else { mapped(mask) };
            let span = Span { mask: bits, value: mapped(base) & bits, ..family };
            return (base.is_ipv4() == mask.is_ipv4()).then_some(Addresses(span)).ok_or_else(wrong);
        }
        Addresses::prefix(base, rest.parse().map_err(|_| wrong())?).ok_or_else(wrong)
    }
}

as_text!(Addresses);

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { first, last, mask, value } = self.0;
        let (low, high) = (unmapped(first), unmapped(last));
        if mask != 0 {
            let is_v4 = low.is_ipv4();
            return match is_v4 {
                true => write!(f, "{}/{}", Ipv4Addr::from_bits(value as u32), Ipv4Addr::from_bits(mask as u32)),
                false => write!(f, "{}/{}", Ipv6Addr::from_bits(value), Ipv6Addr::from_bits(mask)),
            };
        }
        let differing = first ^ last;
        let is_prefix = differing & differing.wrapping_add(1) == 0 && first & differing == 0;
        let length = 128 - (128 - differing.leading_zeros());
        let longest = 128 - if low.is_ipv4() { 96 } else { 0 };
        match length {
            0 if *self == Addresses::ANY => f.write_str("any"),
            128 => write!(f, "{low}"),
            _ if is_prefix => write!(f, "{low}/{}", length.saturating_sub(128 - longest)),
            _ => write!(f, "{low}-{high}"),
        }
    }
}

/// Ethernet addresses: `02:00:00:00:00:01`, `02:00:00:00:00:00/ff:ff:ff:00:00:00`, `02:00:…:01-02:00:…:09`, or `any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Macs(Span);

const MAC_BITS: u128 = 0xffff_ffff_ffff;

impl Macs {
    /// Every Ethernet address.
    pub const ANY: Macs = Macs(Span::range(0, MAC_BITS));

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Macs) -> bool {
        self.0.contains(other.0)
    }

    /// As it is compared.
    pub fn span(self) -> Span {
        self.0
    }
}

impl Default for Macs {
    fn default() -> Macs {
        Macs::ANY
    }
}

fn parse_mac(text: &str) -> Option<u128> {
    let mut bits = 0;
    let mut count = 0;
    for part in text.split(':') {
        if part.len() != 2 || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        bits = bits << 8 | u128::from(u8::from_str_radix(part, 16).ok()?);
        count += 1;
    }
    (count == 6).then_some(bits)
}

fn mac_text(bits: u128) -> String {
    MacAddress::from_bits(bits as u64).unwrap_or_default().to_string()
}

impl FromStr for Macs {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Macs, ParseError> {
        if matches!(text, "any" | "*") {
            return Ok(Macs::ANY);
        }
        let wrong = || {
            ParseError(format!(
                "`{text}` are no Ethernet addresses: write 02:00:00:00:00:01, with /ff:ff:ff:00:00:00 if need be"
            ))
        };
        let parse = |text: &str| parse_mac(text).ok_or_else(wrong);
        if let Some((value, mask)) = text.split_once('/') {
            return Ok(Macs(Span::masked(parse(value)?, parse(mask)?, MAC_BITS)));
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (parse(first)?, parse(last)?);
        if first <= last { Ok(Macs(Span::range(first, last))) } else { Err(wrong()) }
    }
}

as_text!(Macs);

impl fmt::Display for Macs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { first, last, mask, value } = self.0;
        match *self {
            Macs::ANY => f.write_str("any"),
            _ if mask != 0 => write!(f, "{}/{}", mac_text(value), mac_text(mask)),
            _ if first == last => f.write_str(&mac_text(first)),
            _ => write!(f, "{}-{}", mac_text(first), mac_text(last)),
        }
    }
}

/// VLANs by 802.1Q: `none` (no tag), `7`, `100-200`; with two tags (802.1ad) `7.8`, outer tag first; `any`: with or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Vlan {
    /// Of the first tag: lowest and highest number; [`Vlan::UNTAGGED`]: no tag.
    pub outer: (u16, u16),
    /// Of the second.
    pub inner: (u16, u16),
}

impl Vlan {
    /// In place of a number: there is no such tag.
    pub const UNTAGGED: u16 = 4_096;
    /// No tag.
    pub const NONE: Vlan = Vlan { outer: (Vlan::UNTAGGED, Vlan::UNTAGGED), inner: (Vlan::UNTAGGED, Vlan::UNTAGGED) };
    /// With tags or without.
    pub const ANY: Vlan = Vlan { outer: (0, Vlan::UNTAGGED), inner: (0, Vlan::UNTAGGED) };

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Vlan) -> bool {
        let within = |wide: (u16, u16), narrow: (u16, u16)| wide.0 <= narrow.0 && narrow.1 <= wide.1;
        within(self.outer, other.outer) && within(self.inner, other.inner)
    }
}

impl Default for Vlan {
    fn default() -> Vlan {
        Vlan::NONE
    }
}

impl FromStr for Vlan {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Vlan, ParseError> {
        let wrong = || ParseError(format!("`{text}` is no VLAN: write 7, 100-200, 7.8 for two tags, none or any"));
        let number = |text: &str| text.parse().ok().filter(|number| *number < Vlan::UNTAGGED).ok_or_else(wrong);
        let range = |text: &str| match text {
            "none" => Ok((Vlan::UNTAGGED, Vlan::UNTAGGED)),
            "any" | "*" => Ok((0, Vlan::UNTAGGED)),
            text => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last) = (number(first)?, number(last)?);
                if first <= last { Ok((first, last)) } else { Err(wrong()) }
            }
        };
        match text.split_once('.') {
            Some((outer, inner)) => Ok(Vlan { outer: range(outer)?, inner: range(inner)? }),
            None if matches!(text, "any" | "*") => Ok(Vlan::ANY),
            None => Ok(Vlan { outer: range(text)?, inner: Vlan::NONE.inner }),
        }
    }
}

as_text!(Vlan);

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |range: (u16, u16)| match range {
            (Vlan::UNTAGGED, Vlan::UNTAGGED) => "none".to_owned(),
            (0, Vlan::UNTAGGED) => "any".to_owned(),
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        match *self {
            Vlan::ANY => f.write_str("any"),
            Vlan { outer, inner } if inner == Vlan::NONE.inner => f.write_str(&text(outer)),
            Vlan { outer, inner } => write!(f, "{}.{}", text(outer), text(inner)),
        }
    }
}

/// EtherTypes, inclusive: `0x88b5`, `0x88b5-0x88b6`, `any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EtherTypes {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl EtherTypes {
    /// Every EtherType.
    pub const ANY: EtherTypes = EtherTypes { first: 0, last: u16::MAX };

    /// Whether all of `other` is in it.
    pub fn contains(self, other: EtherTypes) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl FromStr for EtherTypes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<EtherTypes, ParseError> {
        if matches!(text, "any" | "*") {
            return Ok(EtherTypes::ANY);
        }
        let wrong = || ParseError(format!("`{text}` is no EtherType: write 0x88b5, 0x88b5-0x88b6 or any"));
        let number = |text: &str| {
            let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
            u16::from_str_radix(digits, 16).map_err(|_| wrong())
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        if first <= last { Ok(EtherTypes { first, last }) } else { Err(wrong()) }
    }
}

as_text!(EtherTypes);

impl fmt::Display for EtherTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (0, u16::MAX) => f.write_str("any"),
            (first, last) if first == last => write!(f, "{first:#06x}"),
            (first, last) => write!(f, "{first:#06x}-{last:#06x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: FromStr<Err = ParseError> + ToString>(texts: &[&str], wrong: &[&str]) {
        for text in texts {
            assert_eq!(text.parse::<T>().unwrap_or_else(|error| panic!("{error}")).to_string(), *text);
        }
        for text in wrong {
            assert!(text.parse::<T>().is_err(), "{text}");
        }
    }

    #[test]
    fn text_and_back() {
        round_trip::<Addresses>(
            &[
                "10.77.0.0/24",
                "10.77.0.2",
                "fd00::/64",
                "fd00::1",
                "any",
                "0.0.0.0/0",
                "10.77.0.2-10.77.0.9",
                "fd00::2-fd00::9",
                "10.0.0.1/255.0.0.255",
                "fd00::1/ffff::ffff",
            ],
            &[
                "10.0.0.0/33",
                "fd00::/129",
                "x",
                "/",
                "10.0.0.1/",
                "10.0.0.9-10.0.0.1",
                "10.0.0.1-fd00::1",
                "10.0.0.1/ff::",
                // IPv6 in form, and IPv4 in effect, too.
                "::/0",
                "::/64",
                "::-ffff::",
                "::-::ffff:10.0.0.1",
                "::1/::ffff",
                "::/::",
            ],
        );
        // Two spellings are one range.
        for (text, plain) in [
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1-::ffff:10.0.0.9", "10.0.0.1-10.0.0.9"),
        ] {
            assert_eq!(text.parse::<Addresses>().unwrap().to_string(), plain, "{text}");
        }
        round_trip::<Macs>(
            &["02:00:00:00:00:01", "02:00:00:00:00:01-02:00:00:00:00:09", "02:00:00:00:00:00/ff:ff:ff:00:00:00", "any"],
            &["02:00:00:00:00", "02:00:00:00:00:0g", "2:0:0:0:0:1", "02:00:00:00:00:09-02:00:00:00:00:01", ""],
        );
        round_trip::<Vlan>(&["none", "any", "7", "100-200", "7.8", "7.any"], &["4096", "9-8", "-1", "", "7.8.9", "x"]);
        round_trip::<EtherTypes>(&["0x88b5", "0x88b5-0x88b6", "any"], &["88b5", "0x10000", "0x2-0x1", ""]);
    }

    #[test]
    fn volumes_contain() {
        let addresses = |text: &str| text.parse::<Addresses>().unwrap();
        for (wide, narrow) in [
            ("10.0.0.0/8", "10.77.0.0/24"),
            ("any", "10.0.0.1"),
            ("any", "fd00::1"),
            ("10.0.0.2-10.0.0.9", "10.0.0.4/30"),
            ("10.0.0.1/255.0.0.255", "10.7.8.1"),
            ("10.0.0.1/255.0.0.255", "10.7.0.1/255.255.0.255"),
            ("10.0.0.0/8", "10.0.0.0-10.0.0.255"),
        ] {
            assert!(addresses(wide).contains(addresses(narrow)), "{wide} {narrow}");
            assert!(!addresses(narrow).contains(addresses(wide)), "{narrow} {wide}");
        }
        assert!(!addresses("0.0.0.0/0").contains(addresses("fd00::1")), "IPv4's own any is not IPv6's");
        assert!(!addresses("10.0.0.1/255.0.0.255").contains(addresses("10.7.8.2")));
        assert!(!addresses("10.0.0.1/255.0.0.255").contains(addresses("10.7.8.1-10.7.8.2")));
        let macs = |text: &str| text.parse::<Macs>().unwrap();
        assert!(macs("02:00:00:00:00:00/ff:00:00:00:00:00").contains(macs("02:01:02:03:04:05")));
        assert!(!macs("02:00:00:00:00:00/ff:00:00:00:00:00").contains(macs("03:01:02:03:04:05")));
        let vlan = |text: &str| text.parse::<Vlan>().unwrap();
        assert!(
            vlan("any").contains(vlan("none"))
                && vlan("1-9").contains(vlan("7"))
                && vlan("7.any").contains(vlan("7.8"))
        );
        assert!(
            !vlan("7").contains(vlan("none")) && !vlan("7").contains(vlan("7.8")) && !vlan("none").contains(vlan("0"))
        );
    }
}
