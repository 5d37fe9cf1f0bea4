//! IPv4 (RFC 791).

pub use crate::ip::{Ecn, Protocol};
use crate::{Error, checksum, field};
use std::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER_LENGTH: usize = 20;

/// The longest header with options, bytes.
pub const HEADER_LENGTH_MAX: usize = 60;

/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 10;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// A view of a packet; bytes past its total length (Ethernet padding) are left out.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LENGTH],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks version, header length, and that the total length covers the header and is there. The header checksum is
    /// checked by [`checksum_is_valid`](Packet::checksum_is_valid).
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let (packet, missing) = Packet::split(bytes)?;
        if missing { Err(Error::Truncated) } else { Ok(packet) }
    }

    /// As [`parse`](Packet::parse) for the beginning of a packet, as ICMP errors quote it: the header must be whole, the
    /// payload is what there is of it.
    #[inline]
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        Ok(Packet::split(bytes)?.0)
    }

    /// The packet, and whether bytes are missing at its end.
    #[inline(always)]
    fn split(bytes: &'a [u8]) -> Result<(Packet<'a>, bool), Error> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LENGTH>().ok_or(Error::Truncated)?;
        let first = field::u8_at::<0, _>(header);
        if first >> 4 != 4 {
            return Err(Error::BadVersion);
        }
        let options_length = (usize::from(first & 0xf) * 4).checked_sub(HEADER_LENGTH).ok_or(Error::BadHeaderLength)?;
        let (options, rest) = rest.split_at_checked(options_length).ok_or(Error::Truncated)?;
        let payload_length = usize::from(field::u16_at::<2, _>(header))
            .checked_sub(HEADER_LENGTH + options_length)
            .ok_or(Error::BadLength)?;
        match rest.get(..payload_length) {
            Some(payload) => Ok((Packet { header, options, payload }, false)),
            None => Ok((Packet { header, options, payload: rest }, true)),
        }
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        let sum = checksum::sum(self.header);
        // Options are rare: skip the second call.
        let sum = if self.options.is_empty() { sum } else { checksum::combine(sum, checksum::sum(self.options)) };
        checksum::is_valid(sum)
    }

    /// Differentiated services code point, 0 to 63.
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        field::u8_at::<1, _>(self.header) >> 2
    }

    /// Explicit congestion notification.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(field::u8_at::<1, _>(self.header))
    }

    /// Header and payload as the header states it, bytes.
    #[inline(always)]
    pub fn total_length(&self) -> usize {
        usize::from(field::u16_at::<2, _>(self.header))
    }

    /// Identification, for reassembly.
    #[inline(always)]
    pub fn identification(&self) -> u16 {
        field::u16_at::<4, _>(self.header)
    }

    /// Routers must not fragment it.
    #[inline(always)]
    pub fn dont_fragment(&self) -> bool {
        field::u16_at::<6, _>(self.header) & DONT_FRAGMENT != 0
    }

    /// Not the last fragment.
    #[inline(always)]
    pub fn more_fragments(&self) -> bool {
        field::u16_at::<6, _>(self.header) & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the whole packet's, bytes (a multiple of 8).
    #[inline(always)]
    pub fn fragment_offset(&self) -> usize {
        usize::from(field::u16_at::<6, _>(self.header) & FRAGMENT_OFFSET) * 8
    }

    /// Part of a packet rather than a whole one.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        field::u16_at::<6, _>(self.header) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Time to live, hops.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        field::u8_at::<8, _>(self.header)
    }

    /// What the payload is.
    #[inline(always)]
    pub fn protocol(&self) -> Protocol {
        Protocol(field::u8_at::<9, _>(self.header))
    }

    /// The header checksum as it stands.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::u16_at::<CHECKSUM_OFFSET, _>(self.header)
    }

    /// Sender.
    #[inline(always)]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array_at::<12, 4, _>(self.header))
    }

    /// Receiver.
    #[inline(always)]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array_at::<16, 4, _>(self.header))
    }

    /// Options, padded to a multiple of 4 bytes; mostly empty.
    #[inline(always)]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Bytes before the payload.
    #[inline(always)]
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + self.options.len()
    }

    /// What the packet carries.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The sum of the pseudo-header for this packet's payload.
    #[inline]
    pub fn pseudo_header_sum(&self) -> u16 {
        checksum::pseudo_header_v4(self.source(), self.destination(), self.protocol(), self.payload.len())
    }
}

/// A header without options, of a whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
    /// What the payload is.
    pub protocol: Protocol,
    /// Bytes after the header; at most 65,515.
    pub payload_length: usize,
    /// Time to live, hops.
    pub ttl: u8,
    /// For reassembly; any value if `dont_fragment` (RFC 6864).
    pub identification: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Differentiated services code point; the low 6 bits are used.
    pub dscp: u8,
}

impl Header {
    /// The header of a view; its options and place among fragments are left out.
    #[inline]
    pub fn parse(packet: &Packet<'_>) -> Header {
        Header {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            payload_length: packet.payload().len(),
            ttl: packet.ttl(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            ecn: packet.ecn(),
            dscp: packet.dscp(),
        }
    }

    /// Writes [`HEADER_LENGTH`] bytes, with the checksum. A payload that no total length can hold is
    /// [`Error::BadLength`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        self.emit_with(bytes, if self.dont_fragment { DONT_FRAGMENT } else { 0 })
    }

    /// The same of a fragment whose payload belongs `offset` bytes into the datagram's (a multiple of 8 below 65,536, else
    /// [`Error::BadValue`]); `more`: it is not the last.
    pub fn emit_fragment(&self, bytes: &mut [u8], offset: usize, more: bool) -> Result<usize, Error> {
        let offset = u16::try_from(offset).ok().filter(|offset| offset & 7 == 0).ok_or(Error::BadValue)?;
        self.emit_with(bytes, offset >> 3 | if more { MORE_FRAGMENTS } else { 0 })
    }

    #[inline(always)]
    fn emit_with(&self, bytes: &mut [u8], fragment: u16) -> Result<usize, Error> {
        let header: &mut [u8; HEADER_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        let total_length = self
            .payload_length
            .checked_add(HEADER_LENGTH)
            .and_then(|length| u16::try_from(length).ok())
            .ok_or(Error::BadLength)?;
        let version_and_service = 0x4500 | u16::from(self.dscp & 0x3f) << 2 | u16::from(self.ecn as u8);
        let ttl_and_protocol = u16::from_be_bytes([self.ttl, self.protocol.0]);
        // Summed from the values rather than the bytes just stored: no wait for the stores.
        let mut sum = checksum::combine(version_and_service, total_length);
        sum = checksum::combine(sum, self.identification);
        sum = checksum::combine(sum, fragment);
        sum = checksum::combine(sum, ttl_and_protocol);
        sum = checksum::combine(sum, checksum::sum_u32(self.source.to_bits()));
        sum = checksum::combine(sum, checksum::sum_u32(self.destination.to_bits()));
        field::put_u16_at::<0, _>(header, version_and_service);
        field::put_u16_at::<2, _>(header, total_length);
        field::put_u16_at::<4, _>(header, self.identification);
        field::put_u16_at::<6, _>(header, fragment);
        field::put_u16_at::<8, _>(header, ttl_and_protocol);
        field::put_u16_at::<CHECKSUM_OFFSET, _>(header, checksum::finish(sum));
        field::put_array_at::<12, 4, _>(header, self.source.octets());
        field::put_array_at::<16, 4, _>(header, self.destination.octets());
        Ok(HEADER_LENGTH)
    }

    /// The sum of the pseudo-header for this header's payload.
    #[inline]
    pub fn pseudo_header_sum(&self) -> u16 {
        checksum::pseudo_header_v4(self.source, self.destination, self.protocol, self.payload_length)
    }
}
