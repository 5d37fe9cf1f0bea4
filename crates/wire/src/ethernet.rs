//! Ethernet II (IEEE 802.3) frames.

use crate::{Error, field};
use std::fmt;

/// Bytes before the payload of an untagged frame.
pub const HEADER_LENGTH: usize = 14;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// All stations.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// The group bit is set: a multicast address or the broadcast address.
    #[inline(always)]
    pub const fn is_multicast(&self) -> bool {
        let [first, ..] = self.0;
        first & 1 != 0
    }

    /// The broadcast address.
    #[inline(always)]
    pub fn is_broadcast(&self) -> bool {
        *self == MacAddress::BROADCAST
    }

    /// May be a station's own address: neither a group's nor all zero.
    #[inline(always)]
    pub fn is_unicast(&self) -> bool {
        !self.is_multicast() && self.0 != [0; 6]
    }

    /// As a number of 48 bits, the first byte the highest.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, g] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, g])
    }

    /// The address that is this number; `None`: it has more than 48 bits.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<MacAddress> {
        match bits.to_be_bytes() {
            [0, 0, a, b, c, d, e, g] => Some(MacAddress([a, b, c, d, e, g])),
            _ => None,
        }
    }

    /// The group address for an IPv4 multicast address (RFC 1112, section 6.4).
    pub const fn for_ipv4_multicast(address: std::net::Ipv4Addr) -> MacAddress {
        let [_, b, c, d] = address.octets();
        MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address for an IPv6 multicast address (RFC 2464, section 7).
    pub const fn for_ipv6_multicast(address: std::net::Ipv6Addr) -> MacAddress {
        let [.., a, b, c, d] = address.octets();
        MacAddress([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a frame carries. Values below 1536 are an IEEE 802.3 length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// An 802.1Q tag follows.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// An 802.1ad service tag follows.
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("IPv4"),
            EtherType::ARP => f.write_str("ARP"),
            EtherType::VLAN => f.write_str("VLAN"),
            EtherType::SERVICE_VLAN => f.write_str("ServiceVLAN"),
            EtherType::IPV6 => f.write_str("IPv6"),
            EtherType(number) => write!(f, "EtherType({number:#06x})"),
        }
    }
}

/// A view of a frame, without preamble and frame check sequence.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: &'a [u8; HEADER_LENGTH],
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Checks that the header is there.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let (header, payload) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        Ok(Frame { header, payload })
    }

    /// Receiver's address.
    #[inline(always)]
    pub fn destination(&self) -> MacAddress {
        MacAddress(field::array_at::<0, 6, _>(self.header))
    }

    /// Sender's address.
    #[inline(always)]
    pub fn source(&self) -> MacAddress {
        MacAddress(field::array_at::<6, 6, _>(self.header))
    }

    /// What the payload is.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        EtherType(field::u16_at::<12, _>(self.header))
    }

    /// Everything after the header, padding of short frames included.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Receiver.
    pub destination: MacAddress,
    /// Sender.
    pub source: MacAddress,
    /// What follows.
    pub ethertype: EtherType,
}

impl Header {
    /// The header of a view.
    #[inline]
    pub fn parse(frame: &Frame<'_>) -> Header {
        Header { destination: frame.destination(), source: frame.source(), ethertype: frame.ethertype() }
    }

    /// Writes [`HEADER_LENGTH`] bytes.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header: &mut [u8; HEADER_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        field::put_array_at::<0, 6, _>(header, self.destination.0);
        field::put_array_at::<6, 6, _>(header, self.source.0);
        field::put_u16_at::<12, _>(header, self.ethertype.0);
        Ok(HEADER_LENGTH)
    }
}
