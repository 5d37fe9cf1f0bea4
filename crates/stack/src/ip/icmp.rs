//! ICMP (RFC 792, RFC 1122 section 3.2.2) and ICMPv6 (RFC 4443, RFC 4861): echo, errors out, errors in.

use crate::ip::duplicate_address::AddressState;
use crate::ip::network::{IpMeta, Network};
use crate::stack::Stack;
use qanat_api::CloseReason;
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::neighbor_discovery::{self, Discovery};
use qanat_wire::{icmpv4, icmpv6, ipv4, ipv6};
use std::net::{IpAddr, Ipv6Addr};

/// Why a packet of ours did not arrive, as far as it matters to transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IcmpError {
    /// The packet was larger than a link on its way: the largest IP packet that fits, bytes.
    PacketTooBig(u32),
    /// It could not be delivered. `hard`: nor will it be (port or protocol unreachable, administratively prohibited: RFC
    /// 1122 section 4.2.3.9); otherwise it may be in a while.
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

/// RFC 1191 section 7.1: plateaus for routers that do not tell their MTU.
const PLATEAUS: [u16; 9] = [8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68, 0];

impl Stack {
    pub(crate) fn input_icmpv4(&mut self, now: Time, vnic: &mut dyn Vnic, meta: IpMeta, bytes: &[u8]) {
        let message = match icmpv4::Message::parse(bytes) {
            Ok(message) if message.checksum_is_valid() => message,
            _ => {
                self.network.counters.icmp_invalid += 1;
                return;
            }
        };
        match icmpv4::Header::parse(&message) {
            icmpv4::Header::EchoRequest { identifier, sequence } if !self.network.shared_address => {
                if !self.network.may_echo(now, meta.source) {
                    return;
                }
                let reply = icmpv4::Header::EchoReply { identifier, sequence };
                self.network.send_icmp(now, vnic, (meta.destination, meta.source), bytes.len(), |frame, _| {
                    reply.emit(frame, message.payload()).ok()
                });
                self.network.counters.icmp_echo_answered += 1;
            }
            icmpv4::Header::DestinationUnreachable { code, next_hop_mtu } => {
                let error = match code {
                    icmpv4::UnreachableCode::FRAGMENTATION_NEEDED => {
                        let quoted =
                            ipv4::Packet::parse_quoted(message.payload()).map_or(0, |quoted| quoted.total_length());
                        let mtu = if next_hop_mtu > 0 {
                            next_hop_mtu
                        } else {
                            PLATEAUS.into_iter().find(|plateau| usize::from(*plateau) < quoted).unwrap_or(0)
                        };
                        IcmpError::PacketTooBig(u32::from(mtu))
                    }
                    code => reason_v4(code),
                };
                self.input_icmp_error_v4(now, error, message.payload());
            }
            icmpv4::Header::TimeExceeded { .. } => {
                self.input_icmp_error_v4(now, soft(CloseReason::HopLimitExceeded), message.payload());
            }
            _ => {}
        }
    }

    fn input_icmp_error_v4(&mut self, now: Time, error: IcmpError, quoted: &[u8]) {
        self.network.counters.icmp_errors_received += 1;
        let Ok(packet) = ipv4::Packet::parse_quoted(quoted) else {
            self.network.counters.icmp_errors_ignored += 1;
            return;
        };
        let meta = IpMeta::new(packet.source().into(), packet.destination().into(), packet.protocol());
        self.dispatch_icmp_error(now, error, meta, packet.payload());
    }

    pub(crate) fn input_icmpv6(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        source_mac: MacAddress,
        bytes: &[u8],
    ) {
        let message = match icmpv6::Message::parse(bytes) {
            Ok(message) if message.checksum_is_valid(meta.pseudo_header_sum(bytes.len())) => message,
            _ => {
                self.network.counters.icmp_invalid += 1;
                return;
            }
        };
        if let Some(discovery) = neighbor_discovery::Header::parse(&message) {
            match discovery {
                // RFC 4861 section 7.1: a hop limit below 255 proves that the message crossed a router.
                Ok(header) if meta.hop_limit == neighbor_discovery::HOP_LIMIT => {
                    self.input_discovery(now, vnic, meta, source_mac, &header);
                }
                _ => self.network.counters.icmp_invalid += 1,
            }
            return;
        }
        if self.network.input_query(now, meta, &message) {
            return;
        }
        let error = match icmpv6::Header::parse(&message) {
            icmpv6::Header::EchoRequest { identifier, sequence } => {
                if !self.network.shared_address && self.network.may_echo(now, meta.source) {
                    let reply = icmpv6::Header::EchoReply { identifier, sequence };
                    let source = if meta.destination.is_multicast() {
                        self.network.routes.source_for(meta.source).unwrap_or(meta.destination)
                    } else {
                        meta.destination
                    };
                    self.network.send_icmp(now, vnic, (source, meta.source), bytes.len(), |frame, pseudo| {
                        reply.emit(frame, message.payload(), pseudo).ok()
                    });
                    self.network.counters.icmp_echo_answered += 1;
                }
                return;
            }
            icmpv6::Header::PacketTooBig { mtu } => IcmpError::PacketTooBig(mtu),
            icmpv6::Header::DestinationUnreachable { code } => reason_v6(code),
            icmpv6::Header::TimeExceeded { .. } => soft(CloseReason::HopLimitExceeded),
            // The peer does not know TCP, or something else in our header.
            icmpv6::Header::ParameterProblem { .. } => hard(CloseReason::ProtocolUnreachable),
            _ => return,
        };
        self.network.counters.icmp_errors_received += 1;
        let Ok(packet) = ipv6::Packet::parse_quoted(message.payload()) else {
            self.network.counters.icmp_errors_ignored += 1;
            return;
        };
        let quoted = IpMeta::new(packet.source().into(), packet.destination().into(), packet.next_header());
        self.dispatch_icmp_error(now, error, quoted, packet.payload());
    }

    /// RFC 5927: an error counts only if it quotes something this side has under way.
    fn dispatch_icmp_error(&mut self, now: Time, error: IcmpError, quoted: IpMeta, payload: &[u8]) {
        let known = match quoted.protocol {
            Protocol::TCP => self.input_tcp_error(now, error, quoted, payload),
            Protocol::UDP => self.input_udp_error(error, quoted, payload),
            _ => false,
        };
        if !known {
            self.network.counters.icmp_errors_ignored += 1;
        }
    }

    fn input_discovery(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        source_mac: MacAddress,
        header: &neighbor_discovery::Header,
    ) {
        let IpAddr::V6(source) = meta.source else { return };
        if self.network.shared_address {
            return;
        }
        match header.discovery {
            Discovery::NeighborSolicitation { target } if self.network.routes.is_own(target.into()) => {
                if self.input_conflict(now, vnic, target, source_mac, source.is_unspecified())
                    || !self.network.routes.is_usable(target.into())
                {
                    return;
                }
                let mac = header.options.source_link_layer.unwrap_or(source_mac);
                if !source.is_unspecified() {
                    self.network.learn(now, vnic, source.into(), mac, false, true);
                }
                self.network.advertise(vnic, target, (!source.is_unspecified()).then_some((source, mac)));
            }
            Discovery::NeighborAdvertisement { solicited, target, .. } => {
                if self.input_conflict(now, vnic, target, source_mac, true) {
                    return;
                }
                let mac = header.options.target_link_layer.unwrap_or(source_mac);
                self.network.learn(now, vnic, target.into(), mac, solicited, false);
            }
            Discovery::RouterAdvertisement { lifetime_s, .. } => {
                self.network.learn_router(now, vnic, source, lifetime_s, &header.options);
            }
            _ => {}
        }
    }
}

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
    /// Answers a neighbour solicitation; `to`: who asked (`None`: duplicate address detection, so tell all).
    fn advertise(&mut self, vnic: &mut dyn Vnic, target: Ipv6Addr, to: Option<(Ipv6Addr, MacAddress)>) {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let options = neighbor_discovery::Options {
            target_link_layer: Some(self.link.mac),
            ..neighbor_discovery::Options::default()
        };
        // RFC 4429 section 3.3: with an optimistic address nobody's entry is replaced.
        let replaces = self.routes.state(target.into()) == Some(AddressState::Usable);
        let discovery = Discovery::NeighborAdvertisement { router: false, solicited: to.is_some(), replaces, target };
        let message = neighbor_discovery::Header { discovery, options };
        let (destination, mac) = to.unwrap_or((ALL_NODES, MacAddress::for_ipv6_multicast(ALL_NODES)));
        if self.send_discovery(vnic, target, destination, mac, &message).is_some() {
            self.counters.arp_answered += 1;
        }
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
