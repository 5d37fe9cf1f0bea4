//! IPv6 extension headers (RFC 8200, section 4): a bounded walk to the upper layer, and the fragment header.

use crate::ip::Protocol;
use crate::ipv6::{HEADER_LENGTH, Packet};
use crate::{Error, field};

/// Extension headers of one packet that are walked; more is [`Error::TooMany`]. RFC 8200 names seven, each once.
pub const HEADERS_MAX: usize = 8;

/// Options of one extension header that are walked, padding included (RFC 8504, section 5.3, asks for a limit).
pub const OPTIONS_MAX: usize = 16;

/// Bytes of a fragment header.
pub const FRAGMENT_HEADER_LENGTH: usize = 8;

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// What the whole packet's fragmentable part begins with.
    pub next_header: Protocol,
    /// Where the payload belongs in it, bytes (a multiple of 8, below 65,536).
    pub offset: usize,
    /// Not the last fragment.
    pub more_fragments: bool,
    /// For reassembly.
    pub identification: u32,
}

impl Fragment {
    /// Reads the header that `bytes` begin with; and what is after it.
    pub fn parse(bytes: &[u8]) -> Result<(Fragment, &[u8]), Error> {
        let (header, payload) = bytes.split_first_chunk::<FRAGMENT_HEADER_LENGTH>().ok_or(Error::Truncated)?;
        let offset_and_more = field::u16_at::<2, _>(header);
        let fragment = Fragment {
            next_header: Protocol(field::u8_at::<0, _>(header)),
            offset: usize::from(offset_and_more & 0xfff8),
            more_fragments: offset_and_more & 1 != 0,
            identification: field::u32_at::<4, _>(header),
        };
        Ok((fragment, payload))
    }

    /// Writes [`FRAGMENT_HEADER_LENGTH`] bytes. An offset that isn't a multiple of 8 below 65,536 is
    /// [`Error::BadValue`].
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header: &mut [u8; FRAGMENT_HEADER_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        let offset = u16::try_from(self.offset).map_err(|_| Error::BadValue)?;
        if offset & 7 != 0 {
            return Err(Error::BadValue);
        }
        field::put_array_at::<0, 2, _>(header, [self.next_header.0, 0]);
        field::put_u16_at::<2, _>(header, offset | u16::from(self.more_fragments));
        field::put_u32_at::<4, _>(header, self.identification);
        Ok(FRAGMENT_HEADER_LENGTH)
    }

    /// A whole packet that only looks like a fragment, handled by itself (RFC 6946).
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more_fragments
    }
}

/// What to do about a packet with an unknown option or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Drop it and say nothing.
    Drop,
    /// Drop it and send Parameter Problem with this code and pointer (RFC 4443, section 3.4), whatever the destination.
    Report(crate::icmpv6::ParameterProblemCode, u32),
    /// The same, if the destination isn't multicast.
    ReportUnlessMulticast(crate::icmpv6::ParameterProblemCode, u32),
}

/// What a packet's extension headers lead to.
#[derive(Clone, Copy, Debug)]
pub struct Upper<'a> {
    /// The upper layer's protocol; of a fragment, what the fragmentable part begins with.
    pub protocol: Protocol,
    /// Its bytes; of a fragment, this fragment's.
    pub payload: &'a [u8],
    /// Where `payload` begins in the packet, bytes.
    pub offset: usize,
    /// Where the *next header* value that named `protocol` stands in the packet, bytes: the pointer of a Parameter
    /// Problem about an unknown protocol.
    pub next_header_offset: usize,
    /// The packet is a fragment, to be reassembled before its payload means anything.
    pub fragment: Option<Fragment>,
    /// The packet must not be processed further.
    pub refusal: Option<Refusal>,
}

/// Follows a packet's extension headers to the upper layer, to a fragment (atomic ones are passed through), to a refusal
/// or to an error. Bounded by [`HEADERS_MAX`] and [`OPTIONS_MAX`].
#[inline]
pub fn walk<'a>(packet: &Packet<'a>) -> Result<Upper<'a>, Error> {
    let upper = Upper {
        protocol: packet.next_header(),
        payload: packet.payload(),
        offset: HEADER_LENGTH,
        next_header_offset: 6,
        fragment: None,
        refusal: None,
    };
    // What nearly every packet is.
    if matches!(upper.protocol, Protocol::TCP | Protocol::UDP | Protocol::ICMPV6) {
        return Ok(upper);
    }
    walk_headers(upper)
}

fn walk_headers(mut upper: Upper<'_>) -> Result<Upper<'_>, Error> {
    use crate::icmpv6::ParameterProblemCode as Code;
    for count in 0..=HEADERS_MAX {
        let (offset, bytes) = (upper.offset, upper.payload);
        // Each header's length is in units of its own, not counting its first part.
        let length = match upper.protocol {
            // Only straight after the fixed header (RFC 8200, section 4.1).
            Protocol::HOP_BY_HOP if count > 0 => {
                upper.refusal = Some(Refusal::Report(Code::NEXT_HEADER, upper.next_header_offset as u32));
                return Ok(upper);
            }
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => {
                let [_, units, ..] = bytes else { return Err(Error::Truncated) };
                8 + usize::from(*units) * 8
            }
            Protocol::AUTHENTICATION => {
                let [_, units, ..] = bytes else { return Err(Error::Truncated) };
                8 + usize::from(*units) * 4
            }
            Protocol::FRAGMENT => {
                let (fragment, payload) = Fragment::parse(bytes)?;
                upper.protocol = fragment.next_header;
                upper.payload = payload;
                upper.offset = offset + FRAGMENT_HEADER_LENGTH;
                upper.next_header_offset = offset;
                if fragment.is_atomic() {
                    continue;
                }
                upper.fragment = Some(fragment);
                return Ok(upper);
            }
            _ => return Ok(upper),
        };
        let (header, payload) = bytes.split_at_checked(length).ok_or(Error::Truncated)?;
        let [next_header, _, data @ ..] = header else { return Err(Error::Truncated) };
        upper.refusal = match upper.protocol {
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS => walk_options(data, offset + 2)?,
            Protocol::ROUTING => routing_refusal(data, offset),
            _ => None,
        };
        if upper.refusal.is_some() {
            return Ok(upper);
        }
        upper.protocol = Protocol(*next_header);
        upper.payload = payload;
        upper.next_header_offset = offset;
        upper.offset = offset + length;
    }
    Err(Error::TooMany)
}

/// A host forwards nothing: a routing header with segments left can't be followed (RFC 8200, section 4.4).
fn routing_refusal(data: &[u8], offset: usize) -> Option<Refusal> {
    match data {
        [_, 0, ..] => None,
        _ => Some(Refusal::Report(crate::icmpv6::ParameterProblemCode::HEADER_FIELD, offset as u32 + 2)),
    }
}

/// Options of a hop-by-hop or destination options header. We know none but padding; the two high bits of an unknown
/// one's type say what to do (RFC 8200, section 4.2). `offset`: of `bytes` in the packet.
fn walk_options(mut bytes: &[u8], mut offset: usize) -> Result<Option<Refusal>, Error> {
    use crate::icmpv6::ParameterProblemCode as Code;
    /// One byte of padding.
    const PAD1: u8 = 0;
    /// Several bytes of padding.
    const PAD_N: u8 = 1;
    for _ in 0..=OPTIONS_MAX {
        let length = match bytes {
            [] => return Ok(None),
            [PAD1, ..] => 1,
            [_, length, ..] => 2 + usize::from(*length),
            [_] => return Err(Error::BadOption),
        };
        let (option, rest) = bytes.split_at_checked(length).ok_or(Error::BadOption)?;
        if let [kind, ..] = option
            && !matches!(*kind, PAD1 | PAD_N)
        {
            match kind >> 6 {
                0b00 => {}
                0b01 => return Ok(Some(Refusal::Drop)),
                0b10 => return Ok(Some(Refusal::Report(Code::OPTION, offset as u32))),
                _ => return Ok(Some(Refusal::ReportUnlessMulticast(Code::OPTION, offset as u32))),
            }
        }
        bytes = rest;
        offset += length;
    }
    Err(Error::TooMany)
}
