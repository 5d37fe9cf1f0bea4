//! From a TCP segment to its owner: check, look up, hand over.

use crate::ip::icmp_message::IcmpError;
use crate::ip::packet::{IpMeta, Received};
use crate::stack::Stack;
use crate::tables::flow::{FlowKey, FlowOwner};
use crate::tcp::{Disposition, Env, SegmentIn};
use crate::transport::tables::env;
use qanat_api::Chunk;
use qanat_nic::{Frame, Time, Vnic};
use qanat_wire::tcp::{Flags, Segment, SequenceNumber};
use qanat_wire::tcp_options::Options;
use qanat_wire::{checksum, ipv4, ipv6};

/// The segment size a peer takes that names none over IPv6 (RFC 9293 section 3.7.1): 1280 - 60.
const MSS_DEFAULT_V6: u16 = 1_220;

impl Stack {
    /// A TCP segment arrived: `frame` is the whole first frame, `received` says where the parts are.
    #[inline]
    pub(crate) fn input_tcp(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        received: Received,
        mut frame: Frame,
        tail: &mut Vec<Frame>,
    ) {
        let meta = received.meta;
        let bytes = received.layer4(&frame);
        let Ok(view) = Segment::parse(bytes) else {
            self.network.counters.tcp_invalid += 1;
            return;
        };
        let pseudo = meta.pseudo_header_sum(received.total_length);
        if !self.checksum_may_be_partial(view.checksum(), pseudo) {
            let mut sum = checksum::combine(pseudo, checksum::sum(bytes));
            if !tail.is_empty() {
                let rest = Stack::tail_sum(bytes.len(), received.total_length, tail);
                sum = checksum::combine(sum, rest);
            }
            if !checksum::is_valid(sum) {
                self.network.counters.tcp_checksum += 1;
                return;
            }
        }
        let Ok(mut options) = Options::parse(view.options()) else {
            self.network.counters.tcp_invalid += 1;
            return;
        };
        if options.mss.is_none() && view.flags().contains(Flags::SYN) && meta.source.is_ipv6() {
            // TCP itself knows no addresses, and would take IPv4's default.
            options.mss = Some(MSS_DEFAULT_V6);
        }
        let header_length = view.header_length();
        let first_length = bytes.len() - header_length;
        let segment = SegmentIn {
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: &options,
            payload_length: first_length as u32,
            ecn: meta.ecn,
        };
        let (local_port, remote_port) = (view.destination_port(), view.source_port());
        let key = FlowKey::new(&self.secret, meta.destination, local_port, meta.source, remote_port);
        frame.trim_front(received.layer4_offset + header_length);
        frame.truncate(first_length);
        if tail.is_empty() {
            self.input_segment::<true>(now, vnic, &received, key, &segment, frame);
            return;
        }
        // A segment spread over frames is taken as that many segments, as if the network had cut it up; but it is acknowledged as
        // one.
        let payload_length = received.total_length.saturating_sub(header_length);
        let part_flags = Flags(segment.flags.0 & !(Flags::FIN.0 | Flags::PSH.0));
        let first = SegmentIn { flags: part_flags, ..segment };
        self.input_segment::<true>(now, vnic, &received, key, &first, frame);
        let mut position = first_length;
        let count = tail.len();
        for (index, mut part) in tail.drain(..).enumerate() {
            part.truncate(payload_length.saturating_sub(position));
            let flags = if index + 1 == count { segment.flags } else { part_flags };
            // The pointer counts from where the whole begins, and the first part has told of it.
            let flags = Flags(flags.0 & !Flags::URG.0);
            let sequence = segment.sequence + position as u32;
            position += part.len();
            let segment = SegmentIn { sequence, flags, payload_length: part.len() as u32, ..segment };
            self.input_segment::<false>(now, vnic, &received, key, &segment, part);
        }
    }

    /// `FIRST`: it is not the continuation of a segment, so an ACK owed for what came before may go out apart.
    #[inline]
    fn input_segment<const FIRST: bool>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        received: &Received,
        key: FlowKey,
        segment: &SegmentIn<'_>,
        frame: Frame,
    ) {
        let payload = if frame.is_empty() { None } else { Some(Chunk::new(frame)) };
        match self.transport.flow_owner(&key) {
            Some(FlowOwner::Connection(slot)) => {
                if FIRST && self.network.neighbours_by_traffic {
                    self.learn_by_connection(now, vnic, slot, received.source_mac);
                }
                if FIRST && payload.is_some() {
                    self.acknowledge_apart(now, slot, vnic);
                }
                self.input_connection(now, slot, key, segment, payload);
            }
            Some(FlowOwner::HalfOpen(slot)) => self.input_half_open(now, slot, segment, payload),
            Some(FlowOwner::TimeWait(slot)) => self.input_time_wait(now, slot, segment),
            None => {
                if !self.network.accepts(&received.meta) {
                    return;
                }
                if self.network.neighbours_by_traffic
                    && let Some(next_hop) = self.network.routes.next_hop(received.meta.source)
                {
                    self.network.learn(now, vnic, next_hop, received.source_mac, false, true);
                }
                self.input_no_flow(now, key, segment, payload);
            }
        }
    }

    /// Takes an ICMP error that quotes a TCP segment of ours. Gives whether it concerned a connection.
    pub(crate) fn input_tcp_error(&mut self, now: Time, error: IcmpError, quoted: IpMeta, payload: &[u8]) -> bool {
        // RFC 792 promises eight bytes: ports and sequence number.
        let Some(&[a, b, c, d, e, f, g, h]) = payload.first_chunk::<8>() else { return false };
        let (local_port, remote_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let sequence = SequenceNumber(u32::from_be_bytes([e, f, g, h]));
        let key = FlowKey::new(&self.secret, quoted.source, local_port, quoted.destination, remote_port);
        let Some(FlowOwner::Connection(slot)) = self.transport.flow_owner(&key) else { return false };
        let Some(connection) = self.transport.connections.at_mut(slot) else { return false };
        let disposition = match error {
            IcmpError::PacketTooBig(mtu) => {
                // RFC 1191 section 3 and RFC 8201 section 4: below the minimum MTU it can't be true.
                let (minimum, ip) = if quoted.source.is_ipv4() {
                    (552, ipv4::HEADER_LENGTH)
                } else {
                    (ipv6::MTU_MIN as u32, ipv6::HEADER_LENGTH)
                };
                let mtu = mtu.clamp(minimum, u32::from(u16::MAX)) as u16;
                let segment = mtu.saturating_sub((ip + qanat_wire::tcp::HEADER_LENGTH) as u16);
                if connection.tcp.on_path_mtu(segment, sequence, &mut env!(self, now)) {
                    self.transport.path_mtus.learn(now, quoted.destination, segment);
                }
                Disposition::Keep
            }
            IcmpError::Unreachable { why, hard } => {
                connection.tcp.on_unreachable(sequence, why, hard, &mut env!(self, now))
            }
        };
        self.settle(now, slot, disposition);
        true
    }
}
