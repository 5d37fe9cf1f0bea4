//! The way in: Ethernet, IPv4 and IPv6, one pass per frame, each handed on to what deals with it.

use crate::ip::headers::{IpVersion, Unreadable, V4, V6};
use crate::ip::icmp_message::IcmpNews;
use crate::ip::packet::{IpMeta, Received, checksum_may_be_partial};
use crate::ip::reassembly::{FragmentPlace, Outcome};
use crate::ip::vlan;
use crate::stack::Stack;
use qanat_api::{Chunk, Event, UdpSocketId};
use qanat_nic::{Frame, Time, Vnic};
use qanat_wire::ethernet::{EtherType, HEADER_LENGTH, MacAddress};
use qanat_wire::ip::Protocol;
use qanat_wire::{arp, checksum, ethernet};
use std::net::SocketAddr;
use std::vec::Drain;

/// Takes datagrams as they come.
pub trait Handler {
    /// Takes what [`Event::Datagram`] would say. It may give any command. It should be `#[inline(always)]`: otherwise the datagram is
    /// put into memory after all.
    fn datagram(&mut self, stack: &mut Stack, vnic: &mut dyn Vnic, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk);
}

/// Takes nothing at once: all events wait.
struct Waits;

impl Handler for Waits {
    #[inline(always)]
    fn datagram(&mut self, stack: &mut Stack, _: &mut dyn Vnic, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) {
        stack.events.push_back(Event::Datagram { socket, peer, chunk });
    }
}

/// A frame, and when it came. (This and [`Incoming`] are made where a function is called that is not in line: then nothing points
/// to the frame itself, and it stays in registers.)
struct Arrived {
    frame: Frame,
    now: Time,
}

/// A frame, and those that came after it.
struct Incoming<'f> {
    frame: Frame,
    rest: Drain<'f, Frame>,
}

impl Stack {
    /// Takes a batch of frames from the device, each to completion. Returns how many; events wait in
    /// [`next_event`](Stack::next_event), and what is to be sent in [`transmit`](Stack::transmit).
    pub fn receive(&mut self, now: Time, vnic: &mut dyn Vnic) -> usize {
        self.receive_with(now, vnic, &mut Waits)
    }

    /// As [`receive`](Stack::receive), but as long as no event waits, datagrams are handed to `handler` as they come: an
    /// event is too large to be put away and fetched again for nothing.
    #[inline]
    pub fn receive_with(&mut self, now: Time, vnic: &mut dyn Vnic, handler: &mut impl Handler) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        let count = vnic.receive(&mut batch, self.receive_batch);
        let frames = batch.drain(..);
        let known = if self.network.neighbours_by_traffic {
            self.input_batch::<true>(now, vnic, frames, handler)
        } else {
            self.input_batch::<false>(now, vnic, frames, handler)
        };
        self.network.counters.receive_frames += known;
        self.network.counters.udp_received += known;
        self.batch = batch;
        count
    }

    /// Takes `frames`; gives how many were datagrams over remembered paths, which are not yet counted. `CONFIRMS`: packets
    /// may confirm their senders' Ethernet addresses.
    ///
    /// (Between a datagram's check and its answer's nothing is written if its handler writes nothing, not even a counter: so
    /// the compiler sees what it need not check again.)
    #[inline(always)]
    fn input_batch<const CONFIRMS: bool>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        mut frames: Drain<'_, Frame>,
        handler: &mut impl Handler,
    ) -> u64 {
        let mut count = 0;
        while let Some(frame) = frames.next() {
            // An event after those that wait would come too early here.
            let known = if self.events.is_empty() { self.input_remembered::<CONFIRMS>(now, &frame) } else { None };
            match known {
                Some(known) => {
                    count += 1;
                    let (socket, peer, chunk) = known.into_parts(frame);
                    handler.datagram(self, vnic, socket, SocketAddr::V4(peer), chunk);
                }
                None if !frame.continues() => self.input_frame(vnic, Arrived { frame, now }),
                None => frames = self.input_frames(now, vnic, Incoming { frame, rest: frames }),
            }
        }
        count
    }

    /// Takes a packet of one frame, and puts its event with those that wait.
    #[inline(never)]
    fn input_frame(&mut self, vnic: &mut dyn Vnic, Arrived { frame, now }: Arrived) {
        if !self.events.is_empty()
            && let Some(known) = self.input_remembered::<true>(now, &frame)
        {
            self.network.counters.receive_frames += 1;
            self.network.counters.udp_received += 1;
            let (socket, peer, chunk) = known.into_parts(frame);
            self.events.push_back(Event::Datagram { socket, peer: SocketAddr::V4(peer), chunk });
            return;
        }
        self.input(now, vnic, frame, &mut Vec::new());
    }

    /// Takes a packet of several frames, and puts its event with those that wait. Gives back what comes after it.
    #[cold]
    #[inline(never)]
    fn input_frames<'f>(&mut self, now: Time, vnic: &mut dyn Vnic, incoming: Incoming<'f>) -> Drain<'f, Frame> {
        let Incoming { frame, rest: mut frames } = incoming;
        let mut tail = std::mem::take(&mut self.tail);
        let mut continues = frame.continues();
        while continues {
            let Some(next) = frames.next() else { break };
            continues = next.continues();
            tail.push(next);
        }
        self.input(now, vnic, frame, &mut tail);
        tail.clear();
        self.tail = tail;
        frames
    }

    /// Takes one packet: `frame`, and in `tail` the frames it goes on in.
    #[inline]
    pub(crate) fn input(&mut self, now: Time, vnic: &mut dyn Vnic, frame: Frame, tail: &mut Vec<Frame>) {
        self.network.counters.receive_frames += 1;
        let Ok(ethernet) = ethernet::Frame::parse(frame.bytes()) else {
            self.network.counters.ethernet_invalid += 1;
            return;
        };
        let destination = ethernet.destination();
        if destination != self.network.link.mac && !destination.is_multicast() {
            self.network.counters.ethernet_other_host += 1;
            return;
        }
        let source_mac = ethernet.source();
        let mut ethertype = ethernet.ethertype();
        let mut frame = frame;
        if ethertype == EtherType::VLAN || self.network.link.vlan != 0 {
            match vlan::untag(&mut frame, ethertype, self.network.link.vlan, &mut self.network.counters) {
                Some(inner) => ethertype = inner,
                None => return,
            }
        }
        match ethertype {
            EtherType::IPV4 => self.input_ip::<V4>(now, vnic, source_mac, frame, tail),
            EtherType::IPV6 => self.input_ip::<V6>(now, vnic, source_mac, frame, tail),
            EtherType::ARP => match arp::Packet::parse(frame.bytes().get(HEADER_LENGTH..).unwrap_or(&[])) {
                Ok(packet) => {
                    if let Some(lost) = self.network.input_arp(now, vnic, arp::Header::parse(&packet)) {
                        self.give_address_up(now, vnic, lost);
                    }
                }
                Err(_) => self.network.counters.arp_invalid += 1,
            },
            _ => self.network.counters.ethernet_invalid += 1,
        }
    }

    // In line, though `input_spread` comes back here.
    #[inline(always)]
    fn input_ip<V: IpVersion>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        source_mac: MacAddress,
        frame: Frame,
        tail: &mut Vec<Frame>,
    ) {
        let tail_length: usize = tail.iter().map(Frame::len).sum();
        let bytes = frame.bytes().get(HEADER_LENGTH..).unwrap_or(&[]);
        let headers = match V::read(bytes, !tail.is_empty(), tail_length) {
            Ok(headers) => headers,
            Err(Unreadable::Malformed) => {
                self.network.counters.ip_invalid += 1;
                return;
            }
            Err(Unreadable::Checksum) => {
                self.network.counters.ip_checksum += 1;
                return;
            }
        };
        if !tail.is_empty() && (headers.fragment.is_some() || headers.meta.protocol != Protocol::TCP) {
            self.input_spread(now, vnic, source_mac, &frame, tail, Stack::input_ip::<V>);
            return;
        }
        if let Some(place) = headers.fragment {
            self.input_fragment(now, vnic, source_mac, headers.meta, place, headers.payload);
            return;
        }
        if headers.is_refused {
            self.network.counters.ip_invalid += 1;
            return;
        }
        let received = Received {
            meta: headers.meta,
            source_mac,
            ip_offset: HEADER_LENGTH,
            layer4_offset: HEADER_LENGTH + headers.length,
            layer4_length: headers.payload.len(),
            total_length: headers.total_length,
        };
        self.input_layer4(now, vnic, received, frame, tail);
    }

    /// Copies a packet that the device has spread over several frames into one, and goes on with that by `input`. TCP takes such a
    /// packet as it came. For all others it is rare, and the copy means that they need not know of it.
    #[cold]
    #[inline(never)]
    fn input_spread(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        source_mac: MacAddress,
        first: &Frame,
        tail: &[Frame],
        input: fn(&mut Stack, Time, &mut dyn Vnic, MacAddress, Frame, &mut Vec<Frame>),
    ) {
        let mut parts = std::iter::once(first).chain(tail);
        let whole = self.reassembly.large_frame().and_then(|mut whole| {
            parts.try_for_each(|part| whole.append_bytes(part.bytes()))?;
            Some(whole)
        });
        match whole {
            Some(whole) => input(self, now, vnic, source_mac, whole, &mut Vec::new()),
            None => self.network.counters.ip_gather_failed += 1,
        }
    }

    /// Takes a fragment; the datagram it completes goes on as if it had come whole.
    fn input_fragment(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        source_mac: MacAddress,
        meta: IpMeta,
        place: FragmentPlace,
        payload: &[u8],
    ) {
        self.network.counters.ip_fragments += 1;
        if !self.network.accepts(&meta) {
            return;
        }
        match self.reassembly.add(now, meta, place, payload) {
            Outcome::Waiting => {}
            Outcome::Dropped => self.network.counters.ip_reassembly_dropped += 1,
            Outcome::Complete(frame, meta) => {
                self.network.counters.ip_reassembled += 1;
                let length = frame.len();
                let received = Received {
                    meta,
                    source_mac,
                    ip_offset: 0,
                    layer4_offset: 0,
                    layer4_length: length,
                    total_length: length,
                };
                self.input_layer4(now, vnic, received, frame, &mut Vec::new());
            }
        }
    }

    #[inline]
    fn input_layer4(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        received: Received,
        frame: Frame,
        tail: &mut Vec<Frame>,
    ) {
        let meta = received.meta;
        if meta.protocol == Protocol::TCP {
            self.input_tcp(now, vnic, received, frame, tail);
            return;
        }
        if !self.network.accepts(&meta) {
            return;
        }
        if self.network.neighbours_by_traffic
            && let Some(next_hop) = self.network.routes.next_hop(meta.source)
        {
            self.network.learn(now, vnic, next_hop, received.source_mac, false, true);
        }
        let icmp = if meta.source.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        match meta.protocol {
            Protocol::UDP => self.input_udp(now, vnic, received, frame),
            protocol if protocol == icmp => {
                let news = self.network.input_icmp(now, vnic, meta, received.source_mac, received.layer4(&frame));
                self.take_icmp_news(now, vnic, news);
            }
            _ => {
                self.network.counters.ip_unknown_protocol += 1;
                if let Some(packet) = received.packet(&frame) {
                    self.network.send_unreachable(now, vnic, meta, packet, false);
                }
            }
        }
    }

    /// What ICMP says to the transports. RFC 5927: an error counts only if it quotes something this side has under way.
    fn take_icmp_news(&mut self, now: Time, vnic: &mut dyn Vnic, news: Option<IcmpNews<'_>>) {
        match news {
            None => {}
            Some(IcmpNews::AddressLost(lost)) => self.give_address_up(now, vnic, lost),
            Some(IcmpNews::Undelivered { error, quoted, payload }) => {
                let known = match quoted.protocol {
                    Protocol::TCP => self.input_tcp_error(now, error, quoted, payload),
                    Protocol::UDP => self.input_udp_error(error, quoted, payload),
                    _ => false,
                };
                self.network.counters.icmp_errors_ignored += u64::from(!known);
            }
        }
    }

    /// Whether a layer-4 checksum field is one that a peer on this machine left for its device to finish.
    #[inline]
    pub(crate) fn checksum_may_be_partial(&self, field: u16, pseudo_header_sum: u16) -> bool {
        checksum_may_be_partial(self.receive_checksum, field, || pseudo_header_sum)
    }

    /// The sum over the rest of a packet's layer-4 bytes, in the frames after the first.
    pub(crate) fn tail_sum(first_length: usize, total_length: usize, tail: &[Frame]) -> u16 {
        let mut sum = 0;
        let mut position = first_length;
        for frame in tail {
            let count = frame.len().min(total_length.saturating_sub(position));
            let part = checksum::sum(frame.bytes().get(..count).unwrap_or(&[]));
            sum = if position.is_multiple_of(2) {
                checksum::combine(sum, part)
            } else {
                checksum::combine_at_odd(sum, part)
            };
            position += count;
        }
        sum
    }
}
