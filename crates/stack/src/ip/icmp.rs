//! ICMP (RFC 792, RFC 1122 section 3.2.2) and ICMPv6 (RFC 4443, RFC 4861): echo, errors out, errors in.

use crate::ip::icmp_error::{IcmpError, IcmpNews, hard, reason_v4, reason_v6, soft};
use crate::ip::network::Network;
use crate::ip::packet::IpMeta;
use qanat_api::CloseReason;
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::{icmpv4, icmpv6, ipv4, ipv6, neighbor_discovery};
use std::net::IpAddr;

/// RFC 1191 section 7.1: plateaus for routers that do not tell their MTU.
const PLATEAUS: [u16; 9] = [8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68, 0];

/// ICMPv6's checksum covers the length, which only who writes the message knows: it was summed for zero.
fn add_length(message: &mut [u8], meta: &IpMeta) {
    let length = message.len() as u32;
    if !meta.source.is_ipv4()
        && let Some(field) = message.get_mut(2..4)
    {
        let checksum = u16::from_be_bytes([field[0], field[1]]);
        let checksum = qanat_wire::checksum::update_u32(checksum, 0, length);
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

impl Network {
    /// A message over IPv4. Gives what concerns those above.
    pub(crate) fn input_icmpv4<'m>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        bytes: &'m [u8],
    ) -> Option<IcmpNews<'m>> {
        let message = match icmpv4::Message::parse(bytes) {
            Ok(message) if message.checksum_is_valid() => message,
            _ => {
                self.counters.icmp_invalid += 1;
                return None;
            }
        };
        let quoted = ipv4::Packet::parse_quoted(message.payload());
        let error = match icmpv4::Header::parse(&message) {
            icmpv4::Header::EchoRequest { identifier, sequence } => {
                let reply = icmpv4::Header::EchoReply { identifier, sequence };
                let addresses = (meta.destination, meta.source);
                self.echo(now, vnic, addresses, bytes.len(), |frame, _| reply.emit(frame, message.payload()).ok());
                return None;
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
            _ => return None,
        };
        let quoted = quoted.ok().map(|packet| {
            (IpMeta::new(packet.source().into(), packet.destination().into(), packet.protocol()), packet.payload())
        });
        self.undelivered(error, quoted)
    }

    /// A message over IPv6. Gives what concerns those above.
    pub(crate) fn input_icmpv6<'m>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        source_mac: MacAddress,
        bytes: &'m [u8],
    ) -> Option<IcmpNews<'m>> {
        let message = match icmpv6::Message::parse(bytes) {
            Ok(message) if message.checksum_is_valid(meta.pseudo_header_sum(bytes.len())) => message,
            _ => {
                self.counters.icmp_invalid += 1;
                return None;
            }
        };
        if let Some(discovery) = neighbor_discovery::Header::parse(&message) {
            return match discovery {
                // RFC 4861 section 7.1: a hop limit below 255 proves that the message crossed a router.
                Ok(header) if meta.hop_limit == neighbor_discovery::HOP_LIMIT => {
                    self.input_discovery(now, vnic, meta, source_mac, &header).map(IcmpNews::AddressLost)
                }
                _ => {
                    self.counters.icmp_invalid += 1;
                    None
                }
            };
        }
        if self.input_query(now, meta, &message) {
            return None;
        }
        let error = match icmpv6::Header::parse(&message) {
            icmpv6::Header::EchoRequest { identifier, sequence } => {
                let reply = icmpv6::Header::EchoReply { identifier, sequence };
                let source = if meta.destination.is_multicast() {
                    self.routes.source_for(meta.source).unwrap_or(meta.destination)
                } else {
                    meta.destination
                };
                self.echo(now, vnic, (source, meta.source), bytes.len(), |frame, pseudo| {
                    reply.emit(frame, message.payload(), pseudo).ok()
                });
                return None;
            }
            icmpv6::Header::PacketTooBig { mtu } => IcmpError::PacketTooBig(mtu),
            icmpv6::Header::DestinationUnreachable { code } => reason_v6(code),
            icmpv6::Header::TimeExceeded { .. } => soft(CloseReason::HopLimitExceeded),
            // The peer does not know TCP, or something else in our header.
            icmpv6::Header::ParameterProblem { .. } => hard(CloseReason::ProtocolUnreachable),
            _ => return None,
        };
        let quoted = ipv6::Packet::parse_quoted(message.payload()).ok().map(|packet| {
            (IpMeta::new(packet.source().into(), packet.destination().into(), packet.next_header()), packet.payload())
        });
        self.undelivered(error, quoted)
    }

    /// An error, and what it quotes, if that is readable.
    fn undelivered<'m>(&mut self, error: IcmpError, quoted: Option<(IpMeta, &'m [u8])>) -> Option<IcmpNews<'m>> {
        self.counters.icmp_errors_received += 1;
        let news = quoted.map(|(quoted, payload)| IcmpNews::Undelivered { error, quoted, payload });
        self.counters.icmp_errors_ignored += u64::from(news.is_none());
        news
    }

    /// Answers an echo request, if its sender's allowance has another reply. On an address shared with the kernel it does.
    fn echo(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        (source, destination): (IpAddr, IpAddr),
        length: usize,
        emit: impl FnOnce(&mut [u8], u16) -> Option<usize>,
    ) {
        if self.shared_address || !self.may_echo(now, destination) {
            return;
        }
        self.send_icmp(now, vnic, (source, destination), length, emit);
        self.counters.icmp_echo_answered += 1;
    }

    /// Whether the allowance of `peer` has another echo reply.
    fn may_echo(&mut self, now: Time, peer: IpAddr) -> bool {
        let is_allowed = self.echo_replies.allow(now, peer);
        self.counters.icmp_rate_limited += u64::from(!is_allowed);
        is_allowed
    }

    /// Sends an ICMP message that `emit` writes (given the room and the pseudo-header's sum; returns its length, at most
    /// `length_max`).
    fn send_icmp(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        (source, destination): (IpAddr, IpAddr),
        length_max: usize,
        emit: impl FnOnce(&mut [u8], u16) -> Option<usize>,
    ) {
        let protocol = if source.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        let meta = IpMeta::new(source, destination, protocol);
        let Some(mut frame) = self.frame(vnic) else { return };
        let room = frame.tailroom().min(usize::from(self.link.mtu).saturating_sub(meta.header_length()));
        if length_max > room {
            let mut bytes = vec![0; length_max];
            let Some(length) = emit(&mut bytes, meta.pseudo_header_sum(0)) else { return };
            bytes.truncate(length);
            add_length(&mut bytes, &meta);
            self.counters.icmp_sent += u64::from(self.send_fragments(now, vnic, meta, [&[], &bytes]));
            return;
        }
        let Some(length) = frame.append(room).and_then(|bytes| emit(bytes, meta.pseudo_header_sum(0))) else { return };
        frame.truncate(length);
        add_length(frame.bytes_mut(), &meta);
        self.counters.icmp_sent += 1;
        self.send(now, vnic, meta, frame);
    }

    /// Tells the sender of `packet` (an IP packet to us) that nobody has that port or protocol.
    pub(crate) fn send_unreachable(&mut self, now: Time, vnic: &mut dyn Vnic, meta: IpMeta, packet: &[u8], port: bool) {
        // RFC 1122 section 3.2.2: never about what was not sent to and from a single host.
        let unicast = |address: IpAddr| !address.is_multicast() && !address.is_unspecified();
        if self.shared_address || !unicast(meta.source) || !self.routes.is_own(meta.destination) {
            return;
        }
        if !self.icmp_errors.allow(now, meta.source) {
            self.counters.icmp_rate_limited += 1;
            return;
        }
        match meta.source {
            IpAddr::V4(_) => {
                let code = if port { icmpv4::UnreachableCode::PORT } else { icmpv4::UnreachableCode::PROTOCOL };
                let header = icmpv4::Header::DestinationUnreachable { code, next_hop_mtu: 0 };
                let quoted_max = icmpv4::ERROR_PACKET_LENGTH_MAX - ipv4::HEADER_LENGTH - icmpv4::HEADER_LENGTH;
                let quoted = packet.get(..quoted_max).unwrap_or(packet);
                self.send_icmp(now, vnic, (meta.destination, meta.source), 0, |frame, _| {
                    header.emit(frame, quoted).ok()
                });
            }
            IpAddr::V6(_) => {
                let header = if port {
                    icmpv6::Header::DestinationUnreachable { code: icmpv6::UnreachableCode::PORT }
                } else {
                    icmpv6::Header::ParameterProblem { code: icmpv6::ParameterProblemCode::NEXT_HEADER, pointer: 6 }
                };
                let quoted_max = ipv6::MTU_MIN - ipv6::HEADER_LENGTH - icmpv6::HEADER_LENGTH;
                let quoted = packet.get(..quoted_max).unwrap_or(packet);
                self.send_icmp(now, vnic, (meta.destination, meta.source), 0, |frame, pseudo| {
                    header.emit(frame, quoted, pseudo).ok()
                });
            }
        }
    }
}
