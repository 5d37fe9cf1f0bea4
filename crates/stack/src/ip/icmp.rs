//! ICMP (RFC 792, RFC 1122 section 3.2.2) and ICMPv6 (RFC 4443, RFC 4861): echo, errors out, errors in.

use crate::ip::icmp_message::{HEADER_LENGTH, IcmpError, IcmpHeader, IcmpMessage, IcmpNews};
use crate::ip::network::Network;
use crate::ip::packet::IpMeta;
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::Protocol;
use qanat_wire::neighbor_discovery;
use std::net::IpAddr;

impl Network {
    /// A message of either version. Gives what concerns those above.
    pub(crate) fn input_icmp<'m>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        source_mac: MacAddress,
        bytes: &'m [u8],
    ) -> Option<IcmpNews<'m>> {
        match IcmpMessage::read(&meta, bytes) {
            Some(IcmpMessage::EchoRequest { reply, payload }) => {
                let source = self.echo_source(&meta);
                self.echo(now, vnic, (source, meta.source), &reply, payload);
                None
            }
            Some(IcmpMessage::Error { error, quoted }) => self.undelivered(error, quoted),
            // RFC 4861 section 7.1: a hop limit below 255 proves that the message crossed a router.
            Some(IcmpMessage::Discovery(Ok(header))) if meta.hop_limit == neighbor_discovery::HOP_LIMIT => {
                self.input_discovery(now, vnic, meta, source_mac, &header).map(IcmpNews::AddressLost)
            }
            Some(IcmpMessage::OtherV6(message)) => {
                self.input_query(now, meta, &message);
                None
            }
            Some(IcmpMessage::Other) => None,
            None | Some(IcmpMessage::Discovery(_)) => {
                self.counters.icmp_invalid += 1;
                None
            }
        }
    }

    /// The address that an echo request is answered from: the one it was sent to. IPv6's may be a group, and is replaced.
    fn echo_source(&self, request: &IpMeta) -> IpAddr {
        match request.destination {
            IpAddr::V6(group) if group.is_multicast() => {
                self.routes.source_for(request.source).unwrap_or(request.destination)
            }
            own => own,
        }
    }

    /// An error, and what it quotes, if that is readable.
    fn undelivered<'m>(&mut self, error: IcmpError, quoted: Option<(IpMeta, &'m [u8])>) -> Option<IcmpNews<'m>> {
        self.counters.icmp_errors_received += 1;
        let news = quoted.map(|(quoted, payload)| IcmpNews::Undelivered { error, quoted, payload });
        self.counters.icmp_errors_ignored += u64::from(news.is_none());
        news
    }

    /// Answers an echo request if its sender's allowance has another reply. The kernel answers on an address that it shares.
    fn echo(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        (source, destination): (IpAddr, IpAddr),
        reply: &IcmpHeader,
        payload: &[u8],
    ) {
        if self.shared_address || !self.may_echo(now, destination) {
            return;
        }
        self.send_icmp(now, vnic, (source, destination), reply, payload, true);
        self.counters.icmp_echo_answered += 1;
    }

    /// Whether the allowance of `peer` has another echo reply.
    fn may_echo(&mut self, now: Time, peer: IpAddr) -> bool {
        let is_allowed = self.echo_replies.allow(now, peer);
        self.counters.icmp_rate_limited += u64::from(!is_allowed);
        is_allowed
    }

    /// Sends a message with `payload`. If it is longer than a packet, it goes in fragments when `in_fragments`, or not at all.
    fn send_icmp(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        (source, destination): (IpAddr, IpAddr),
        header: &IcmpHeader,
        payload: &[u8],
        in_fragments: bool,
    ) {
        let protocol = if source.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        let meta = IpMeta::new(source, destination, protocol);
        let Some(mut frame) = self.frame(vnic) else { return };
        let room = frame.tailroom().min(usize::from(self.link.mtu).saturating_sub(meta.header_length()));
        let length = HEADER_LENGTH + payload.len();
        let pseudo = meta.pseudo_header_sum(length);
        if length > room {
            let mut bytes = vec![0; if in_fragments { length } else { 0 }];
            if header.emit(&mut bytes, payload, pseudo).is_some() {
                self.counters.icmp_sent += u64::from(self.send_fragments(now, vnic, meta, [&[], &bytes]));
            }
            return;
        }
        let written = frame.append(length).and_then(|bytes| header.emit(bytes, payload, pseudo));
        if written.is_some() {
            self.counters.icmp_sent += 1;
            self.send(now, vnic, meta, frame);
        }
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
        let header = IcmpHeader::unreachable(meta.source, port);
        let quoted = packet.get(..header.quoted_max()).unwrap_or(packet);
        self.send_icmp(now, vnic, (meta.destination, meta.source), &header, quoted, false);
    }
}
