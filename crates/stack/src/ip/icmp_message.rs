//! ICMP's messages, whichever version they are of: what those received mean, and how those to send are written.

use crate::ip::own_address::LostAddress;
use crate::ip::packet::IpMeta;
use qanat_api::CloseReason;
use qanat_wire::{icmpv4, icmpv6, ipv4, ipv6, neighbor_discovery};
use std::net::IpAddr;

/// Bytes before a message's payload.
pub(super) const HEADER_LENGTH: usize = icmpv4::HEADER_LENGTH;
const _: () = assert!(HEADER_LENGTH == icmpv6::HEADER_LENGTH, "both versions have the same");

/// RFC 1191 section 7.1: plateaus for routers that do not tell their MTU.
const PLATEAUS: [u16; 9] = [8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68, 0];

/// Why a packet of ours did not arrive, as far as it matters to transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IcmpError {
    /// The packet was larger than a link on its way: the largest IP packet that fits, bytes.
    PacketTooBig(u32),
    /// It could not be delivered. If `hard`, it never will be (port or protocol unreachable, administratively prohibited: RFC
    /// 1122 section 4.2.3.9); otherwise it may be delivered later.
    Unreachable {
        /// The reason for the service.
        why: CloseReason,
        /// See above.
        hard: bool,
    },
}

const fn hard(why: CloseReason) -> IcmpError {
    IcmpError::Unreachable { why, hard: true }
}

const fn soft(why: CloseReason) -> IcmpError {
    IcmpError::Unreachable { why, hard: false }
}

/// RFC 792, RFC 1122 section 3.2.2.1, RFC 1812 section 5.2.7.1.
fn reason_v4(code: icmpv4::UnreachableCode) -> IcmpError {
    use icmpv4::UnreachableCode as Code;
    match code {
        Code::PORT => hard(CloseReason::Refused),
        Code::PROTOCOL => hard(CloseReason::ProtocolUnreachable),
        Code::NETWORK_PROHIBITED | Code::HOST_PROHIBITED | Code::PROHIBITED => hard(CloseReason::Prohibited),
        // Network: unreachable, unknown, or for this type of service.
        Code(0 | 6 | 11) => soft(CloseReason::NetworkUnreachable),
        // Precedence.
        Code(14 | 15) => soft(CloseReason::Prohibited),
        _ => soft(CloseReason::Unreachable),
    }
}

/// RFC 4443 section 3.1.
fn reason_v6(code: icmpv6::UnreachableCode) -> IcmpError {
    use icmpv6::UnreachableCode as Code;
    match code {
        Code::PORT => hard(CloseReason::Refused),
        Code::PROHIBITED => hard(CloseReason::Prohibited),
        Code::NO_ROUTE => soft(CloseReason::NetworkUnreachable),
        // Policy of the source address, rejected route.
        Code(5 | 6) => soft(CloseReason::Prohibited),
        _ => soft(CloseReason::Unreachable),
    }
}

/// What of an ICMP message concerns those above.
pub(crate) enum IcmpNews<'m> {
    /// Something did not arrive, whose beginning is quoted.
    Undelivered {
        error: IcmpError,
        /// What it was, as it was sent.
        quoted: IpMeta,
        /// Its first layer-4 bytes.
        payload: &'m [u8],
    },
    /// One of our addresses is another's.
    AddressLost(LostAddress),
}

/// What a received message means.
pub(super) enum IcmpMessage<'m> {
    /// Its sender wants this back, with the same bytes after it.
    EchoRequest { reply: IcmpHeader, payload: &'m [u8] },
    /// A packet did not arrive. `quoted`: what it was and how it began, if that is readable.
    Error { error: IcmpError, quoted: Option<(IpMeta, &'m [u8])> },
    /// Neighbour discovery of IPv6: its header, or why that is wrong.
    Discovery(Result<neighbor_discovery::Header, qanat_wire::Error>),
    /// Another message of ICMPv6: perhaps about multicast listeners.
    OtherV6(icmpv6::Message<'m>),
    /// Nothing that concerns us.
    Other,
}

impl<'m> IcmpMessage<'m> {
    /// The message in `bytes`, between the addresses of `meta`. `None`: it is malformed, or its checksum is wrong.
    pub(super) fn read(meta: &IpMeta, bytes: &'m [u8]) -> Option<IcmpMessage<'m>> {
        match meta.source {
            IpAddr::V4(_) => {
                let message = icmpv4::Message::parse(bytes).ok()?;
                message.checksum_is_valid().then(|| IcmpMessage::of_v4(&message))
            }
            IpAddr::V6(_) => {
                let message = icmpv6::Message::parse(bytes).ok()?;
                let is_valid = message.checksum_is_valid(meta.pseudo_header_sum(bytes.len()));
                is_valid.then(|| IcmpMessage::of_v6(message))
            }
        }
    }

    fn of_v4(message: &icmpv4::Message<'m>) -> IcmpMessage<'m> {
        let quoted = ipv4::Packet::parse_quoted(message.payload());
        let error = match icmpv4::Header::parse(message) {
            icmpv4::Header::EchoRequest { identifier, sequence } => {
                let reply = IcmpHeader::V4(icmpv4::Header::EchoReply { identifier, sequence });
                return IcmpMessage::EchoRequest { reply, payload: message.payload() };
            }
            icmpv4::Header::DestinationUnreachable { code, next_hop_mtu } => match code {
                icmpv4::UnreachableCode::FRAGMENTATION_NEEDED if next_hop_mtu > 0 => {
                    IcmpError::PacketTooBig(next_hop_mtu.into())
                }
                icmpv4::UnreachableCode::FRAGMENTATION_NEEDED => {
                    let length = quoted.as_ref().map_or(0, ipv4::Packet::total_length);
                    let below = PLATEAUS.into_iter().find(|plateau| usize::from(*plateau) < length);
                    IcmpError::PacketTooBig(below.unwrap_or(0).into())
                }
                code => reason_v4(code),
            },
            icmpv4::Header::TimeExceeded { .. } => soft(CloseReason::HopLimitExceeded),
            _ => return IcmpMessage::Other,
        };
        let quoted = quoted.ok().map(|packet| {
            (IpMeta::new(packet.source().into(), packet.destination().into(), packet.protocol()), packet.payload())
        });
        IcmpMessage::Error { error, quoted }
    }

    fn of_v6(message: icmpv6::Message<'m>) -> IcmpMessage<'m> {
        if let Some(discovery) = neighbor_discovery::Header::parse(&message) {
            return IcmpMessage::Discovery(discovery);
        }
        let error = match icmpv6::Header::parse(&message) {
            icmpv6::Header::EchoRequest { identifier, sequence } => {
                let reply = IcmpHeader::V6(icmpv6::Header::EchoReply { identifier, sequence });
                return IcmpMessage::EchoRequest { reply, payload: message.payload() };
            }
            icmpv6::Header::PacketTooBig { mtu } => IcmpError::PacketTooBig(mtu),
            icmpv6::Header::DestinationUnreachable { code } => reason_v6(code),
            icmpv6::Header::TimeExceeded { .. } => soft(CloseReason::HopLimitExceeded),
            // The peer does not know TCP, or something else in our header.
            icmpv6::Header::ParameterProblem { .. } => hard(CloseReason::ProtocolUnreachable),
            _ => return IcmpMessage::OtherV6(message),
        };
        let quoted = ipv6::Packet::parse_quoted(message.payload()).ok().map(|packet| {
            (IpMeta::new(packet.source().into(), packet.destination().into(), packet.next_header()), packet.payload())
        });
        IcmpMessage::Error { error, quoted }
    }
}

/// The header of a message to send.
pub(super) enum IcmpHeader {
    V4(icmpv4::Header),
    V6(icmpv6::Header),
}

impl IcmpHeader {
    /// Nobody has that port or, if not `port`, that protocol.
    pub(super) fn unreachable(peer: IpAddr, port: bool) -> IcmpHeader {
        match (peer, port) {
            (IpAddr::V4(_), _) => {
                let code = if port { icmpv4::UnreachableCode::PORT } else { icmpv4::UnreachableCode::PROTOCOL };
                IcmpHeader::V4(icmpv4::Header::DestinationUnreachable { code, next_hop_mtu: 0 })
            }
            (IpAddr::V6(_), true) => {
                IcmpHeader::V6(icmpv6::Header::DestinationUnreachable { code: icmpv6::UnreachableCode::PORT })
            }
            (IpAddr::V6(_), false) => IcmpHeader::V6(icmpv6::Header::ParameterProblem {
                code: icmpv6::ParameterProblemCode::NEXT_HEADER,
                pointer: 6,
            }),
        }
    }

    /// Bytes of a packet that an error quotes at most.
    pub(super) fn quoted_max(&self) -> usize {
        match self {
            IcmpHeader::V4(_) => icmpv4::ERROR_PACKET_LENGTH_MAX - ipv4::HEADER_LENGTH - icmpv4::HEADER_LENGTH,
            IcmpHeader::V6(_) => ipv6::MTU_MIN - ipv6::HEADER_LENGTH - icmpv6::HEADER_LENGTH,
        }
    }

    /// Writes the message to the beginning of `bytes`. Gives its length; `None`: there is not enough room.
    pub(super) fn emit(&self, bytes: &mut [u8], payload: &[u8], pseudo_header_sum: u16) -> Option<usize> {
        match self {
            IcmpHeader::V4(header) => header.emit(bytes, payload).ok(),
            IcmpHeader::V6(header) => header.emit(bytes, payload, pseudo_header_sum).ok(),
        }
    }
}
