//! What both versions of IP share.

use std::fmt;

/// An IP protocol number; in IPv6 the value of *next header* (IANA "Assigned Internet Protocol Numbers").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// ICMP for IPv4.
    pub const ICMPV4: Protocol = Protocol(1);
    /// IGMP.
    pub const IGMP: Protocol = Protocol(2);
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 routing header.
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Protocol = Protocol(44);
    /// Encapsulating security payload.
    pub const ESP: Protocol = Protocol(50);
    /// Authentication header.
    pub const AUTHENTICATION: Protocol = Protocol(51);
    /// ICMP for IPv6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// Nothing follows.
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::HOP_BY_HOP => f.write_str("HopByHop"),
            Protocol::ICMPV4 => f.write_str("ICMPv4"),
            Protocol::IGMP => f.write_str("IGMP"),
            Protocol::TCP => f.write_str("TCP"),
            Protocol::UDP => f.write_str("UDP"),
            Protocol::ROUTING => f.write_str("Routing"),
            Protocol::FRAGMENT => f.write_str("Fragment"),
            Protocol::ESP => f.write_str("ESP"),
            Protocol::AUTHENTICATION => f.write_str("Authentication"),
            Protocol::ICMPV6 => f.write_str("ICMPv6"),
            Protocol::NO_NEXT_HEADER => f.write_str("NoNextHeader"),
            Protocol::DESTINATION_OPTIONS => f.write_str("DestinationOptions"),
            Protocol(number) => write!(f, "Protocol({number})"),
        }
    }
}

/// Explicit congestion notification: the two low bits of TOS or traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[derive(serde::Serialize, serde::Deserialize)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable = 0b00,
    /// ECN-capable, ECT(1).
    Capable1 = 0b01,
    /// ECN-capable, ECT(0).
    Capable0 = 0b10,
    /// Congestion experienced.
    CongestionExperienced = 0b11,
}

impl Ecn {
    /// From the low two bits of a TOS or traffic class byte.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Capable1,
            0b10 => Ecn::Capable0,
            _ => Ecn::CongestionExperienced,
        }
    }
}
