//! The headers of a received IP packet: what both versions say in their own ways.

use crate::ip::packet::IpMeta;
use crate::ip::reassembly::FragmentPlace;
use qanat_wire::ipv6_extension::Refusal;
use qanat_wire::{ipv4, ipv6, ipv6_extension};

/// What the headers of an IP packet say.
pub(crate) struct Headers<'p> {
    pub(crate) meta: IpMeta,
    /// Bytes of all headers before layer 4.
    pub(crate) length: usize,
    /// Layer-4 bytes in all frames.
    pub(crate) total_length: usize,
    /// Layer-4 bytes in the first frame.
    pub(crate) payload: &'p [u8],
    /// The packet is a fragment: the place of its payload.
    pub(crate) fragment: Option<FragmentPlace>,
    /// The packet is whole, but an extension header forbids that it is taken.
    pub(crate) is_refused: bool,
}

/// Why a packet is dropped before anything in it is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreadable {
    /// The headers contradict each other, or the packet is longer than what came.
    Malformed,
    /// The checksum of the headers is wrong.
    Checksum,
}

/// A version of IP. It is chosen when the program is compiled, so each version has code of its own.
pub(crate) trait IpVersion {
    /// Reads the packet that begins in `bytes`, and goes on for `tail` bytes in further frames if it `is_spread` over several.
    /// Then the first part alone must hold the headers, while the length covers all parts.
    fn read(bytes: &[u8], is_spread: bool, tail: usize) -> Result<Headers<'_>, Unreadable>;
}

/// IPv4 (RFC 791).
pub(crate) struct V4;

/// IPv6 (RFC 8200).
pub(crate) struct V6;

impl IpVersion for V4 {
    #[inline(always)]
    fn read(bytes: &[u8], is_spread: bool, tail: usize) -> Result<Headers<'_>, Unreadable> {
        let parsed = if is_spread { ipv4::Packet::parse_quoted(bytes) } else { ipv4::Packet::parse(bytes) };
        let packet = match parsed {
            Ok(packet) if packet.total_length() <= bytes.len() + tail => packet,
            _ => return Err(Unreadable::Malformed),
        };
        if !packet.checksum_is_valid() {
            return Err(Unreadable::Checksum);
        }
        let fragment = packet.is_fragment().then(|| FragmentPlace {
            identification: u32::from(packet.identification()),
            offset: packet.fragment_offset(),
            more: packet.more_fragments(),
        });
        let length = packet.header_length();
        Ok(Headers {
            meta: IpMeta {
                source: packet.source().into(),
                destination: packet.destination().into(),
                protocol: packet.protocol(),
                ecn: packet.ecn(),
                hop_limit: packet.ttl(),
            },
            length,
            total_length: packet.total_length().saturating_sub(length),
            payload: packet.payload(),
            fragment,
            is_refused: false,
        })
    }
}

impl IpVersion for V6 {
    #[inline(always)]
    fn read(bytes: &[u8], is_spread: bool, tail: usize) -> Result<Headers<'_>, Unreadable> {
        let parsed = if is_spread { ipv6::Packet::parse_quoted(bytes) } else { ipv6::Packet::parse(bytes) };
        let packet = match parsed {
            Ok(packet) if packet.total_length() <= bytes.len() + tail => packet,
            _ => return Err(Unreadable::Malformed),
        };
        let upper = ipv6_extension::walk(&packet).map_err(|_| Unreadable::Malformed)?;
        let fragment = upper.fragment.map(|fragment| FragmentPlace {
            identification: fragment.identification,
            offset: fragment.offset,
            more: fragment.more_fragments,
        });
        let is_refused =
            matches!(upper.refusal, Some(Refusal::Drop | Refusal::Report(..) | Refusal::ReportUnlessMulticast(..)));
        Ok(Headers {
            meta: IpMeta {
                source: packet.source().into(),
                destination: packet.destination().into(),
                protocol: upper.protocol,
                ecn: packet.ecn(),
                hop_limit: packet.hop_limit(),
            },
            length: upper.offset,
            total_length: packet.total_length().saturating_sub(upper.offset),
            payload: upper.payload,
            fragment,
            is_refused,
        })
    }
}
