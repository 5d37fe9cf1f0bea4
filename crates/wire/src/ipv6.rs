//! IPv6 (RFC 8200). Extension headers: [`crate::ipv6_extension`].

pub use crate::ip::{Ecn, Protocol};
use crate::{Error, checksum, field};
use std::net::Ipv6Addr;

/// Bytes of the fixed header.
pub const HEADER_LENGTH: usize = 40;

/// Every link carries packets of this many bytes (RFC 8200, section 5).
pub const MTU_MIN: usize = 1280;

/// A view of a packet; bytes past its payload length (Ethernet padding) are left out.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER_LENGTH],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks version and that the whole payload is there.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let (packet, missing) = Packet::split(bytes)?;
        if missing { Err(Error::Truncated) } else { Ok(packet) }
    }

    /// As [`parse`](Packet::parse) for the beginning of a packet, as ICMPv6 errors quote it: the fixed header must be
    /// whole, the payload is what there is of it.
    #[inline]
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        Ok(Packet::split(bytes)?.0)
    }

    /// The packet, and whether bytes are missing at its end.
    #[inline(always)]
    fn split(bytes: &'a [u8]) -> Result<(Packet<'a>, bool), Error> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LENGTH>().ok_or(Error::Truncated)?;
        if field::u8_at::<0, _>(header) >> 4 != 6 {
            return Err(Error::BadVersion);
        }
        match rest.get(..usize::from(field::u16_at::<4, _>(header))) {
            Some(payload) => Ok((Packet { header, payload }, false)),
            None => Ok((Packet { header, payload: rest }, true)),
        }
    }

    /// Traffic class: DSCP and ECN.
    #[inline(always)]
    fn traffic_class(&self) -> u8 {
        (field::u16_at::<0, _>(self.header) >> 4) as u8
    }

    /// Differentiated services code point, 0 to 63.
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification.
    #[inline(always)]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// Flow label, 20 bits.
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        field::u32_at::<0, _>(self.header) & 0x000f_ffff
    }

    /// Fixed header and payload as the header states it, bytes.
    #[inline(always)]
    pub fn total_length(&self) -> usize {
        HEADER_LENGTH + usize::from(field::u16_at::<4, _>(self.header))
    }

    /// What the payload begins with: an extension header or the upper layer.
    #[inline(always)]
    pub fn next_header(&self) -> Protocol {
        Protocol(field::u8_at::<6, _>(self.header))
    }

    /// Hops left.
    #[inline(always)]
    pub fn hop_limit(&self) -> u8 {
        field::u8_at::<7, _>(self.header)
    }

    /// Sender.
    #[inline(always)]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::array_at::<8, 16, _>(self.header))
    }

    /// Receiver.
    #[inline(always)]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::array_at::<24, 16, _>(self.header))
    }

    /// Bytes before the payload: always 40.
    #[inline(always)]
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH
    }

    /// What the packet carries, extension headers included. Walk them with [`crate::ipv6_extension::walk`].
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Sender.
    pub source: Ipv6Addr,
    /// Receiver.
    pub destination: Ipv6Addr,
    /// What the payload begins with.
    pub next_header: Protocol,
    /// Bytes after the header, extension headers included; at most 65,535.
    pub payload_length: usize,
    /// Hops left.
    pub hop_limit: u8,
    /// Flow label; the low 20 bits are used.
    pub flow_label: u32,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Differentiated services code point; the low 6 bits are used.
    pub dscp: u8,
}

impl Header {
    /// The header of a view.
    #[inline]
    pub fn parse(packet: &Packet<'_>) -> Header {
        Header {
            source: packet.source(),
            destination: packet.destination(),
            next_header: packet.next_header(),
            payload_length: packet.payload().len(),
            hop_limit: packet.hop_limit(),
            flow_label: packet.flow_label(),
            ecn: packet.ecn(),
            dscp: packet.dscp(),
        }
    }

    /// Writes [`HEADER_LENGTH`] bytes. A payload that no payload length can hold is [`Error::BadLength`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header: &mut [u8; HEADER_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        let payload_length = u16::try_from(self.payload_length).map_err(|_| Error::BadLength)?;
        let traffic_class = (self.dscp & 0x3f) << 2 | self.ecn as u8;
        let first = 6 << 28 | u32::from(traffic_class) << 20 | (self.flow_label & 0x000f_ffff);
        field::put_u32_at::<0, _>(header, first);
        field::put_u16_at::<4, _>(header, payload_length);
        field::put_u8_at::<6, _>(header, self.next_header.0);
        field::put_u8_at::<7, _>(header, self.hop_limit);
        field::put_array_at::<8, 16, _>(header, self.source.octets());
        field::put_array_at::<24, 16, _>(header, self.destination.octets());
        Ok(HEADER_LENGTH)
    }

    /// The sum of the pseudo-header for this header's payload, if no extension headers precede the upper layer.
    #[inline]
    pub fn pseudo_header_sum(&self) -> u16 {
        checksum::pseudo_header_v6(self.source, self.destination, self.next_header, self.payload_length)
    }
}
