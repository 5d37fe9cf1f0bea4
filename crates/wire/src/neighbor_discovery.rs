//! Neighbor discovery for IPv6 (RFC 4861): solicitations, advertisements and their options, in ICMPv6 messages.
//!
//! Senders of these must be on the link: the receiver checks that the hop limit is 255, which only the IP layer knows.

use crate::ethernet::MacAddress;
use crate::icmpv6::{
    Message, NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION,
};
use crate::{Error, checksum, field};
use std::net::Ipv6Addr;

/// Hop limit these messages are sent with and must arrive with.
pub const HOP_LIMIT: u8 = 255;

/// Options of one message that are walked; more is [`Error::TooMany`].
pub const OPTIONS_MAX: usize = 32;

/// Prefixes of one router advertisement that are kept; further ones are ignored.
pub const PREFIXES_MAX: usize = 4;

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

/// Bytes of a link-layer address option for Ethernet.
const LINK_LAYER_LENGTH: usize = 8;
/// Bytes of a prefix information option.
const PREFIX_LENGTH: usize = 32;
/// Bytes of an MTU option.
const MTU_LENGTH: usize = 8;

/// A prefix that a router advertises (section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Prefix {
    /// The prefix; bits past `length` are to be ignored.
    pub address: Ipv6Addr,
    /// Bits of it that count, 0 to 128.
    pub length: u8,
    /// Its addresses are on this link.
    pub on_link: bool,
    /// Addresses may be made from it (RFC 4862).
    pub autonomous: bool,
    /// How long it is on-link, seconds; `u32::MAX`: forever.
    pub valid_lifetime_s: u32,
    /// How long addresses made from it are preferred, seconds; `u32::MAX`: forever.
    pub preferred_lifetime_s: u32,
}

/// Up to [`PREFIXES_MAX`] prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Prefixes {
    places: [Option<Prefix>; PREFIXES_MAX],
}

impl Prefixes {
    /// Appends a prefix; says whether there was room.
    pub fn push(&mut self, prefix: Prefix) -> bool {
        match self.places.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(prefix);
                true
            }
            None => false,
        }
    }

    /// The prefixes.
    pub fn iter(&self) -> impl Iterator<Item = &Prefix> {
        self.places.iter().flatten()
    }
}

/// A message's options. Those unknown here are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// Sender's Ethernet address.
    pub source_link_layer: Option<MacAddress>,
    /// Target's Ethernet address.
    pub target_link_layer: Option<MacAddress>,
    /// The link's MTU, bytes.
    pub mtu: Option<u32>,
    /// Prefixes.
    pub prefixes: Prefixes,
}

impl Options {
    /// Reads options. A length of zero or past the end makes the whole message invalid (section 7.1).
    pub fn parse(mut bytes: &[u8]) -> Result<Options, Error> {
        let mut options = Options::default();
        for _ in 0..=OPTIONS_MAX {
            let (kind, units) = match bytes {
                [] => return Ok(options),
                [kind, units, ..] => (*kind, usize::from(*units)),
                [_] => return Err(Error::BadOption),
            };
            if units == 0 {
                return Err(Error::BadOption);
            }
            let (option, rest) = bytes.split_at_checked(units * 8).ok_or(Error::BadOption)?;
            options.take(kind, option);
            bytes = rest;
        }
        Err(Error::TooMany)
    }

    /// One whole option; with another length than its own it is skipped.
    fn take(&mut self, kind: u8, option: &[u8]) {
        match kind {
            SOURCE_LINK_LAYER | TARGET_LINK_LAYER => {
                let Ok(option) = <&[u8; LINK_LAYER_LENGTH]>::try_from(option) else { return };
                let address = Some(MacAddress(field::array_at::<2, 6, _>(option)));
                if kind == SOURCE_LINK_LAYER {
                    self.source_link_layer = address;
                } else {
                    self.target_link_layer = address;
                }
            }
            MTU => {
                let Ok(option) = <&[u8; MTU_LENGTH]>::try_from(option) else { return };
                self.mtu = Some(field::u32_at::<4, _>(option));
            }
            PREFIX => {
                let Ok(option) = <&[u8; PREFIX_LENGTH]>::try_from(option) else { return };
                let (length, flags) = (field::u8_at::<2, _>(option), field::u8_at::<3, _>(option));
                if length > 128 {
                    return;
                }
                self.prefixes.push(Prefix {
                    address: Ipv6Addr::from(field::array_at::<16, 16, _>(option)),
                    length,
                    on_link: flags & 0x80 != 0,
                    autonomous: flags & 0x40 != 0,
                    valid_lifetime_s: field::u32_at::<4, _>(option),
                    preferred_lifetime_s: field::u32_at::<8, _>(option),
                });
            }
            _ => {}
        }
    }

    /// Bytes that [`emit`](Options::emit) writes, a multiple of 8.
    pub fn encoded_length(&self) -> usize {
        let length = |present: bool, length: usize| if present { length } else { 0 };
        length(self.source_link_layer.is_some(), LINK_LAYER_LENGTH)
            + length(self.target_link_layer.is_some(), LINK_LAYER_LENGTH)
            + length(self.mtu.is_some(), MTU_LENGTH)
            + self.prefixes.iter().count() * PREFIX_LENGTH
    }

    /// Writes [`encoded_length`](Options::encoded_length) bytes.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let length = self.encoded_length();
        let mut bytes = bytes.get_mut(..length).ok_or(Error::NoRoom)?;
        let addresses = [(SOURCE_LINK_LAYER, self.source_link_layer), (TARGET_LINK_LAYER, self.target_link_layer)];
        for (kind, address) in addresses {
            let Some(address) = address else { continue };
            let (option, rest) = bytes.split_first_chunk_mut::<LINK_LAYER_LENGTH>().ok_or(Error::NoRoom)?;
            field::put_array_at::<0, 2, _>(option, [kind, 1]);
            field::put_array_at::<2, 6, _>(option, address.0);
            bytes = rest;
        }
        if let Some(mtu) = self.mtu {
            let (option, rest) = bytes.split_first_chunk_mut::<MTU_LENGTH>().ok_or(Error::NoRoom)?;
            field::put_array_at::<0, 4, _>(option, [MTU, 1, 0, 0]);
            field::put_u32_at::<4, _>(option, mtu);
            bytes = rest;
        }
        for prefix in self.prefixes.iter() {
            let (option, rest) = bytes.split_first_chunk_mut::<PREFIX_LENGTH>().ok_or(Error::NoRoom)?;
            let flags = u8::from(prefix.on_link) << 7 | u8::from(prefix.autonomous) << 6;
            field::put_array_at::<0, 4, _>(option, [PREFIX, 4, prefix.length, flags]);
            field::put_u32_at::<4, _>(option, prefix.valid_lifetime_s);
            field::put_u32_at::<8, _>(option, prefix.preferred_lifetime_s);
            field::put_u32_at::<12, _>(option, 0);
            field::put_array_at::<16, 16, _>(option, prefix.address.octets());
            bytes = rest;
        }
        Ok(length)
    }
}

/// A discovery message's fields, without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discovery {
    /// Routers, advertise yourselves (section 4.1).
    RouterSolicitation,
    /// A router is here (section 4.2).
    RouterAdvertisement {
        /// Hop limit to send with; 0: unspecified.
        hop_limit: u8,
        /// Addresses come from DHCPv6.
        managed: bool,
        /// Other configuration comes from DHCPv6.
        other: bool,
        /// How long it is a default router, seconds; 0: it isn't one.
        lifetime_s: u16,
        /// How long a neighbour counts as reachable, milliseconds; 0: unspecified.
        reachable_time_ms: u32,
        /// Between solicitations, milliseconds; 0: unspecified.
        retransmission_time_ms: u32,
    },
    /// Who has the target address (section 4.3)?
    NeighborSolicitation {
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// The sender has the target address (section 4.4).
    NeighborAdvertisement {
        /// The sender is a router.
        router: bool,
        /// Answers a solicitation.
        solicited: bool,
        /// Replaces what is cached.
        replaces: bool,
        /// The address that it is about.
        target: Ipv6Addr,
    },
}

/// A discovery message with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Which, and its fields.
    pub discovery: Discovery,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Reads a discovery message; `None` if it is another kind of message.
    pub fn parse(message: &Message<'_>) -> Option<Result<Header, Error>> {
        let is_discovery = matches!(message.message_type(), ROUTER_SOLICITATION..=NEIGHBOR_ADVERTISEMENT);
        is_discovery.then(|| Header::parse_discovery(message))
    }

    fn parse_discovery(message: &Message<'_>) -> Result<Header, Error> {
        if message.code() != 0 {
            return Err(Error::BadValue);
        }
        let [first, flags, third, fourth] = message.rest();
        let payload = message.payload();
        let (discovery, options) = match message.message_type() {
            ROUTER_SOLICITATION => (Discovery::RouterSolicitation, payload),
            ROUTER_ADVERTISEMENT => {
                let (times, options) = payload.split_first_chunk::<8>().ok_or(Error::Truncated)?;
                let advertisement = Discovery::RouterAdvertisement {
                    hop_limit: first,
                    managed: flags & 0x80 != 0,
                    other: flags & 0x40 != 0,
                    lifetime_s: u16::from_be_bytes([third, fourth]),
                    reachable_time_ms: field::u32_at::<0, _>(times),
                    retransmission_time_ms: field::u32_at::<4, _>(times),
                };
                (advertisement, options)
            }
            NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT => {
                let (target, options) = payload.split_first_chunk::<16>().ok_or(Error::Truncated)?;
                let target = Ipv6Addr::from(*target);
                if target.is_multicast() {
                    return Err(Error::BadValue);
                }
                let discovery = match message.message_type() {
                    NEIGHBOR_SOLICITATION => Discovery::NeighborSolicitation { target },
                    _ => Discovery::NeighborAdvertisement {
                        router: first & 0x80 != 0,
                        solicited: first & 0x40 != 0,
                        replaces: first & 0x20 != 0,
                        target,
                    },
                };
                (discovery, options)
            }
            _ => return Err(Error::BadValue),
        };
        Ok(Header { discovery, options: Options::parse(options)? })
    }

    /// Bytes that [`emit`](Header::emit) writes: the ICMPv6 message.
    pub fn encoded_length(&self) -> usize {
        self.fixed_length() + self.options.encoded_length()
    }

    /// Bytes before the options.
    fn fixed_length(&self) -> usize {
        match self.discovery {
            Discovery::RouterSolicitation => 8,
            Discovery::RouterAdvertisement { .. } => 16,
            Discovery::NeighborSolicitation { .. } | Discovery::NeighborAdvertisement { .. } => 24,
        }
    }

    /// Writes the whole ICMPv6 message with its checksum, [`encoded_length`](Header::encoded_length) bytes, over which
    /// `pseudo_header_sum` is.
    pub fn emit(&self, bytes: &mut [u8], pseudo_header_sum: u16) -> Result<usize, Error> {
        let length = self.encoded_length();
        let bytes = bytes.get_mut(..length).ok_or(Error::NoRoom)?;
        let (fixed, options) = bytes.split_at_mut_checked(self.fixed_length()).ok_or(Error::NoRoom)?;
        self.options.emit(options)?;
        let (header, body) = fixed.split_first_chunk_mut::<8>().ok_or(Error::NoRoom)?;
        let (message_type, rest) = match self.discovery {
            Discovery::RouterSolicitation => (ROUTER_SOLICITATION, [0; 4]),
            Discovery::RouterAdvertisement {
                hop_limit,
                managed,
                other,
                lifetime_s,
                reachable_time_ms,
                retransmission_time_ms,
            } => {
                let times: &mut [u8; 8] = body.first_chunk_mut().ok_or(Error::NoRoom)?;
                field::put_u32_at::<0, _>(times, reachable_time_ms);
                field::put_u32_at::<4, _>(times, retransmission_time_ms);
                let [high, low] = lifetime_s.to_be_bytes();
                (ROUTER_ADVERTISEMENT, [hop_limit, u8::from(managed) << 7 | u8::from(other) << 6, high, low])
            }
            Discovery::NeighborSolicitation { target } => {
                *body.first_chunk_mut().ok_or(Error::NoRoom)? = target.octets();
                (NEIGHBOR_SOLICITATION, [0; 4])
            }
            Discovery::NeighborAdvertisement { router, solicited, replaces, target } => {
                *body.first_chunk_mut().ok_or(Error::NoRoom)? = target.octets();
                let flags = u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(replaces) << 5;
                (NEIGHBOR_ADVERTISEMENT, [flags, 0, 0, 0])
            }
        };
        field::put_array_at::<0, 4, _>(header, [message_type, 0, 0, 0]);
        field::put_array_at::<4, 4, _>(header, rest);
        let sum = checksum::combine(pseudo_header_sum, checksum::sum(bytes));
        let header: &mut [u8; 8] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        field::put_u16_at::<2, _>(header, checksum::finish(sum));
        Ok(length)
    }
}

/// The solicited-node multicast address of an address (RFC 4291, section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}
