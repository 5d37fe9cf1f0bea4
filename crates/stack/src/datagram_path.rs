//! UDP over a remembered path ([`crate::path`]): in and out in a straight line, each header read and written as a whole.
//!
//! Nothing is decided here: a packet that is not exactly what the path was remembered for goes the slow way, whose verdicts
//! these are. A property test holds the two ways against each other (`tests/remembered_paths.rs`).

use crate::event::{Chunk, Event, UdpSocketId};
use crate::input::checksum_may_be_partial;
use crate::path::{AddressPair, Path, mac_word};
use crate::stack::Stack;
use qanat_nic::{ChecksumOffload, Frame, Time, TransmitOptions};
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, ethernet, field, ipv4, udp};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

const IP: usize = ethernet::HEADER_LENGTH;
const UDP: usize = IP + ipv4::HEADER_LENGTH;
/// All headers of a datagram over IPv4 without options, untagged.
pub(crate) const HEADERS: usize = UDP + udp::HEADER_LENGTH;
/// UDP's number as it stands in the pseudo-header, as in memory.
const PROTOCOL: u64 = u16::from_ne_bytes([0, Protocol::UDP.0]) as u64;

/// A datagram that a remembered path takes.
pub(crate) struct Known {
    socket: UdpSocketId,
    peer: SocketAddrV4,
    payload_length: usize,
    /// As in [`Chunk`].
    sum: u32,
}

impl Stack {
    /// A packet that is a datagram over a remembered path: what there is to deliver.
    #[inline(always)]
    pub(crate) fn input_remembered(&mut self, now: Time, frame: &Frame) -> Option<Known> {
        if frame.continues() { None } else { self.known_datagram(now, frame.bytes()) }
    }

    /// Delivers it.
    #[inline(always)]
    pub(crate) fn deliver_remembered(&mut self, known: Known, mut frame: Frame) {
        frame.trim_front(HEADERS);
        frame.truncate(known.payload_length);
        self.network.counters.receive_frames += 1;
        self.network.counters.udp_received += 1;
        let chunk = Chunk::summed(frame, known.sum);
        self.events.push_back(Event::Datagram { socket: known.socket, peer: SocketAddr::V4(known.peer), chunk });
    }

    #[inline(always)]
    fn known_datagram(&mut self, now: Time, bytes: &[u8]) -> Option<Known> {
        let header = bytes.first_chunk::<HEADERS>()?;
        // To us; untagged IPv4 without options; not a fragment; UDP.
        const TYPE_AND_VERSION: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0]);
        const TYPE_AND_VERSION_MASK: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 0]);
        const FRAGMENT: u16 = u16::from_ne_bytes([0x3f, 0xff]);
        if mac_word(field::raw_u64_at::<0, _>(header)) != self.network.paths.mac
            || field::raw_u32_at::<12, _>(header) & TYPE_AND_VERSION_MASK != TYPE_AND_VERSION
            || field::raw_u16_at::<{ IP + 6 }, _>(header) & FRAGMENT != 0
            || field::u8_at::<{ IP + 9 }, _>(header) != Protocol::UDP.0
        {
            return None;
        }
        let raw_addresses = field::raw_u64_at::<{ IP + 12 }, _>(header);
        let path = self.network.paths.get(AddressPair::received(raw_addresses), self.network.version())?;
        let socket = path.socket(field::u16_at::<{ UDP + 2 }, _>(header))?;
        // IPv4's checksum; then the sum of UDP's header and pseudo-header.
        let first = field::raw_u64_at::<IP, _>(header);
        let time_and_protocol = u64::from(field::raw_u32_at::<{ IP + 8 }, _>(header));
        let sum = path.sum() + (first >> 32) + (first & 0xffff_ffff) + time_and_protocol;
        if !checksum::is_valid(checksum::fold(sum)) {
            return None;
        }
        // The datagram fills the packet, and is all here.
        let length = field::u16_at::<{ UDP + 4 }, _>(header);
        let end = usize::from(length) + UDP;
        let packet = bytes.get(..end)?;
        if usize::from(field::u16_at::<{ IP + 2 }, _>(header)) + IP != end {
            return None;
        }
        let field = field::raw_u16_at::<{ UDP + 6 }, _>(header);
        let pseudo = path.sum() + PROTOCOL + u64::from(length.to_be());
        let sum = if field == 0 {
            return None;
        } else if checksum_may_be_partial(self.receive_checksum, field, || checksum::fold(pseudo)) {
            0
        } else {
            let sum = checksum::raw_sum_from(packet, HEADERS)?;
            let upper = field::raw_u64_at::<UDP, _>(header);
            if !checksum::is_valid(checksum::fold(pseudo + (upper >> 32) + (upper & 0xffff_ffff) + u64::from(sum))) {
                return None;
            }
            sum
        };
        if let Some(hint) = path.confirms() {
            if !path.leads_out(now) || !path.is_mac(field::raw_u64_at::<6, _>(header)) {
                return None;
            }
            self.network.neighbours.confirm(now, hint);
        }
        let address = Ipv4Addr::from(field::array_at::<{ IP + 12 }, 4, _>(header));
        let peer = SocketAddrV4::new(address, field::u16_at::<UDP, _>(header));
        Some(Known { socket, peer, payload_length: end.checked_sub(HEADERS)?, sum })
    }

    /// Whether the path from a socket bound to `local` to `peer` is remembered.
    #[inline]
    pub(crate) fn is_remembered(&self, now: Time, local: &SocketAddr, peer: &SocketAddr) -> bool {
        let (SocketAddr::V4(local), SocketAddr::V4(peer)) = (local, peer) else { return false };
        self.remembered_path(now, local, peer).is_some()
    }

    /// The path from a socket bound to `local` to `peer`, if it is remembered.
    #[inline(always)]
    fn remembered_path(&self, now: Time, local: &SocketAddrV4, peer: &SocketAddrV4) -> Option<&Path> {
        let source = match *local.ip() {
            Ipv4Addr::UNSPECIFIED => self.network.routes.source_for_v4(*peer.ip())?,
            source => source,
        };
        self.network.path_to(now, *peer.ip(), source)
    }

    /// Writes the headers of the datagram whose payload is in `frame`, if its path is remembered: what the device is to do
    /// about its checksum. `sum`: the payload's, as in [`Chunk`].
    #[inline(always)]
    pub(crate) fn write_remembered(
        &self,
        now: Time,
        local: &SocketAddr,
        peer: &SocketAddr,
        frame: &mut Frame,
        sum: u32,
    ) -> Option<TransmitOptions> {
        let (SocketAddr::V4(local), SocketAddr::V4(peer)) = (local, peer) else { return None };
        let path = self.remembered_path(now, local, peer)?;
        let link = &self.network.link;
        let payload_length = frame.len();
        // What is too long, or where room is missing, is for the slow way to refuse.
        if payload_length + (HEADERS - IP) > usize::from(link.mtu) || frame.headroom() < HEADERS {
            return None;
        }
        // Less than the MTU, which has 16 bits.
        let length = (payload_length + udp::HEADER_LENGTH) as u16;
        let (local_port, peer_port) = (local.port().to_be(), peer.port().to_be());
        let pseudo = path.sum() + PROTOCOL + u64::from(length.to_be());
        let (checksum, offload) = if link.offload {
            let offload = ChecksumOffload { start: UDP as u16, offset: udp::CHECKSUM_OFFSET as u16 };
            (checksum::fold(pseudo), Some(offload))
        } else {
            let sum = if sum != 0 { u64::from(sum) } else { u64::from(checksum::sum(frame.bytes()).to_be()) };
            let ports = u64::from(local_port) + u64::from(peer_port);
            let checksum = checksum::finish(checksum::fold(pseudo + u64::from(length.to_be()) + ports + sum));
            // 0 would mean that there is none.
            (if checksum == 0 { 0xffff } else { checksum }, None)
        };
        frame.set_continues(false);
        let header = frame.prepend(HEADERS)?.first_chunk_mut::<HEADERS>()?;
        path.write_headers(header, length + ipv4::HEADER_LENGTH as u16);
        field::put_raw_u16_at::<UDP, _>(header, local_port);
        field::put_raw_u16_at::<{ UDP + 2 }, _>(header, peer_port);
        field::put_raw_u16_at::<{ UDP + 4 }, _>(header, length.to_be());
        field::put_raw_u16_at::<{ UDP + 6 }, _>(header, checksum);
        Some(TransmitOptions { continues: false, checksum: offload })
    }
}

#[cfg(test)]
mod tests;
